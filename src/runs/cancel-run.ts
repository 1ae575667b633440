import { DomainError } from "../domain/errors.js";
import type { RunId, RunKey } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { recordAuditIn } from "../governance/record-audit.js";
import { cancelRunRow, type RunMoved } from "../store/run-path/moves.js";
import { withTenantTx } from "../store/tx.js";
import { endFrames } from "./control-frames.js";
import { orderStop } from "./order-stop.js";
import type { Plane } from "./plane.js";
import { publishMove } from "./publish.js";

export type CancelAction = "interrupt" | "rollback";

/** Asks for a run's end. A pending run is cancelled at once, a running one is told; a finished one stays as it is. Idempotent. */
export async function cancelRun(plane: Plane, scope: Scope, runId: RunId, action: CancelAction): Promise<RunMoved> {
  const frames = endFrames("cancelled", null, plane.clock.now());
  const moved = await withTenantTx(plane.stores, scope, async (tx) => {
    const row = await cancelRunRow(tx, runId, action, null, frames);
    if (row.verdict === "not_found") throw new DomainError("RUN_NOT_FOUND", `There is no run ${runId}.`);
    await recordAuditIn(tx, {
      action: "run.cancel",
      targetKind: "run",
      targetId: runId,
      detail: { action, verdict: row.verdict },
    });
    return row;
  });
  if (moved.verdict === "requested")
    orderStop(plane, moved, { tenantId: scope.tenantId, runId, fence: moved.fence, kind: "cancel" });
  if (moved.verdict === "moved") publishMove(plane, scope.tenantId, moved, frames);
  return moved;
}

/** Resolves when the run has ended, or throws WAIT_TIMED_OUT: never a 2xx for a run that still runs. */
export async function awaitCancelled(plane: Plane, key: RunKey, signal: AbortSignal): Promise<void> {
  try {
    await plane.feeds.awaitEnd(key, signal);
  } catch {
    throw new DomainError("WAIT_TIMED_OUT", "The run was told to stop and has not ended yet.");
  }
}

/** Ends a run that ignored its cancel past the grace time: fenced off, and ended without its runner. */
export async function forceCancel(
  plane: Plane,
  scope: Scope,
  runId: RunId,
  action: CancelAction,
  fence: number,
): Promise<void> {
  const frames = endFrames("cancelled", null, plane.clock.now());
  const moved = await withTenantTx(plane.stores, scope, async (tx) => {
    const row = await cancelRunRow(tx, runId, action, fence, frames);
    if (row.verdict === "moved") {
      await recordAuditIn(tx, { action: "run.cancel.forced", targetKind: "run", targetId: runId, detail: { action } });
    }
    return row;
  });
  if (moved.verdict !== "moved") return;
  orderStop(plane, moved, { tenantId: scope.tenantId, runId, fence, kind: "superseded" });
  publishMove(plane, scope.tenantId, moved, frames);
}
