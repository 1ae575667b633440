import type { BudgetId, TenantId } from "../domain/ids.js";
import type { Permission } from "../domain/permissions.js";
import { allows } from "../domain/permissions.js";
import { archiveBudget, changeBudget, createBudget } from "../governance/edit-budgets.js";
import {
  type BudgetPeriod,
  type BudgetScope,
  type BudgetState,
  type BudgetUnit,
  readBudgetState,
} from "../store/budgets.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { BudgetPeriodEnum, BudgetScopeEnum, BudgetUnitEnum, PermissionEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "budgets:read" satisfies Permission;

const BudgetStateRef = builder.objectRef<BudgetState & { readonly amount: bigint }>("BudgetState").implement({
  description: "What the window of now says.",
  fields: (t) => ({
    startsAt: t.field({ type: "DateTime", nullable: true, resolve: (state) => state.startsAt }),
    endsAt: t.field({ type: "DateTime", nullable: true, resolve: (state) => state.endsAt }),
    posted: t.field({ type: "BigInt", description: "Used by runs that have ended.", resolve: (state) => state.posted }),
    held: t.field({ type: "BigInt", description: "Kept for runs that are open.", resolve: (state) => state.held }),
    left: t.field({
      type: "BigInt",
      description: "Negative when runs used more than they held.",
      resolve: (state) => state.amount - state.posted - state.held,
    }),
    position: t.field({
      type: "BigInt",
      description: "The last entry of the ledger that is in these sums.",
      resolve: (state) => state.position,
    }),
    asOf: t.field({ type: "DateTime", resolve: (state) => state.at }),
  }),
});

