import { DomainError } from "../domain/errors.js";
import { type RunId, runKey, type ThreadId } from "../domain/ids.js";
import { isFinalRunState, type RunState } from "../domain/moves/run.js";
import type { Scope } from "../domain/scope.js";
import { withTenantReads } from "../store/reads.js";
import { findRun, type Run, readOutcome } from "../store/runs.js";
import { metadataFrame } from "./control-frames.js";
import { type FollowerSink, type Following, logChunk, type RunResult } from "./feeds.js";
import type { Plane } from "./plane.js";

export interface FollowTarget {
  readonly id: RunId;
  readonly threadId: ThreadId;
  readonly createdAt: Date;
  readonly status: RunState;
  readonly lastSeq: number;
}

/** The run, or RUN_NOT_FOUND. */
export async function requireRun(plane: Plane, scope: Scope, runId: RunId, threadId: ThreadId | null): Promise<Run> {
  const run = await withTenantReads(plane.stores, scope, (tenant) => findRun(tenant, runId, threadId));
  if (!run)
    throw new DomainError("RUN_NOT_FOUND", `There is no run ${runId}${threadId ? ` on thread ${threadId}` : ""}.`);
  return run;
}

/** Stored events after the cursor, then the live tail, each exactly once and in order, until the end. */
export function followRun(plane: Plane, scope: Scope, run: FollowTarget, after: number, sink: FollowerSink): Following {
  const key = runKey(scope.tenantId, run.id);
  if (isFinalRunState(run.status)) plane.feeds.end(key, { status: run.status, lastSeq: run.lastSeq });
  const frame = metadataFrame(run.id, run.threadId, run.createdAt.getTime());
  return plane.feeds.follow(key, after, logChunk(1, frame.count, frame.bytes), sink);
}

/** Waits for the run's end and returns its outcome. */
export async function awaitOutcome(plane: Plane, scope: Scope, runId: RunId, signal: AbortSignal): Promise<RunResult> {
  const result = await plane.feeds.awaitEnd(runKey(scope.tenantId, runId), signal);
  if (result) return result;
  const outcome = await withTenantReads(plane.stores, scope, (tenant) => readOutcome(tenant, runId));
  if (!outcome) throw new DomainError("RUN_NOT_FOUND");
  return outcome;
}
