import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError, invalidInput } from "../domain/errors.js";
import { isUuid, type RunId, type ThreadId } from "../domain/ids.js";
import type { RunState } from "../domain/moves/run.js";
import { type CancelAction, cancelRun } from "../runs/cancel-run.js";
import { withTenantReads } from "../store/reads.js";
import { selectRunIds } from "../store/run-selection.js";
import type { FrontDoor } from "./front-door.js";
import { readBody } from "./json-body.js";
import { queryText } from "./parameters.js";

const schema = z.object({
  thread_id: z.string().nullish(),
  run_ids: z.array(z.string()).max(1_000).nullish(),
  status: z.enum(["pending", "running", "all"]).nullish(),
});

const maxCancelled = 1_000;
const together = 8;

export function cancelActionOf(request: FastifyRequest): CancelAction {
  const action = queryText(request, "action") ?? "interrupt";
  if (action !== "interrupt" && action !== "rollback")
    throw invalidInput("action", 'must be "interrupt" or "rollback"');
  return action;
}

/** Cancels many runs: those of a thread, those named, those in a state, or what all of the given conditions have in common. */
export function cancelRunsRoute(app: FastifyInstance, door: FrontDoor): void {
  app.post("/runs/cancel", async (request, reply) => {
    const scope = door.scopeOf(request, "runs:cancel");
    const action = cancelActionOf(request);
    const { given } = readBody(request, schema);
    const { thread_id: threadId, run_ids: runIds, status } = given;
    if (!threadId && !runIds && !status)
      throw new DomainError("INVALID_INPUT", "body: name the runs by status, or by thread_id and run_ids");
    if (threadId && !isUuid(threadId)) throw new DomainError("THREAD_NOT_FOUND");
    const known = runIds?.filter(isUuid) as RunId[] | undefined;
    const active: RunState[] = status === "pending" || status === "running" ? [status] : ["pending", "running"];
    const found = await withTenantReads(door.plane.stores, scope, (tenant) =>
      selectRunIds(
        tenant,
        {
          threadId: (threadId as ThreadId | undefined) || null,
          runIds: known ?? null,
          // Named runs may have ended meanwhile: that is no mistake.
          statuses: known && !status ? null : active,
        },
        maxCancelled,
      ),
    );
    if (known && found.length === 0) throw new DomainError("RUN_NOT_FOUND", "None of the runs exists.");
    for (let at = 0; at < found.length; at += together) {
      const batch = found.slice(at, at + together);
      await Promise.all(batch.map((runId) => cancelRun(door.plane, scope, runId, action)));
    }
    return reply.status(204).send();
  });
}
