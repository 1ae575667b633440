import { invalidInput } from "../domain/errors.js";
import type { Permission } from "../domain/permissions.js";
import { type JsonObject, type JsonValue, readArguments } from "../domain/strict-json.js";
import { type Condition, runnerServer, type ToolPolicyContent } from "../domain/tool-rules.js";
import { draftToolPolicy, publishToolPolicy, restoreToolPolicy } from "../governance/tool-policy/edit.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { RuleEffectEnum, ToolConditionOperatorEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "policies:read" satisfies Permission;

export const ToolPolicyVersion = builder.prismaNode("ToolPolicyVersion", {
  authScopes: { may: sees },
  description: "What agents may do with tools. A draft until it has a number; never changed.",
  id: { resolve: (version) => version.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    name: t.exposeString("name"),
    number: t.exposeInt("number", { nullable: true, description: "Null: a draft." }),
    content: t.expose("content", { type: "JSON", description: "Rules, Cedar text and tests." }),
    digest: t.string({
      description: "SHA-256 of the canonical content, hex: equal contents have equal digests.",
      select: { digest: true },
      resolve: ({ digest }) => Buffer.from(digest).toString("hex"),
    }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    publishedBy: t.exposeString("publishedBy", { nullable: true }),
    publishedAt: t.expose("publishedAt", { type: "DateTime", nullable: true }),
    restores: t.exposeInt("restores", { nullable: true, description: "The older version whose content this is." }),
  }),
});

const ToolPolicyVersionConnection = builder.connectionObject(
  { type: ToolPolicyVersion, name: "ToolPolicyVersionConnection" },
  { name: "ToolPolicyVersionEdge" },
);

const ToolPolicy = builder.objectRef<{ readonly number: number }>("ToolPolicy").implement({
  description: "What governs the tenant's tools now.",
  fields: (t) => ({
    governed: t.boolean({
      description: "False: no version is in force, and every call is allowed.",
      resolve: ({ number }) => number > 0,
    }),
    number: t.exposeInt("number", { description: "Give it as expectedVersion; 0 for none." }),
  }),
});

builder.queryFields((t) => ({
  toolPolicy: t.field({
    type: ToolPolicy,
    authScopes: { may: sees },
    resolve: async (_root, _args, context) => {
      const { tenantId } = context.scope;
      const row = await context.operation.client.toolPolicy.findUnique({ where: { tenantId } });
      return { number: row?.number ?? 0 };
    },
  }),
  toolPolicyVersion: t.prismaField({
    type: "ToolPolicyVersion",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, { id }, context) =>
      context.operation.client.toolPolicyVersion.findUnique({
        ...query,
        where: rowKey(context, uuidOf("ToolPolicyVersion", id)),
      }),
  }),
  toolPolicyVersions: t.connection(
    {
      type: ToolPolicyVersion,
      description: "Drafts and published versions, the newest first.",
      authScopes: { may: sees },
      complexity: connectionCost,
      resolve: (_root, args, context, info) =>
        readConnection(context, "toolPolicyVersion", [], args, (ids) =>
          context.operation.client.toolPolicyVersion.findMany({
            ...askedOf(context, info),
            where: { tenantId: context.scope.tenantId, id: { in: ids } },
          }),
        ),
    },
    ToolPolicyVersionConnection,
  ),
}));

