import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { createThread, requireThread } from "../catalog/edit-threads.js";
import { invalidInput } from "../domain/errors.js";
import { isUuid, type ThreadId } from "../domain/ids.js";
import { topLevelSlices } from "../domain/raw-json.js";
import { type FrontDoor, type JsonBody, sendJson } from "./front-door.js";
import { pathId } from "./parameters.js";
import { fromZod, storableJson } from "./run-request.js";
import { toWireThread } from "./wire.js";

const createSchema = z.object({
  thread_id: z.string().nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
  if_exists: z.enum(["raise", "do_nothing"]).nullish(),
});

export function threadRoutes(app: FastifyInstance, door: FrontDoor): void {
  app.post("/threads", async (request, reply) => {
    const scope = door.scopeOf(request, "runs:write");
    const body = (request.body as JsonBody | undefined) ?? { text: "{}", json: {} };
    const parsed = createSchema.safeParse(body.json);
    if (!parsed.success) throw fromZod(parsed.error);
    const { thread_id: id, if_exists: ifExists } = parsed.data;
    if (id && !isUuid(id)) throw invalidInput("thread_id", "must be a UUID");
    const metadata = parsed.data.metadata ? (topLevelSlices(body.text).get("metadata") ?? "{}") : "{}";
    const thread = await createThread(door.plane.stores, scope, {
      threadId: (id?.toLowerCase() as ThreadId | undefined) ?? null,
      metadata: storableJson("metadata", metadata),
      ifExists: ifExists ?? "raise",
    });
    return sendJson(reply, toWireThread(thread));
  });

  app.get("/threads/:thread_id", async (request, reply) => {
    const scope = door.scopeOf(request, "runs:read");
    const threadId = pathId<ThreadId>(request, "thread_id", "THREAD_NOT_FOUND");
    return sendJson(reply, toWireThread(await requireThread(door.plane.stores, scope, threadId)));
  });
}
