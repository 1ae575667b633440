import type { Permission } from "../domain/permissions.js";
import { builder } from "./builder.js";
import { type GraphqlContext, need } from "./context.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "agents:read" satisfies Permission;

const AgentVersion = builder.prismaObject("AgentVersion", {
  description: "An agent as it was announced once. A run keeps the version that it began with.",
  select: { tenantId: true, agentId: true, version: true },
  fields: (t) => ({
    version: t.exposeInt("version"),
    recovery: t.exposeString("recovery", { description: "How an interrupted attempt is continued." }),
    maxAttempts: t.exposeInt("maxAttempts"),
    queueTimeoutMs: t.expose("queueTimeoutMs", { type: "BigInt" }),
    runTimeoutMs: t.expose("runTimeoutMs", { type: "BigInt", nullable: true }),
    inputSchema: t.expose("inputSchema", { type: "JSON", nullable: true }),
    outputSchema: t.expose("outputSchema", { type: "JSON", nullable: true }),
    stateSchema: t.expose("stateSchema", { type: "JSON", nullable: true }),
    configSchema: t.expose("configSchema", { type: "JSON", nullable: true }),
    contextSchema: t.expose("contextSchema", { type: "JSON", nullable: true }),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
  }),
});

const keyOf = (context: GraphqlContext, id: string) => {
  need(context, sees);
  return rowKey(context, id);
};

export const Agent = builder.prismaNode("Agent", {
  authScopes: { may: sees },
  description: "What clients call an assistant.",
  id: { resolve: (agent) => agent.id },
  findUnique: (id, context) => keyOf(context, uuidOrNil(id)),
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id", { description: "The id that the Agent Protocol uses." }),
    graphId: t.exposeString("graphId"),
    name: t.exposeString("name"),
    description: t.exposeString("description", { nullable: true }),
    createdBy: t.exposeString("createdBy", {
      description: "system: made from what was announced; user: made by a person.",
    }),
    version: t.exposeInt("version"),
    config: t.expose("config", { type: "JSON" }),
    context: t.expose("context", { type: "JSON" }),
    metadata: t.expose("metadata", { type: "JSON" }),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    updatedAt: t.expose("updatedAt", { type: "DateTime" }),
    versions: t.field({
      type: [AgentVersion],
      description: "The newest first.",
      args: { first: t.arg.int({ defaultValue: 10 }) },
      complexity: (args) => connectionCost(args),
      select: { tenantId: true, id: true },
      resolve: (agent, args, context) =>
        context.operation.client.agentVersion.findMany({
          where: { tenantId: context.scope.tenantId, agentId: agent.id },
          orderBy: { version: "desc" },
          take: Math.min(Math.max(args.first ?? 10, 1), 100),
        }),
    }),
  }),
});

const AgentConnection = builder.connectionObject({ type: Agent, name: "AgentConnection" }, { name: "AgentEdge" });

const AgentFilter = builder.inputType("AgentFilter", {
  fields: (t) => ({ graphId: t.string(), name: t.string({ description: "Part of the name, in any case." }) }),
});

builder.queryFields((t) => ({
  agent: t.prismaField({
    type: "Agent",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.agent.findUnique({ ...query, where: keyOf(context, uuidOf("Agent", args.id)) }),
  }),
  agents: t.connection(
    {
      type: Agent,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: AgentFilter }) },
      resolve: (_root, args, context, info) =>
        readConnection(
          context,
          "agent",
          [
            ...(args.filter?.graphId !== null && args.filter?.graphId !== undefined
              ? [{ sql: "graph_id = $", value: args.filter.graphId }]
              : []),
            ...(args.filter?.name !== null && args.filter?.name !== undefined
              ? [{ sql: "position(lower($::text) in lower(name)) > 0", value: args.filter.name }]
              : []),
          ],
          args,
          (ids) =>
            context.operation.client.agent.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    AgentConnection,
  ),
}));
