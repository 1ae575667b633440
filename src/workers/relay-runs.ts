import { repeat, type Service } from "../platform/lifecycle.js";
import type { Plane } from "../runs/plane.js";
import { nextInQueue, queuesWithWork, rehintRuns } from "../store/run-path/moves.js";

// The first way of waking, and the one that needs nothing but Postgres: while GetJobs are parked here, ask once a second whether their queues hold
// anything; and hint again what was hinted long ago and is still pending. Idle, that is four statements in three seconds.

const batch = 500;
const admitted = 100;
const hintEveryTicks = 3;

/** `claims`: whether polls may be answered from here. If not, the runs that are next are admitted and hinted, so that the queue alone gets on. */
export function startRelay(plane: Plane, claims: boolean): Service {
  let ticks = 0;
  const tick = async (): Promise<void> => {
    const queues = plane.parked.queues();
    if (queues.length > 0)
      for (const queue of await queuesWithWork(plane.stores.sweep, queues)) {
        if (claims) plane.parked.wake(queue);
        else {
          const next = await nextInQueue(plane.stores.sweep, queue, admitted, plane.limits.admissionWindow);
          for (const run of next) plane.signals.waiting(queue, run.tenantId, run.runId, 0);
        }
      }
    // A hint is old after five seconds, so every third second is soon enough.
    if (ticks++ % hintEveryTicks !== 0) return;
    for (const run of await rehintRuns(plane.stores.sweep, batch))
      plane.signals.waiting(run.queue, run.tenantId, run.runId, run.dispatchNo);
  };
  return repeat("relay", plane.limits.relayEveryMs, tick, (error) => {
    plane.log.warn({ err: (error as Error).message }, "the relay could not reach the store");
  });
}
