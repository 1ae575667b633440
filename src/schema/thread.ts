import type { Permission } from "../domain/permissions.js";
import { builder } from "./builder.js";
import { type GraphqlContext, need } from "./context.js";
import { ThreadStatusEnum } from "./enums.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "threads:read" satisfies Permission;

const keyOf = (context: GraphqlContext, id: string) => {
  need(context, sees);
  return { ...rowKey(context, id), deletedAt: null };
};

export const Thread = builder.prismaNode("Thread", {
  authScopes: { may: sees },
  description: "Long-lived context that runs work on, one at a time.",
  id: { resolve: (thread) => thread.id },
  findUnique: (id, context) => keyOf(context, uuidOrNil(id)),
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id", { description: "The id that the Agent Protocol uses." }),
    status: t.field({ type: ThreadStatusEnum, select: { status: true }, resolve: (thread) => thread.status as "idle" }),
    graphId: t.exposeString("graphId", { nullable: true }),
    metadata: t.expose("metadata", { type: "JSON" }),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    updatedAt: t.expose("updatedAt", { type: "DateTime" }),
    stateUpdatedAt: t.expose("stateUpdatedAt", { type: "DateTime" }),
  }),
});

const ThreadConnection = builder.connectionObject({ type: Thread, name: "ThreadConnection" }, { name: "ThreadEdge" });

const ThreadFilter = builder.inputType("ThreadFilter", {
  fields: (t) => ({
    statuses: t.field({ type: [ThreadStatusEnum] }),
    createdFrom: t.field({ type: "DateTime", description: "Included." }),
    createdBefore: t.field({ type: "DateTime", description: "Not included." }),
  }),
});

builder.queryFields((t) => ({
  thread: t.prismaField({
    type: "Thread",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.thread.findUnique({ ...query, where: keyOf(context, uuidOf("Thread", args.id)) }),
  }),
  threads: t.connection(
    {
      type: Thread,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: ThreadFilter }) },
      resolve: (_root, { filter, ...args }, context, info) =>
        readConnection(
          context,
          "thread",
          [
            ...(filter?.statuses ? [{ sql: "status = any ($::text[])", value: filter.statuses }] : []),
            ...(filter?.createdFrom ? [{ sql: "created_at >= $::timestamptz", value: filter.createdFrom }] : []),
            ...(filter?.createdBefore ? [{ sql: "created_at < $::timestamptz", value: filter.createdBefore }] : []),
          ],
          args,
          (ids) =>
            context.operation.client.thread.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    ThreadConnection,
  ),
}));
