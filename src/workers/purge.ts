import { setTimeout as pause } from "node:timers/promises";
import { repeat, type Service } from "../platform/lifecycle.js";
import type { Plane } from "../runs/plane.js";
import { purgeDeleted, purgeRequests } from "../store/retention.js";

// What was deleted, and keys of requests that nobody repeats any more, go from the database after a while: in small batches with a pause behind each,
// so that a large backlog takes its time and the path of a run does not notice.

const rows = 500;
const pauseMs = 50;

export function startPurge(plane: Plane): Service {
  const { limits, stores } = plane;
  let stopping = false;
  const drain = async (purge: () => Promise<number>): Promise<void> => {
    while ((await purge()) >= rows && !stopping) await pause(pauseMs);
  };
  const service = repeat(
    "purge",
    limits.purgeEveryMs,
    async () => {
      await drain(() => purgeDeleted(stores.sweep, limits.deletedDataMs, rows));
      await drain(() => purgeRequests(stores.sweep, limits.idempotencyMs, limits.createRequestMs, rows));
    },
    (error) => plane.log.warn({ err: (error as Error).message }, "deleted contents could not be purged"),
  );
  return {
    name: service.name,
    stop: () => {
      stopping = true;
      return service.stop();
    },
  };
}
