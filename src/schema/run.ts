import type { GraphQLResolveInfo } from "graphql";
import { DomainError } from "../domain/errors.js";
import type { RunId } from "../domain/ids.js";
import type { RunState } from "../domain/moves/run.js";
import type { Permission } from "../domain/permissions.js";
import { cancelRun } from "../runs/cancel-run.js";
import type { Condition } from "../store/graphql-pages.js";
import { Agent } from "./agent.js";
import { builder } from "./builder.js";
import { type GraphqlContext, need } from "./context.js";
import { CancelActionEnum, RunStatusEnum } from "./enums.js";
import { outcomeOf, type UserError, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, type ConnectionArgs, connectionCost, readConnection } from "./pages.js";
import { Thread } from "./thread.js";

const sees = "runs:read" satisfies Permission;

const keyOf = (context: GraphqlContext, id: string) => {
  need(context, sees);
  return { ...rowKey(context, id), deletedAt: null, purpose: "run" };
};

export const Run = builder.prismaNode("Run", {
  authScopes: { may: sees },
  description: "One execution on a thread.",
  id: { resolve: (run) => run.id },
  findUnique: (id, context) => keyOf(context, uuidOrNil(id)),
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id", { description: "The id that the Agent Protocol uses." }),
    status: t.field({ type: RunStatusEnum, select: { status: true }, resolve: (run) => run.status as RunState }),
    statusReason: t.exposeString("statusReason", { nullable: true }),
    error: t.expose("error", { type: "JSON", nullable: true }),
    attempt: t.exposeInt("attempt"),
    maxAttempts: t.exposeInt("maxAttempts"),
    agentVersion: t.exposeInt("agentVersion", { nullable: true, description: "Null until the run first starts." }),
    metadata: t.expose("metadata", { type: "JSON" }),
    lastSeq: t.expose("lastSeq", { type: "BigInt", description: "Number of the last event so far." }),
    cancelRequestedAt: t.expose("cancelRequestedAt", { type: "DateTime", nullable: true }),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    startedAt: t.expose("startedAt", { type: "DateTime", nullable: true }),
    updatedAt: t.expose("updatedAt", { type: "DateTime" }),
    endedAt: t.expose("endedAt", { type: "DateTime", nullable: true }),
    thread: t.relation("thread"),
    agent: t.relation("agent"),
  }),
});

const RunConnection = builder.connectionObject({ type: Run, name: "RunConnection" }, { name: "RunEdge" });

const RunFilter = builder.inputType("RunFilter", {
  fields: (t) => ({
    statuses: t.field({ type: [RunStatusEnum] }),
    agentId: t.id(),
    threadId: t.id(),
    createdFrom: t.field({ type: "DateTime", description: "Included." }),
    createdBefore: t.field({ type: "DateTime", description: "Not included." }),
  }),
});

interface RunFilterShape {
  readonly statuses?: readonly RunState[] | null | undefined;
  readonly agentId?: string | null | undefined;
  readonly threadId?: string | null | undefined;
  readonly createdFrom?: Date | null | undefined;
  readonly createdBefore?: Date | null | undefined;
}

function runPage(context: GraphqlContext, info: GraphQLResolveInfo, args: ConnectionArgs, filter: RunFilterShape) {
  const conditions: Condition[] = [];
  if (filter.statuses) conditions.push({ sql: "status = any ($::text[])", value: filter.statuses });
  if (filter.agentId !== null && filter.agentId !== undefined)
    conditions.push({ sql: "agent_id = $::uuid", value: uuidOf("Agent", filter.agentId) });
  if (filter.threadId !== null && filter.threadId !== undefined)
    conditions.push({ sql: "thread_id = $::uuid", value: uuidOf("Thread", filter.threadId) });
  if (filter.createdFrom) conditions.push({ sql: "created_at >= $::timestamptz", value: filter.createdFrom });
  if (filter.createdBefore) conditions.push({ sql: "created_at < $::timestamptz", value: filter.createdBefore });
  return readConnection(context, "run", conditions, args, (ids) =>
    context.operation.client.run.findMany({
      ...askedOf(context, info),
      where: { tenantId: context.scope.tenantId, id: { in: ids } },
    }),
  );
}

builder.queryFields((t) => ({
  run: t.prismaField({
    type: "Run",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.run.findUnique({ ...query, where: keyOf(context, uuidOf("Run", args.id)) }),
  }),
  runs: t.connection(
    {
      type: Run,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: RunFilter }) },
      resolve: (_root, { filter, ...args }, context, info) => runPage(context, info, args, filter ?? {}),
    },
    RunConnection,
  ),
}));

builder.prismaObjectField(Thread, "runs", (t) =>
  t.connection(
    {
      type: Run,
      complexity: connectionCost,
      select: { id: true },
      args: { filter: t.arg({ type: RunFilter }) },
      resolve: (thread, { filter, ...args }, context, info) =>
        runPage(context, info, args, { ...filter, threadId: thread.id }),
    },
    RunConnection,
  ),
);
builder.prismaObjectField(Agent, "runs", (t) =>
  t.connection(
    {
      type: Run,
      complexity: connectionCost,
      select: { id: true },
      args: { filter: t.arg({ type: RunFilter }) },
      resolve: (agent, { filter, ...args }, context, info) =>
        runPage(context, info, args, { ...filter, agentId: agent.id }),
    },
    RunConnection,
  ),
);

interface RunPayload {
  readonly done: { readonly id: string } | null;
  readonly userErrors: readonly UserError[];
}

const RunCancelPayload = builder.objectRef<RunPayload>("RunCancelPayload").implement({
  fields: (t) => ({
    run: t.prismaField({
      type: "Run",
      nullable: true,
      description: "Null when nothing was done, and after a rollback, which removes the run.",
      resolve: (query, payload, _args, context) =>
        payload.done
          ? context.operation.client.run.findUnique({
              ...query,
              where: { ...rowKey(context, payload.done.id), deletedAt: null },
            })
          : null,
    }),
    userErrors: t.field({ type: [UserErrorRef], resolve: (payload) => payload.userErrors }),
  }),
});

const RunCancelInput = builder.inputType("RunCancelInput", {
  fields: (t) => ({
    id: t.id({ required: true }),
    action: t.field({ type: CancelActionEnum, defaultValue: "interrupt" }),
  }),
});

builder.mutationField("runCancel", (t) =>
  t.field({
    type: RunCancelPayload,
    description: "Asks for a run's end. A run that has not started ends at once; one that has ended stays as it is.",
    authScopes: { may: "runs:cancel" },
    args: { input: t.arg({ type: RunCancelInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => {
        const id = uuidOf("Run", input.id) as RunId;
        await cancelRun(context.plane, context.scope, id, input.action ?? "interrupt").catch((error: unknown) => {
          throw error instanceof DomainError && error.code === "RUN_NOT_FOUND"
            ? new DomainError("RUN_NOT_FOUND", "id: there is no such run.", { field: "id" })
            : error;
        });
        return { id };
      }),
  }),
);
