import { invalidInput } from "../domain/errors.js";
import type { Permission } from "../domain/permissions.js";
import { readUsage, type UsageRow } from "../store/usage.js";
import { builder } from "./builder.js";
import { UsageDimensionEnum } from "./enums.js";

const sees = "budgets:read" satisfies Permission;
const rowsMax = 1_000;
const daysMax = 400;

const UsageRowRef = builder.objectRef<UsageRow>("UsageRow").implement({
  description: "What was used of one value of each dimension. Dimensions that were not asked for are null.",
  fields: (t) => ({
    agentId: t.string({ nullable: true, resolve: (row) => row.agentId }),
    apiKeyId: t.string({
      nullable: true,
      description: "The key that started the runs; null too for those that none started.",
      resolve: (row) => row.credentialId,
    }),
    model: t.string({ nullable: true, resolve: (row) => row.model }),
    day: t.field({ type: "DateTime", nullable: true, resolve: (row) => row.day }),
    runs: t.field({ type: "BigInt", resolve: (row) => row.runs }),
    inputTokens: t.field({ type: "BigInt", resolve: (row) => row.inputTokens }),
    outputTokens: t.field({ type: "BigInt", resolve: (row) => row.outputTokens }),
    cacheReadTokens: t.field({ type: "BigInt", description: "Of the input.", resolve: (row) => row.cacheReadTokens }),
    nanoUsd: t.field({ type: "BigInt", description: "Of what has a price.", resolve: (row) => row.nanoUsd }),
    partial: t.boolean({
      description: "Some of it has no price, or was told in a way that cannot be read.",
      resolve: (row) => row.isPartial,
    }),
  }),
});

builder.queryField("usage", (t) =>
  t.field({
    type: [UsageRowRef],
    description: "What models have used, by agent, key, model and day; the dearest first. At most 1000 rows.",
    authScopes: { may: sees },
    complexity: 20,
    args: {
      from: t.arg({ type: "DateTime", required: true }),
      to: t.arg({ type: "DateTime", required: true, description: "Not included." }),
      by: t.arg({ type: [UsageDimensionEnum], defaultValue: [] }),
      zone: t.arg.string({ defaultValue: "UTC", description: "IANA name, of the days." }),
    },
    resolve: async (_root, { from, to, by, zone }, { operation, scope }) => {
      if (to <= from) throw invalidInput("to", "must be after from");
      if (to.getTime() - from.getTime() > daysMax * 86_400_000)
        throw invalidInput("to", `at most ${daysMax} days after from`);
      const zones = await operation.query("select 1 from pg_timezone_names where name = $1", [zone ?? "UTC"]);
      if (zones.length === 0) throw invalidInput("zone", "is no IANA time zone; write it as Europe/Berlin or UTC");
      const question = { from, to, by: by ?? [], zone: zone ?? "UTC", limit: rowsMax + 1 };
      const rows = await readUsage(operation, scope.tenantId, question);
      if (rows.length > rowsMax)
        throw invalidInput("by", `more than ${rowsMax} rows: ask for fewer dimensions or a shorter time`);
      return rows;
    },
  }),
);
