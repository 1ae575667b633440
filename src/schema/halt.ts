import type { Permission } from "../domain/permissions.js";
import { allows } from "../domain/permissions.js";
import { liftHalt } from "../governance/edit-halts.js";
import { haltRuns } from "../runs/halt-runs.js";
import type { Affected, HaltMode, HaltScope } from "../store/halts.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { HaltModeEnum, HaltScopeEnum, PermissionEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "halts:read" satisfies Permission;

export const Halt = builder.prismaNode("Halt", {
  authScopes: { may: sees },
  description: "What an admin has stopped: no run of it starts on any server, from the moment the halt was set.",
  id: { resolve: (halt) => halt.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    scope: t.field({ type: HaltScopeEnum, select: { scope: true }, resolve: (halt) => halt.scope as HaltScope }),
    agentId: t.exposeString("agentId", { nullable: true }),
    kind: t.exposeString("kind", { nullable: true }),
    mode: t.field({ type: HaltModeEnum, select: { mode: true }, resolve: (halt) => halt.mode as HaltMode }),
    reason: t.exposeString("reason"),
    version: t.exposeInt("version", { description: "Raised by every change; give it as expectedVersion." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    expiresAt: t.expose("expiresAt", { type: "DateTime", nullable: true, description: "It ends by itself then." }),
    liftedAt: t.expose("liftedAt", { type: "DateTime", nullable: true }),
    liftedBy: t.exposeString("liftedBy", { nullable: true }),
    viewerCan: t.field({
      type: [PermissionEnum],
      description: "What the caller may do with it.",
      resolve: (_halt, _args, { scope }) => (["halts:lift"] as const).filter((name) => allows(scope, name)),
    }),
  }),
});

const HaltConnection = builder.connectionObject({ type: Halt, name: "HaltConnection" }, { name: "HaltEdge" });

builder.queryFields((t) => ({
  halt: t.prismaField({
    type: "Halt",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.halt.findUnique({ ...query, where: rowKey(context, uuidOf("Halt", args.id)) }),
  }),
  halts: t.connection(
    {
      type: Halt,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { activeOnly: t.arg.boolean({ defaultValue: false, description: "Neither lifted nor expired." }) },
      resolve: (_root, { activeOnly, ...args }, context, info) =>
        readConnection(
          context,
          "halt",
          activeOnly ? [{ sql: "lifted_at is null and (expires_at is null or expires_at > clock_timestamp())" }] : [],
          args,
          (ids) =>
            context.operation.client.halt.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    HaltConnection,
  ),
}));

const HaltAffected = builder.objectRef<Affected>("HaltAffected").implement({
  description: "Open runs that a halt meets.",
  fields: (t) => ({
    pending: t.exposeInt("pending", { description: "Have not started: they wait with BLOCK, and end with CANCEL." }),
    running: t.exposeInt("running", { description: "Run: they go on with BLOCK, and are stopped with CANCEL." }),
  }),
});

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string | null; readonly affected?: Affected }>>>;

const payload = (name: string, counts: boolean) =>
  builder.objectRef<Payload>(name).implement({
    fields: (t) => ({
      halt: t.prismaField({
        type: "Halt",
        nullable: true,
        description: "Null when nothing was done.",
        resolve: (query, { done }, _args, context) =>
          done?.id ? context.operation.client.halt.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
      }),
      ...(counts && {
        affected: t.field({ type: HaltAffected, nullable: true, resolve: ({ done }) => done?.affected ?? null }),
      }),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const HaltCreateInput = builder.inputType("HaltCreateInput", {
  fields: (t) => ({
    scope: t.field({ type: HaltScopeEnum, required: true }),
    agentId: t.id({ description: "With AGENT: the agent, by its uuid or id." }),
    kind: t.string({ description: "With KIND: the kind, as it stands in the agents' programs." }),
    mode: t.field({ type: HaltModeEnum, defaultValue: "block" }),
    reason: t.string({ required: true, description: "For whoever asks why; callers of the agents do not see it." }),
    expiresAt: t.field({ type: "DateTime", description: "Default: it holds until it is lifted." }),
    dryRun: t.boolean({ defaultValue: false, description: "Only counts the runs that it would meet." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});
const HaltLiftInput = builder.inputType("HaltLiftInput", {
  fields: (t) => ({ id: t.id({ required: true }), expectedVersion: t.int() }),
});

const HaltCreatePayload = payload("HaltCreatePayload", true);
const HaltLiftPayload = payload("HaltLiftPayload", false);

builder.mutationFields((t) => ({
  haltCreate: t.field({
    type: HaltCreatePayload,
    description: "Stops a tenant, an agent or a kind. It holds on every server from the moment that this answers.",
    authScopes: { may: "halts:write" },
    args: { input: t.arg({ type: HaltCreateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => {
        const { idempotencyKey, dryRun, ...rest } = input;
        const halt = {
          scope: rest.scope,
          agentId: rest.agentId ? uuidOf("Agent", rest.agentId) : null,
          kind: rest.kind ?? null,
          mode: rest.mode ?? "block",
          reason: rest.reason,
          expiresAt: rest.expiresAt ?? null,
        };
        return haltRuns(context.plane, context.scope, halt, onceOf(idempotencyKey, rest), dryRun ?? false);
      }),
  }),
  haltLift: t.field({
    type: HaltLiftPayload,
    description: "Lets what was stopped go on: runs that wait start at once. What a halt has ended stays ended.",
    authScopes: { may: "halts:lift" },
    args: { input: t.arg({ type: HaltLiftInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await liftHalt(context.plane.stores, context.scope, {
          id: uuidOf("Halt", input.id),
          expectedVersion: input.expectedVersion ?? null,
        }),
      })),
  }),
}));
