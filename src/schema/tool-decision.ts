import { DomainError } from "../domain/errors.js";
import { isUuid } from "../domain/ids.js";
import type { Permission } from "../domain/permissions.js";
import { type Decided, type DecisionReason, decideCall } from "../governance/tool-policy/decide.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { ToolDecisionReasonEnum } from "./enums.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";
import { contentOf } from "./tool-content.js";
import { argumentsOf, selectorOf, ToolSelectorInput } from "./tool-policy.js";

const sees = "decisions:read" satisfies Permission;

export const ToolDecision = builder.prismaNode("ToolDecision", {
  authScopes: { may: sees },
  description: "What was decided about one call of a tool, recorded before the call could be made.",
  id: { resolve: (decision) => decision.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    runId: t.exposeString("runId"),
    agentId: t.exposeString("agentId"),
    server: t.exposeString("server"),
    tool: t.exposeString("tool", { description: "A name that no tool can have stands here quoted and escaped." }),
    user: t.exposeString("user", { description: "For whom the run works." }),
    argumentsDigest: t.string({
      description: "SHA-256 of the canonical arguments, hex.",
      select: { argumentsDigest: true },
      resolve: ({ argumentsDigest }) => Buffer.from(argumentsDigest).toString("hex"),
    }),
    allowed: t.exposeBoolean("allowed"),
    reason: t.field({
      type: ToolDecisionReasonEnum,
      select: { reason: true },
      resolve: ({ reason }) => reason as DecisionReason,
    }),
    rules: t.exposeStringList("rules", { description: "The rules that decided." }),
    explanation: t.exposeString("explanation"),
    policyNumber: t.exposeInt("policyNumber", {
      nullable: true,
      description: "The version by which it was decided; null when none was in force.",
    }),
    micros: t.exposeInt("micros", { description: "How long the evaluation took." }),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
  }),
});

const ToolDecisionConnection = builder.connectionObject(
  { type: ToolDecision, name: "ToolDecisionConnection" },
  { name: "ToolDecisionEdge" },
);

const ToolDecisionFilter = builder.inputType("ToolDecisionFilter", {
  fields: (t) => ({
    runId: t.id(),
    allowed: t.boolean(),
    tool: t.string(),
  }),
});

const ToolPolicySimulation = builder.objectRef<Decided>("ToolPolicySimulation").implement({
  description: "What would be decided. Nothing is recorded.",
  fields: (t) => ({
    allowed: t.exposeBoolean("allowed"),
    reason: t.field({ type: ToolDecisionReasonEnum, resolve: ({ reason }) => reason }),
    rules: t.stringList({ resolve: ({ rules }) => [...rules] }),
    explanation: t.exposeString("explanation"),
  }),
});

const ToolPolicySimulateInput = builder.inputType("ToolPolicySimulateInput", {
  fields: (t) => ({
    versionId: t.id({ required: true, description: "A draft or a published version." }),
    tool: t.field({ type: ToolSelectorInput, required: true }),
    agent: t.string({ required: true, description: "Id or graph id." }),
    user: t.string({ required: true, description: "member:ID, service_account:ID or api_key:ID." }),
    arguments: t.field({ type: "JSON", required: true }),
  }),
});

builder.queryFields((t) => ({
  toolDecisions: t.connection(
    {
      type: ToolDecision,
      description: "The newest first.",
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: ToolDecisionFilter }) },
      resolve: (_root, { filter, ...args }, context, info) =>
        readConnection(
          context,
          "toolDecision",
          [
            ...(filter?.runId ? [{ sql: "run_id = $::uuid", value: uuidOf("Run", filter.runId) }] : []),
            ...(typeof filter?.allowed === "boolean" ? [{ sql: "allowed = $::boolean", value: filter.allowed }] : []),
            ...(filter?.tool ? [{ sql: "tool = $::text", value: filter.tool }] : []),
          ],
          args,
          (ids) =>
            context.operation.client.toolDecision.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    ToolDecisionConnection,
  ),
  toolPolicySimulate: t.field({
    type: ToolPolicySimulation,
    description: "One call under a version, as if the tool were registered.",
    authScopes: { may: "policies:read" },
    args: { input: t.arg({ type: ToolPolicySimulateInput, required: true }) },
    resolve: async (_root, { input }, context) => {
      const content = await contentOf(context, input.versionId);
      if (!content)
        throw new DomainError("NOT_FOUND", "versionId: there is no such version of the tool policy.", {
          field: "versionId",
        });
      const isId = isUuid(input.agent);
      return decideCall(content, {
        ...selectorOf(input.tool),
        ...{ agentId: isId ? input.agent.toLowerCase() : "", graphId: isId ? "" : input.agent, user: input.user },
        ...{ arguments: argumentsOf("arguments", input.arguments), nowMs: context.plane.clock.now() },
      });
    },
  }),
}));
