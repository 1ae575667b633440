import { builder } from "./builder.js";
import { need } from "./context.js";
import { uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const AuditEvent = builder.prismaNode("AuditEvent", {
  description: "What was done, by whom.",
  id: { resolve: (event) => event.id },
  findUnique: (id, context) => {
    need(context, "admin:read");
    return { tenantId_id: { tenantId: context.scope.tenantId, id: uuidOrNil(id) } };
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    at: t.expose("at", { type: "DateTime" }),
    action: t.exposeString("action"),
    actorKind: t.exposeString("actorKind"),
    actorId: t.exposeString("actorId", { nullable: true }),
    targetKind: t.exposeString("targetKind"),
    targetId: t.exposeString("targetId"),
    detail: t.expose("detail", { type: "JSON" }),
  }),
});

const AuditEventConnection = builder.connectionObject(
  { type: AuditEvent, name: "AuditEventConnection" },
  { name: "AuditEventEdge" },
);

const AuditEventFilter = builder.inputType("AuditEventFilter", {
  fields: (t) => ({
    actions: t.stringList(),
    targetId: t.string({ description: "The UUID of what was acted on." }),
    from: t.field({ type: "DateTime", description: "Included." }),
    before: t.field({ type: "DateTime", description: "Not included." }),
  }),
});

builder.queryField("auditEvents", (t) =>
  t.connection(
    {
      type: AuditEvent,
      authScopes: { scope: "admin:read" },
      complexity: connectionCost,
      args: { filter: t.arg({ type: AuditEventFilter }) },
      resolve: (_root, { filter, ...args }, context, info) =>
        readConnection(
          context,
          "auditEvent",
          [
            ...(filter?.actions ? [{ sql: "action = any ($::text[])", value: filter.actions }] : []),
            ...(filter?.targetId !== null && filter?.targetId !== undefined
              ? [{ sql: "target_id = $", value: filter.targetId }]
              : []),
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
