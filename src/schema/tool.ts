import type { Permission } from "../domain/permissions.js";
import { runnerServer } from "../domain/tool-rules.js";
import { type Reach, reachOf } from "../governance/tool-policy/decide.js";
import { registerTool } from "../governance/tool-policy/edit.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { ToolReachEnum } from "./enums.js";
import { outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";
import { contentOf } from "./tool-content.js";

const sees = "policies:read" satisfies Permission;

export const Tool = builder.prismaNode("Tool", {
  authScopes: { may: sees },
  description: "A tool of an agent that is known: once a policy is in force, others are denied.",
  id: { resolve: (tool) => tool.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    server: t.exposeString("server"),
    name: t.exposeString("name"),
    agentId: t.exposeString("agentId"),
    schemaDigest: t.string({
      description: "SHA-256 of its JSON Schema, hex. A call of a tool with another one is denied.",
      select: { schemaDigest: true },
      resolve: ({ schemaDigest }) => Buffer.from(schemaDigest).toString("hex"),
    }),
    version: t.exposeInt("version", { description: "Raised when a change of its schema was accepted." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    reach: t.field({
      type: ToolReachEnum,
      nullable: true,
      complexity: 5,
      description: "What a version says about its calls; null when there is no such version.",
      args: { versionId: t.arg.id({ required: true }), user: t.arg.string({ defaultValue: "system" }) },
      select: { server: true, name: true, agentId: true },
      resolve: async ({ server, name, agentId }, { versionId, user }, context): Promise<Reach | null> => {
        const content = await contentOf(context, versionId);
        if (!content) return null;
        const agent = await context.operation.client.agent.findUnique({ where: rowKey(context, agentId) });
        const nowMs = context.plane.clock.now();
        return reachOf(content, { server, name, agentId, graphId: agent?.graphId ?? "", user: user ?? "", nowMs });
      },
    }),
  }),
});

const ToolConnection = builder.connectionObject({ type: Tool, name: "ToolConnection" }, { name: "ToolEdge" });

builder.queryFields((t) => ({
  tools: t.connection(
    {
      type: Tool,
      authScopes: { may: sees },
      complexity: connectionCost,
      resolve: (_root, args, context, info) =>
        readConnection(context, "tool", [], args, (ids) =>
          context.operation.client.tool.findMany({
            ...askedOf(context, info),
            where: { tenantId: context.scope.tenantId, id: { in: ids } },
          }),
        ),
    },
    ToolConnection,
  ),
}));

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string }>>>;
const ToolRegisterPayload = builder.objectRef<Payload>("ToolRegisterPayload").implement({
  fields: (t) => ({
    tool: t.prismaField({
      type: "Tool",
      nullable: true,
      resolve: (query, { done }, _args, context) =>
        done ? context.operation.client.tool.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
    }),
    userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
  }),
});
const ToolRegisterInput = builder.inputType("ToolRegisterInput", {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    server: t.string({ description: `Default: ${runnerServer}.` }),
    name: t.string({ required: true, description: "As the program declares it, byte for byte." }),
    schemaDigest: t.string({ required: true, description: "SHA-256 of its JSON Schema, 64 digits of 0-9 a-f." }),
  }),
});

builder.mutationField("toolRegister", (t) =>
  t.field({
    type: ToolRegisterPayload,
    description: "Makes a tool known, or accepts that its schema changed. Repeating it changes nothing.",
    authScopes: { may: "policies:write" },
    args: { input: t.arg({ type: ToolRegisterInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => {
        const agentId = uuidOf("Agent", input.agentId);
        const { name, schemaDigest } = input;
        const tool = { agentId, server: input.server ?? runnerServer, name, schemaDigest };
        return { id: await registerTool(context.plane.tools, context.scope, tool) };
      }),
  }),
);
