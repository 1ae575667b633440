import { repeat, type Service } from "../platform/lifecycle.js";
import type { Plane } from "../runs/plane.js";
import { queuesWithWork, rehintRuns } from "../store/run-path/moves.js";

// The first way of waking, and the one that needs nothing but Postgres: while GetJobs are parked here, ask once a second whether their queues hold
// anything; and hint again what was hinted long ago and is still pending. Idle, that is two statements a second.

const batch = 500;

export function startRelay(plane: Plane): Service {
  const tick = async (): Promise<void> => {
    const queues = plane.parked.queues();
    if (queues.length > 0)
      for (const queue of await queuesWithWork(plane.stores.sweep, queues)) plane.parked.wake(queue);
    for (const run of await rehintRuns(plane.stores.sweep, batch))
      plane.signals.waiting(run.queue, run.tenantId, run.runId, run.dispatchNo);
  };
  return repeat("relay", plane.limits.relayEveryMs, tick, (error) => {
    plane.log.warn({ err: (error as Error).message }, "the relay could not reach the store");
  });
}
