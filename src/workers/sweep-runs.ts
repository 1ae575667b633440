import { systemScope } from "../domain/scope.js";
import { repeat, type Service } from "../platform/lifecycle.js";
import { forceCancel } from "../runs/cancel-run.js";
import { stopHaltedRun } from "../runs/halt-runs.js";
import type { Plane } from "../runs/plane.js";
import { expireRun, takeBack } from "../runs/take-back-run.js";
import { isAway } from "../store/client.js";
import { type Swept, sweepQueue, sweepRuns } from "../store/run-path/moves.js";

// The sweep finds leases that ran out, cancels past their grace, deadlines that passed and runs that were halted; the moves decide, under their guards, so any number of
// sweeps may run at once.
//
// An outage is not a runner's death: after a start, a store error, a slow answer or a gap in its own ticks the sweep takes no lease until one whole
// lease has passed, in which living runners renew. A store that stood still answers late and without an error, and then every lease looks lost.
//
// A run that cannot be moved is reported and left: it must not keep the sweep from the others.

const batch = 200;
const queueEveryTicks = 4;

export function startSweep(plane: Plane): Service {
  const { limits, clock } = plane;
  let trustedFrom = clock.monotonic() + limits.leaseMs;
  let lastTick = clock.monotonic();
  let ticks = 0;

  const handle = async (found: Swept): Promise<void> => {
    if (found.what === "ungraceful") {
      await forceCancel(
        plane,
        systemScope(found.tenantId),
        found.runId,
        found.cancelAction ?? "interrupt",
        found.fence,
      );
    } else if (found.what === "halted") {
      await stopHaltedRun(plane, found.tenantId, found.runId);
    } else if (found.what === "overdue") {
      await expireRun(plane, found, "deadline");
    } else if (clock.monotonic() >= trustedFrom) {
      const outcome = await takeBack(plane, found, found.what);
      if (outcome !== "gone")
        plane.log.info(
          { runId: found.runId, attempt: found.attempt, cause: found.what, outcome },
          "a run was taken back",
        );
    }
  };

  const attempt = async (run: Pick<Swept, "tenantId" | "runId">, move: () => Promise<void>): Promise<void> => {
    try {
      await move();
    } catch (error) {
      if (isAway(error)) throw error;
      plane.log.error({ err: error, tenantId: run.tenantId, runId: run.runId }, "a run could not be moved");
    }
  };

  const tick = async (): Promise<void> => {
    const now = clock.monotonic();
    if (now - lastTick > limits.sweepEveryMs + limits.leaseMs / 2) trustedFrom = now + limits.leaseMs;
    lastTick = now;
    const found = await sweepRuns(plane.stores.sweep, batch, limits.cancelGraceMs);
    if (clock.monotonic() - now > limits.leaseMs / 3) trustedFrom = clock.monotonic() + limits.leaseMs;
    for (const run of found) await attempt(run, () => handle(run));
    // Who waits for a runner, waits for an hour: that is looked at less often.
    if (ticks++ % queueEveryTicks === 0) {
      for (const run of await sweepQueue(plane.stores.sweep, batch))
        await attempt(run, () => expireRun(plane, { ...run, fence: 0 }, "queue"));
    }
    lastTick = clock.monotonic();
  };

  return repeat("sweep", limits.sweepEveryMs, tick, (error) => {
    trustedFrom = clock.monotonic() + limits.leaseMs;
    lastTick = clock.monotonic();
    plane.log.warn({ err: (error as Error).message }, "the sweep could not reach the store");
  });
}
