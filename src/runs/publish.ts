import { type RunKey, runKey } from "../domain/ids.js";
import { isFinalRunState, type RunState } from "../domain/moves/run.js";
import type { NextRun } from "../store/run-path/finish.js";
import type { RunMoved } from "../store/run-path/moves.js";
import { logChunk, type RunEnd, type RunResult } from "./feeds.js";
import type { Plane } from "./plane.js";

/** Carries a committed stretch of a run's log to its followers, here and elsewhere. */
export function publishChunk(
  plane: Plane,
  key: RunKey,
  firstSeq: number,
  count: number,
  body: Buffer,
  end: RunEnd | null,
  result?: RunResult,
): void {
  const chunk = logChunk(firstSeq, count, body);
  plane.feeds.push(key, chunk);
  if (end) plane.feeds.end(key, end, result);
  plane.signals.committed(key, chunk, end);
}

/** Wakes a run that was committed as pending: a GetJob that is parked here gets it, else the queue and the other processes hear of it. */
export function wakeRun(plane: Plane, run: NextRun, dispatchNo = 0): void {
  if (!run.isAdmitted) {
    plane.parked.wake(run.queue);
    return;
  }
  plane.parked.offer(run.queue, run.tenantId, run.runId, () =>
    plane.signals.waiting(run.queue, run.tenantId, run.runId, dispatchNo),
  );
}

/** What follows from a move of the plane, after its commit. */
export function publishMove(
  plane: Plane,
  tenantId: NextRun["tenantId"],
  moved: RunMoved,
  frames: { bytes: Buffer; count: number },
): void {
  const key = runKey(tenantId, moved.runId);
  if (moved.firstSeq !== null) {
    publishChunk(plane, key, moved.firstSeq, frames.count, frames.bytes, endOf(moved.status, moved.lastSeq));
  }
  if (moved.verdict === "requeued") {
    wakeRun(plane, { tenantId, runId: moved.runId, queue: moved.queue, isAdmitted: true }, moved.fence);
  }
  if (moved.next) wakeRun(plane, moved.next);
}

function endOf(status: RunState, lastSeq: number): RunEnd | null {
  return isFinalRunState(status) ? { status, lastSeq } : null;
}