const Budget = builder.prismaNode("Budget", {
  authScopes: { may: sees },
  description: "How much may be used in a window of time. A run that a hard budget has no room for is not created.",
  id: { resolve: (budget) => budget.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    name: t.exposeString("name"),
    unit: t.field({ type: BudgetUnitEnum, select: { unit: true }, resolve: (budget) => budget.unit as BudgetUnit }),
    scope: t.field({
      type: BudgetScopeEnum,
      select: { scope: true },
      resolve: (budget) => budget.scope as BudgetScope,
    }),
    agentId: t.exposeString("agentId", { nullable: true }),
    apiKeyId: t.exposeString("apiKeyId", { nullable: true }),
    period: t.field({
      type: BudgetPeriodEnum,
      select: { period: true },
      resolve: (budget) => budget.period as BudgetPeriod,
    }),
    zone: t.exposeString("zone", { description: "IANA name: windows begin at its midnights." }),
    amount: t.expose("amount", { type: "BigInt" }),
    runHold: t.expose("runHold", { type: "BigInt", description: "What a run holds from its creation until its end." }),
    hard: t.exposeBoolean("hard", { description: "A soft budget counts and refuses nothing." }),
    version: t.exposeInt("version", { description: "Raised by every change; give it as expectedVersion." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    archivedAt: t.expose("archivedAt", { type: "DateTime", nullable: true }),
    current: t.field({
      type: BudgetStateRef,
      select: { tenantId: true, id: true, amount: true },
      complexity: 5,
      resolve: async (budget, _args, { operation }) => ({
        ...(await readBudgetState(operation, budget.tenantId as TenantId, budget.id as BudgetId)),
        amount: budget.amount,
      }),
    }),
    viewerCan: t.field({
      type: [PermissionEnum],
      description: "What the caller may do with it.",
      resolve: (_budget, _args, { scope }) => (["budgets:write"] as const).filter((name) => allows(scope, name)),
    }),
  }),
});

const BudgetConnection = builder.connectionObject({ type: Budget, name: "BudgetConnection" }, { name: "BudgetEdge" });

builder.queryFields((t) => ({
  budget: t.prismaField({
    type: "Budget",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.budget.findUnique({ ...query, where: rowKey(context, uuidOf("Budget", args.id)) }),
  }),
  budgets: t.connection(
    {
      type: Budget,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { includeArchived: t.arg.boolean({ defaultValue: true }) },
      resolve: (_root, { includeArchived, ...args }, context, info) =>
        readConnection(
          context,
          "budget",
          includeArchived === false ? [{ sql: "archived_at is null" }] : [],
          args,
          (ids) =>
            context.operation.client.budget.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    BudgetConnection,
  ),
}));

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string }>>>;

const payload = (name: string) =>
  builder.objectRef<Payload>(name).implement({
    fields: (t) => ({
      budget: t.prismaField({
        type: "Budget",
        nullable: true,
        resolve: (query, { done }, _args, context) =>
          done ? context.operation.client.budget.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
      }),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const BudgetCreateInput = builder.inputType("BudgetCreateInput", {
  fields: (t) => ({
    name: t.string({ required: true }),
    unit: t.field({ type: BudgetUnitEnum, required: true }),
    scope: t.field({ type: BudgetScopeEnum, required: true }),
    agentId: t.id({ description: "With AGENT: the agent, by its uuid or id." }),
    apiKeyId: t.id({ description: "With KEY: the API key, by its uuid or id." }),
    period: t.field({ type: BudgetPeriodEnum, required: true }),
    zone: t.string({ defaultValue: "UTC", description: "IANA name such as Europe/Berlin." }),
    amount: t.field({
      type: "BigInt",
      required: true,
      description: "Of the unit; USD in nanodollars: $5 are 5000000000.",
    }),
    runHold: t.field({
      type: "BigInt",
      description: "What a run holds from its creation on, of tokens or money. Default: a hundredth of the amount.",
    }),
    hard: t.boolean({ defaultValue: true, description: "False: it counts and refuses nothing." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});
const BudgetUpdateInput = builder.inputType("BudgetUpdateInput", {
  fields: (t) => ({
    id: t.id({ required: true }),
    name: t.string({ description: "Default: stays." }),
    amount: t.field({
      type: "BigInt",
      description: "Default: stays. A lower one takes nothing from runs that are open.",
    }),
    runHold: t.field({ type: "BigInt", description: "Default: stays." }),
    hard: t.boolean({ description: "Default: stays." }),
    expectedVersion: t.int({ required: true, description: "The version that the decision was made on." }),
  }),
});
const BudgetArchiveInput = builder.inputType("BudgetArchiveInput", {
  fields: (t) => ({ id: t.id({ required: true }), expectedVersion: t.int() }),
});

const BudgetCreatePayload = payload("BudgetCreatePayload");
const BudgetUpdatePayload = payload("BudgetUpdatePayload");
const BudgetArchivePayload = payload("BudgetArchivePayload");

builder.mutationFields((t) => ({
  budgetCreate: t.field({
    type: BudgetCreatePayload,
    description: "Holds for every run that is created from now on.",
    authScopes: { may: "budgets:write" },
    args: { input: t.arg({ type: BudgetCreateInput, required: true }) },
    resolve: (_root, { input: { idempotencyKey, ...input } }, context) =>
      outcomeOf(context, async () => {
        const share = input.amount / 100n > 1n ? input.amount / 100n : 1n;
        const budget = {
          name: input.name,
          unit: input.unit,
          scope: input.scope,
          period: input.period,
          amount: input.amount,
          agentId: input.agentId ? uuidOf("Agent", input.agentId) : null,
          apiKeyId: input.apiKeyId ? uuidOf("ApiKey", input.apiKeyId) : null,
          zone: input.zone ?? "UTC",
          runHold: input.runHold ?? (input.unit === "runs" ? 1n : share),
          hard: input.hard ?? true,
        };
        const told = { ...input, amount: String(input.amount), runHold: input.runHold?.toString() ?? null };
        return { id: await createBudget(context.plane.stores, context.scope, budget, onceOf(idempotencyKey, told)) };
      }),
  }),
  budgetUpdate: t.field({
    type: BudgetUpdatePayload,
    description: "Holds at once, on every server.",
    authScopes: { may: "budgets:write" },
    args: { input: t.arg({ type: BudgetUpdateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await changeBudget(context.plane.stores, context.scope, {
          id: uuidOf("Budget", input.id),
          name: input.name ?? null,
          amount: input.amount ?? null,
          runHold: input.runHold ?? null,
          hard: input.hard ?? null,
          expectedVersion: input.expectedVersion,
        }),
      })),
  }),
  budgetArchive: t.field({
    type: BudgetArchivePayload,
    description: "It counts and refuses nothing more; what it counted stays.",
    authScopes: { may: "budgets:write" },
    args: { input: t.arg({ type: BudgetArchiveInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await archiveBudget(context.plane.stores, context.scope, {
          id: uuidOf("Budget", input.id),
          expectedVersion: input.expectedVersion ?? null,
        }),
      })),
  }),
}));
