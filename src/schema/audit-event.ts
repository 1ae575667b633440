import type { Permission } from "../domain/permissions.js";
import type { AuditOutcome } from "../store/audit.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { AuditOutcomeEnum } from "./enums.js";
import { rowKey, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "audit:read" satisfies Permission;

const AuditEvent = builder.prismaNode("AuditEvent", {
  authScopes: { may: sees },
  description: "What was done, by whom.",
  id: { resolve: (event) => event.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    at: t.expose("at", { type: "DateTime" }),
    action: t.exposeString("action"),
    actorKind: t.exposeString("actorKind"),
    actorId: t.exposeString("actorId", { nullable: true }),
    targetKind: t.exposeString("targetKind"),
    targetId: t.exposeString("targetId"),
    outcome: t.field({
      type: AuditOutcomeEnum,
      select: { outcome: true },
      resolve: (event) => event.outcome as AuditOutcome,
    }),
    detail: t.expose("detail", { type: "JSON" }),
    seq: t.expose("seq", {
      type: "BigInt",
      description: "Its number in the tenant's chain: 1, 2, 3 and so on, without gaps.",
    }),
    digest: t.string({
      description: "SHA-256 of the record, hex; docs/audit.md says of which bytes.",
      select: { hash: true },
      resolve: (event) => hex(event.hash),
    }),
    previousDigest: t.string({
      description: "Digest of the record before.",
      select: { prevHash: true },
      resolve: (event) => hex(event.prevHash),
    }),
  }),
});

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

const AuditEventConnection = builder.connectionObject(
  { type: AuditEvent, name: "AuditEventConnection" },
  { name: "AuditEventEdge" },
);

const AuditEventFilter = builder.inputType("AuditEventFilter", {
  fields: (t) => ({
    actions: t.stringList({ description: "Any of these, such as api_key.create." }),
    actorKind: t.string({ description: "api_key, member, operator, system." }),
    actorId: t.string({ description: "The UUID of who acted." }),
    targetKind: t.string({ description: "What was acted on: run, thread, api_key, runner_token, tenant." }),
    targetId: t.string({ description: "The UUID of what was acted on." }),
    outcome: t.field({ type: AuditOutcomeEnum }),
    from: t.field({ type: "DateTime", description: "Included." }),
    before: t.field({ type: "DateTime", description: "Not included." }),
  }),
});

const equal = (column: string, value: string | null | undefined) =>
  value === null || value === undefined ? [] : [{ sql: `${column} = $`, value }];

builder.queryField("auditEvents", (t) =>
  t.connection(
    {
      type: AuditEvent,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: AuditEventFilter }) },
      resolve: (_root, { filter, ...args }, context, info) =>
        readConnection(
          context,
          "auditEvent",
          [
            ...(filter?.actions ? [{ sql: "action = any ($::text[])", value: filter.actions }] : []),
            ...equal("actor_kind", filter?.actorKind),
            ...equal("actor_id", filter?.actorId),
            ...equal("target_kind", filter?.targetKind),
            ...equal("target_id", filter?.targetId),
            ...equal("outcome", filter?.outcome),
            ...(filter?.from ? [{ sql: "at >= $::timestamptz", value: filter.from }] : []),
            ...(filter?.before ? [{ sql: "at < $::timestamptz", value: filter.before }] : []),
          ],
          args,
          (ids) =>
            context.operation.client.auditEvent.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    AuditEventConnection,
  ),
);
