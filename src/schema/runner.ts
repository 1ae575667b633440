import type { Permission } from "../domain/permissions.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { RunnerStatusEnum } from "./enums.js";
import { rowKey, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "runners:read" satisfies Permission;

const Runner = builder.prismaNode("Runner", {
  authScopes: { may: sees },
  description: "A runner process of the tenant's own pool, as it last announced itself.",
  id: { resolve: (runner) => runner.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    kind: t.exposeString("kind"),
    version: t.exposeString("version"),
    capacity: t.exposeInt("capacity", { description: "Runs at once." }),
    graphIds: t.exposeStringList("graphIds"),
    status: t.field({
      type: RunnerStatusEnum,
      select: { status: true },
      resolve: (runner) => runner.status as "ready",
    }),
    token: t.relation("token"),
    connectedAt: t.expose("connectedAt", { type: "DateTime" }),
    lastSeenAt: t.expose("lastSeenAt", { type: "DateTime" }),
    goneAt: t.expose("goneAt", { type: "DateTime", nullable: true }),
  }),
});

const RunnerConnection = builder.connectionObject({ type: Runner, name: "RunnerConnection" }, { name: "RunnerEdge" });

const RunnerFilter = builder.inputType("RunnerFilter", {
  fields: (t) => ({ kind: t.string(), statuses: t.field({ type: [RunnerStatusEnum] }) }),
});

builder.queryField("runners", (t) =>
  t.connection(
    {
      type: Runner,
      description: "Connected runners, unless the filter names other statuses.",
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: RunnerFilter }) },
      resolve: (_root, { filter, ...args }, context, info) =>
        readConnection(
          context,
          "runner",
          [
            { sql: "status = any ($::text[])", value: filter?.statuses ?? ["ready", "draining"] },
            ...(filter?.kind !== null && filter?.kind !== undefined ? [{ sql: "kind = $", value: filter.kind }] : []),
          ],
          args,
          (ids) =>
            context.operation.client.runner.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    RunnerConnection,
  ),
);
