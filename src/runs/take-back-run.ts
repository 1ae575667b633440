import type { QueueName, RunId, TenantId, ThreadId } from "../domain/ids.js";
import { expireRunRow, type TakeBackCause, takeBackRun } from "../store/run-path/moves.js";
import { attemptFrame, endFrames, type RunFailure } from "./control-frames.js";
import { orderStop } from "./order-stop.js";
import type { Plane } from "./plane.js";
import { publishMove } from "./publish.js";

export interface HeldBy {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly threadId: ThreadId;
  readonly fence: number;
  readonly attempt: number;
}

const failures: Record<TakeBackCause, { reason: string; failure: RunFailure }> = {
  lost: {
    reason: "attempts_exhausted",
    failure: {
      error: "attempts_exhausted",
      message: "The run was interrupted by failures more often than the agent allows.",
    },
  },
  lapsed: {
    reason: "handbacks_exhausted",
    failure: { error: "not_started", message: "The run was handed out again and again, and nobody started it." },
  },
  released: {
    reason: "handbacks_exhausted",
    failure: { error: "not_started", message: "The run was handed back again and again." },
  },
  // Never the reason of an end: it may happen any number of times.
  undelivered: {
    reason: "handbacks_exhausted",
    failure: { error: "not_started", message: "The run reached nobody." },
  },
};

/** Takes a run away from its holder: back to the queue with a higher fence, or to its end when it was tried often enough. `queue` names whose runner
 *  gives it back: a run of another queue is none of its business. */
export async function takeBack(
  plane: Plane,
  run: HeldBy,
  cause: TakeBackCause,
  queue: QueueName | null = null,
): Promise<"requeued" | "ended" | "gone"> {
  const now = plane.clock.now();
  const { reason, failure } = failures[cause];
  const again = attemptFrame(run.runId, run.threadId, cause === "lost" ? run.attempt + 1 : run.attempt, now);
  const end = endFrames("error", failure, now);
  const cancelEnd = endFrames("cancelled", null, now);
  const moved = await takeBackRun(plane.stores.app, {
    tenantId: run.tenantId,
    runId: run.runId,
    fence: run.fence,
    cause,
    queue,
    maxHandbacks: plane.limits.maxHandbacks,
    again,
    end,
    endReason: reason,
    endError: JSON.stringify(failure),
    cancelEnd,
  });
  if (moved.verdict === "gone") return "gone";
  const frames = moved.verdict === "requeued" ? again : moved.status === "cancelled" ? cancelEnd : end;
  orderStop(plane, moved, { ...run, kind: "superseded" });
  publishMove(plane, run.tenantId, moved, frames);
  return moved.verdict === "requeued" ? "requeued" : "ended";
}

/** Ends a run whose time is up, in the queue or while running. */
export async function expireRun(plane: Plane, run: Omit<HeldBy, "attempt">, what: "queue" | "deadline"): Promise<void> {
  const failure: RunFailure =
    what === "queue"
      ? { error: "not_started", message: "Nobody was there to execute the run before its waiting time was over." }
      : { error: "timeout", message: "The run took longer than its agent allows." };
  const status = what === "queue" ? "error" : "timeout";
  const end = endFrames(status, failure, plane.clock.now());
  const reason = what === "queue" ? "not_started" : "run_timeout";
  const moved = await expireRunRow(
    plane.stores.app,
    run.tenantId,
    run.runId,
    status,
    reason,
    JSON.stringify(failure),
    end,
  );
  if (moved.verdict !== "moved") return;
  orderStop(plane, moved, { ...run, kind: "superseded" });
  publishMove(plane, run.tenantId, moved, end);
}
