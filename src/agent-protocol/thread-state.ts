import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { updateStateMetadata } from "../catalog/edit-threads.js";
import { readHistory, readState, type StatePlace } from "../catalog/read-state.js";
import { DomainError, invalidInput, notSupported } from "../domain/errors.js";
import type { ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { editState } from "../runs/edit-state.js";
import { withTenantReads } from "../store/reads.js";
import { findThreadHead } from "../store/state-views.js";
import { type FrontDoor, sendJson } from "./front-door.js";
import { checkText, readBody, storableJson } from "./json-body.js";
import { pathId, queryFlag, queryList, queryNumber, queryText } from "./parameters.js";
import { selectMembers } from "./select.js";
import { selected } from "./selected-agents.js";
import { toWireCheckpoint, toWireState, toWireStateNow } from "./state-wire.js";

const stateMembers = [
  "values",
  "next",
  "tasks",
  "metadata",
  "created_at",
  "checkpoint",
  "parent_checkpoint",
  "interrupts",
] as const;

const jsonObject = z.record(z.string(), z.unknown());
const id = z.string().max(200);
const checkpointSchema = z.looseObject({
  thread_id: z.string().nullish(),
  checkpoint_ns: id.nullish(),
  checkpoint_id: id.nullish(),
});
// A checkpoint, its id, or a config that names it: all three are sent.
const beforeSchema = z.union([
  id,
  z.looseObject({
    checkpoint_id: id.nullish(),
    configurable: z.looseObject({ checkpoint_id: id.nullish() }).nullish(),
  }),
]);

const readSchema = z.object({
  checkpoint: checkpointSchema.nullish(),
  subgraphs: z.boolean().nullish(),
  select: z.array(z.string()).nullish(),
});
const historySchema = z.object({
  limit: z.number().int().min(1).max(1000).nullish(),
  before: beforeSchema.nullish(),
  metadata: jsonObject.nullish(),
  checkpoint: checkpointSchema.nullish(),
  select: z.array(z.string()).nullish(),
});
const updateSchema = z.object({
  values: z.union([jsonObject, z.array(z.unknown())]).nullish(),
  checkpoint: checkpointSchema.nullish(),
  checkpoint_id: id.nullish(),
  as_node: z.string().max(200).nullish(),
});
const patchSchema = z.object({ metadata: jsonObject.nullish() });

const updateWaitMs = 30_000;

export function threadStateRoutes(app: FastifyInstance, door: FrontDoor): void {
  const { plane } = door;
  const threadOf = (request: FastifyRequest): ThreadId => pathId(request, "thread_id", "THREAD_NOT_FOUND");

  const sendState = async (
    reply: FastifyReply,
    scope: Scope,
    threadId: ThreadId,
    place: StatePlace,
    select: (text: string) => string,
  ): Promise<FastifyReply> => {
    const read = await readState(plane.stores, scope, threadId, place);
    return sendJson(reply, select(toWireStateNow(threadId, read)));
  };

  app.get("/threads/:thread_id/state", (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const subgraphs = queryFlag(request, "subgraphs", false);
    const select = selectMembers(queryList(request, "select"), stateMembers);
    return sendState(reply, scope, threadOf(request), { namespace: "", checkpointId: null, subgraphs }, select);
  });

  app.get("/threads/:thread_id/state/:checkpoint_id", (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const subgraphs = queryFlag(request, "subgraphs", false);
    const select = selectMembers(queryList(request, "select"), stateMembers);
    const checkpointId = checkText("checkpoint_id", (request.params as { checkpoint_id: string }).checkpoint_id);
    return sendState(reply, scope, threadOf(request), { namespace: "", checkpointId, subgraphs }, select);
  });

  app.post("/threads/:thread_id/state/checkpoint", (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const threadId = threadOf(request);
    const { given } = readBody(request, readSchema);
    const select = selectMembers(given.select ?? undefined, stateMembers);
    const place = { ...placeOf(given.checkpoint, threadId), subgraphs: given.subgraphs ?? false };
    return sendState(reply, scope, threadId, place, select);
  });

  app.post("/threads/:thread_id/state", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:write");
    const threadId = threadOf(request);
    const { given, slice } = readBody(request, updateSchema);
    const place = placeOf(given.checkpoint, threadId);
    if (place.namespace !== "")
      throw notSupported("checkpoint.checkpoint_ns", "the state of the root graph is updated; leave it empty");
    const head = await withTenantReads(plane.stores, scope, (tenant) => findThreadHead(tenant, threadId));
    if (!head) throw new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`);
    const assistant = head.agentId ?? head.graphId;
    if (assistant === null)
      throw invalidInput(
        "thread_id",
        "the thread has no assistant whose state could be updated: run one on it first, or name one as graph_id in the thread's metadata",
      );
    const members = [`"values":${slice("values") ?? "null"}`];
    if (given.as_node) members.push(`"as_node":${JSON.stringify(given.as_node)}`);
    const view = await editState(plane, scope, {
      threadId,
      agent: selected(scope, await plane.agents.resolve(scope, assistant), assistant),
      update: `{${members.join(",")}}`,
      fromCheckpointId: given.checkpoint_id || place.checkpointId,
      waitMs: updateWaitMs,
    });
    const checkpoint = toWireCheckpoint(threadId, view.namespace, view.id);
    // Older clients read `configurable`.
    return sendJson(reply, `{"checkpoint":${checkpoint},"configurable":${checkpoint}}`);
  });

  app.patch("/threads/:thread_id/state", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:write");
    const threadId = threadOf(request);
    const { slice } = readBody(request, patchSchema);
    const metadata = storableJson("metadata", slice("metadata") ?? "{}");
    await updateStateMetadata(plane.stores, scope, threadId, metadata);
    return reply.status(204).send();
  });

  app.get("/threads/:thread_id/history", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const threadId = threadOf(request);
    const select = selectMembers(queryList(request, "select"), stateMembers);
    const before = queryText(request, "before");
    const views = await readHistory(plane.stores, scope, threadId, {
      namespace: "",
      before: before ?? null,
      limit: queryNumber(request, "limit", 10, 1, 1000),
      metadata: null,
    });
    return sendJson(reply, `[${views.map((view) => select(toWireState(threadId, view))).join(",")}]`);
  });

  app.post("/threads/:thread_id/history", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const threadId = threadOf(request);
    const { given } = readBody(request, historySchema);
    const select = selectMembers(given.select ?? undefined, stateMembers);
    const { before, metadata } = given;
    const beforeId =
      typeof before === "string" ? before : (before?.checkpoint_id ?? before?.configurable?.checkpoint_id);
    const views = await readHistory(plane.stores, scope, threadId, {
      namespace: placeOf(given.checkpoint, threadId).namespace,
      before: beforeId || null,
      limit: given.limit ?? 10,
      metadata: metadata && Object.keys(metadata).length > 0 ? metadata : null,
    });
    return sendJson(reply, `[${views.map((view) => select(toWireState(threadId, view))).join(",")}]`);
  });
}

function placeOf(checkpoint: z.infer<typeof checkpointSchema> | null | undefined, threadId: ThreadId): StatePlace {
  if (checkpoint?.thread_id && checkpoint.thread_id.toLowerCase() !== threadId)
    throw invalidInput("checkpoint.thread_id", "is another thread's; leave it out or use the thread's own checkpoint");
  return {
    namespace: checkpoint?.checkpoint_ns ?? "",
    checkpointId: checkpoint?.checkpoint_id || null,
  };
}