export const ToolSelectorInput = builder.inputType("ToolSelectorInput", {
  fields: (t) => ({
    server: t.string({ description: `Default: ${runnerServer}, the tools that runners wrap.` }),
    name: t.string({ required: true, description: 'Byte for byte; in a rule, "*" is every tool of the server.' }),
  }),
});
const ToolConditionInput = builder.inputType("ToolConditionInput", {
  fields: (t) => ({
    path: t.stringList({ required: true, description: 'Names from the top: ["order", "amount"].' }),
    operator: t.field({ type: ToolConditionOperatorEnum, required: true }),
    value: t.field({ type: "JSON" }),
  }),
});
const ToolRuleInput = builder.inputType("ToolRuleInput", {
  fields: (t) => ({
    id: t.string({ required: true }),
    effect: t.field({ type: RuleEffectEnum, required: true }),
    tools: t.field({ type: [ToolSelectorInput], required: true }),
    agents: t.stringList({ description: "Ids or graph ids; left out for all." }),
    users: t.stringList({ description: "member:ID, service_account:ID or api_key:ID; left out for all." }),
    conditions: t.field({ type: [ToolConditionInput], description: "All must hold." }),
    expiresAt: t.field({ type: "DateTime" }),
  }),
});
const ToolTestInput = builder.inputType("ToolTestInput", {
  fields: (t) => ({
    name: t.string({ required: true }),
    tool: t.field({ type: ToolSelectorInput, required: true }),
    agent: t.string({ required: true }),
    user: t.string({ required: true }),
    arguments: t.field({ type: "JSON", required: true }),
    expect: t.field({ type: RuleEffectEnum, required: true }),
  }),
});
const ToolPolicyDraftCreateInput = builder.inputType("ToolPolicyDraftCreateInput", {
  fields: (t) => ({
    name: t.string({ required: true }),
    rules: t.field({ type: [ToolRuleInput], required: true }),
    cedar: t.string({ description: "More policies as Cedar text." }),
    tests: t.field({ type: [ToolTestInput], description: "Must pass before the version is published." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});
const versionInput = (name: string, what: string) =>
  builder.inputType(name, {
    fields: (t) => ({
      id: t.id({ required: true, description: what }),
      expectedVersion: t.int({ required: true, description: "The number in force that was seen; 0 for none." }),
      dryRun: t.boolean({ description: "Everything is checked, nothing is changed." }),
    }),
  });
const ToolPolicyPublishInput = versionInput("ToolPolicyPublishInput", "A draft.");
const ToolPolicyRestoreInput = versionInput("ToolPolicyRestoreInput", "A version that was published before.");

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string }>>>;
const payload = (name: string) =>
  builder.objectRef<Payload>(name).implement({
    fields: (t) => ({
      toolPolicyVersion: t.prismaField({
        type: "ToolPolicyVersion",
        nullable: true,
        resolve: (query, { done }, _args, context) =>
          done
            ? context.operation.client.toolPolicyVersion.findUnique({ ...query, where: rowKey(context, done.id) })
            : null,
      }),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });
const ToolPolicyDraftCreatePayload = payload("ToolPolicyDraftCreatePayload");
const ToolPolicyPublishPayload = payload("ToolPolicyPublishPayload");
const ToolPolicyRestorePayload = payload("ToolPolicyRestorePayload");

/** As strict as a call's own: what a program wrote into a query may hold numbers that lost digits, but no name twice. */
export function argumentsOf(field: string, value: unknown): JsonObject {
  const read = readArguments(Buffer.from(JSON.stringify(value ?? null)));
  if (!read.ok) throw invalidInput(field, read.complaint);
  return read.value;
}

export const selectorOf = (tool: { server?: string | null | undefined; name: string }) => ({
  server: tool.server ?? runnerServer,
  name: tool.name,
});

builder.mutationFields((t) => ({
  toolPolicyDraftCreate: t.field({
    type: ToolPolicyDraftCreatePayload,
    description: "Checks a version and keeps it; nothing changes for any agent before it is published.",
    authScopes: { may: "policies:write" },
    args: { input: t.arg({ type: ToolPolicyDraftCreateInput, required: true }) },
    resolve: (_root, { input: { idempotencyKey, ...input } }, context) =>
      outcomeOf(context, async () => {
        const content: ToolPolicyContent = {
          rules: input.rules.map((rule) => ({
            ...{ id: rule.id, effect: rule.effect, tools: rule.tools.map(selectorOf) },
            ...{ agents: rule.agents ?? null, users: rule.users ?? null },
            conditions: (rule.conditions ?? []).map(
              ({ path, operator, value }): Condition => ({
                ...{ path, operator },
                ...(value === undefined || value === null ? {} : { value: value as JsonValue }),
              }),
            ),
            expiresAtMs: rule.expiresAt?.getTime() ?? null,
          })),
          cedar: input.cedar ?? "",
          tests: (input.tests ?? []).map(({ tool, arguments: args, ...test }) => ({
            ...{ ...test, tool: selectorOf(tool), arguments: argumentsOf("tests.arguments", args) },
          })),
        };
        const once = onceOf(idempotencyKey, { name: input.name, content: JSON.stringify(content) });
        return { id: await draftToolPolicy(context.plane.tools, context.scope, { name: input.name, content }, once) };
      }),
  }),
  toolPolicyPublish: t.field({
    type: ToolPolicyPublishPayload,
    description: "In force for every call that is asked for afterwards, everywhere, also in runs that have begun.",
    authScopes: { may: "policies:write" },
    args: { input: t.arg({ type: ToolPolicyPublishInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => {
        const id = uuidOf("ToolPolicyVersion", input.id);
        await publishToolPolicy(context.plane.tools, context.scope, { ...input, id, dryRun: input.dryRun ?? false });
        return { id };
      }),
  }),
  toolPolicyRestore: t.field({
    type: ToolPolicyRestorePayload,
    description: "Publishes the content of an older version as a new one.",
    authScopes: { may: "policies:write" },
    args: { input: t.arg({ type: ToolPolicyRestoreInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => {
        const id = uuidOf("ToolPolicyVersion", input.id);
        const change = { ...input, id, dryRun: input.dryRun ?? false };
        return { id: await restoreToolPolicy(context.plane.tools, context.scope, change) };
      }),
  }),
}));
