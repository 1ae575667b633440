import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { createThread, requireThread, updateThread } from "../catalog/edit-threads.js";
import { invalidInput, notSupported } from "../domain/errors.js";
import { isUuid, type ThreadId } from "../domain/ids.js";
import { deleteThread } from "../runs/delete-thread.js";
import { withTenantReads } from "../store/reads.js";
import { searchThreads, threadOrders } from "../store/thread-search.js";
import { threadStates } from "../store/threads.js";
import { type FrontDoor, sendJson } from "./front-door.js";
import { readBody, storableJson } from "./json-body.js";
import { pathId } from "./parameters.js";
import { selectMembers } from "./select.js";
import { toWireThread } from "./wire.js";

const jsonObject = z.record(z.string(), z.unknown());

const createSchema = z.object({
  thread_id: z.string().nullish(),
  metadata: jsonObject.nullish(),
  if_exists: z.enum(["raise", "do_nothing"]).nullish(),
  supersteps: z.array(z.unknown()).nullish(),
  ttl: z.unknown().optional(),
});

const searchSchema = z.object({
  metadata: jsonObject.nullish(),
  values: jsonObject.nullish(),
  ids: z.array(z.string()).max(1000).nullish(),
  status: z.enum(threadStates).nullish(),
  sort_by: z.enum(threadOrders).nullish(),
  sort_order: z.enum(["asc", "desc"]).nullish(),
  limit: z.number().int().min(1).max(1000).nullish(),
  offset: z.number().int().min(0).max(1_000_000_000).nullish(),
  select: z.array(z.string()).nullish(),
  extract: jsonObject.nullish(),
});

const threadMembers = [
  "thread_id",
  "created_at",
  "updated_at",
  "state_updated_at",
  "metadata",
  "config",
  "status",
  "values",
  "interrupts",
] as const;

const updateSchema = z.object({
  metadata: jsonObject.nullish(),
  ttl: z.unknown().optional(),
  values: z.unknown().optional(),
  messages: z.unknown().optional(),
  checkpoint: z.unknown().optional(),
});

const isSet = (value: unknown): boolean => value !== undefined && value !== null;

export function threadRoutes(app: FastifyInstance, door: FrontDoor): void {
  const { plane } = door;

  app.post("/threads", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:write");
    const { given, slice } = readBody(request, createSchema);
    if (given.thread_id && !isUuid(given.thread_id)) throw invalidInput("thread_id", "must be a UUID");
    if (given.supersteps && given.supersteps.length > 0)
      throw notSupported(
        "supersteps",
        "is not supported yet; create the thread, then update its state with POST /threads/{thread_id}/state",
      );
    if (isSet(given.ttl)) throw notSupported("ttl", "is not supported yet; threads are kept until they are deleted");
    const thread = await createThread(plane.stores, scope, {
      threadId: (given.thread_id?.toLowerCase() as ThreadId | undefined) || null,
      metadata: storableJson("metadata", slice("metadata") ?? "{}"),
      ifExists: given.if_exists ?? "raise",
    });
    return sendJson(reply, toWireThread(thread));
  });

  app.post("/threads/search", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const { given, slice } = readBody(request, searchSchema);
    if (given.values && Object.keys(given.values).length > 0)
      throw notSupported("values", "searching by values is not supported yet; search by metadata");
    if (given.extract && Object.keys(given.extract).length > 0)
      throw notSupported("extract", "is not supported yet; select the members that you need");
    if (given.ids?.some((id) => !isUuid(id))) throw invalidInput("ids", "must be UUIDs");
    const select = selectMembers(given.select ?? undefined, threadMembers);
    const limit = given.limit ?? 10;
    const offset = given.offset ?? 0;
    const metadata = slice("metadata");
    const threads = await withTenantReads(plane.stores, scope, (tenant) =>
      searchThreads(tenant, {
        ids: given.ids && given.ids.length > 0 ? (given.ids as ThreadId[]) : null,
        status: given.status ?? null,
        metadata: metadata === null ? null : storableJson("metadata", metadata),
        sortBy: given.sort_by ?? "created_at",
        descending: (given.sort_order ?? "desc") === "desc",
        limit: limit + 1,
        offset,
      }),
    );
    if (threads.length > limit) reply.header("x-pagination-next", String(offset + limit));
    return sendJson(
      reply,
      `[${threads
        .slice(0, limit)
        .map((thread) => select(toWireThread(thread)))
        .join(",")}]`,
    );
  });

  app.get("/threads/:thread_id", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:read");
    const threadId = pathId<ThreadId>(request, "thread_id", "THREAD_NOT_FOUND");
    return sendJson(reply, toWireThread(await requireThread(plane.stores, scope, threadId)));
  });

  app.patch("/threads/:thread_id", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:write");
    const threadId = pathId<ThreadId>(request, "thread_id", "THREAD_NOT_FOUND");
    const { given, slice } = readBody(request, updateSchema);
    for (const name of ["values", "messages", "checkpoint"] as const) {
      if (isSet(given[name]))
        throw notSupported(name, "is not changed here; use POST /threads/{thread_id}/state to update the state");
    }
    if (isSet(given.ttl)) throw notSupported("ttl", "is not supported yet; threads are kept until they are deleted");
    const metadata = storableJson("metadata", slice("metadata") ?? "{}");
    const thread = await updateThread(plane.stores, scope, threadId, metadata);
    if (/(^|[ ,;])return=minimal($|[ ,;])/i.test(String(request.headers["prefer"] ?? ""))) {
      return reply.status(204).send();
    }
    return sendJson(reply, toWireThread(thread));
  });

  app.delete("/threads/:thread_id", async (request, reply) => {
    const scope = door.scopeOf(request, "threads:write");
    await deleteThread(plane, scope, pathId<ThreadId>(request, "thread_id", "THREAD_NOT_FOUND"));
    return reply.status(204).send();
  });
}
