import { DomainError } from "../domain/errors.js";
import { runKey, type ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { recordAuditIn } from "../governance/record-audit.js";
import { deleteThreadRows } from "../store/thread-deletion.js";
import { withTenantTx } from "../store/tx.js";
import { endFrames } from "./control-frames.js";
import { orderStop } from "./order-stop.js";
import type { Plane } from "./plane.js";
import { publishChunk } from "./publish.js";

/** Deletes a thread with everything on it. A running run is fenced off and cancelled in the same transaction, queued ones never start. */
export async function deleteThread(plane: Plane, scope: Scope, threadId: ThreadId): Promise<void> {
  const frames = endFrames("cancelled", null, plane.clock.now());
  const ended = await withTenantTx(plane.stores, scope, async (tx) => {
    const runs = await deleteThreadRows(tx, threadId, frames);
    if (!runs) throw new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`);
    await recordAuditIn(tx, {
      action: "thread.delete",
      targetKind: "thread",
      targetId: threadId,
      detail: { cancelledRuns: runs.map((run) => run.runId) },
    });
    return runs;
  });
  for (const run of ended) {
    orderStop(plane, run, { ...run, kind: "superseded" });
    publishChunk(plane, runKey(run.tenantId, run.runId), run.firstSeq, frames.count, frames.bytes, {
      status: "cancelled",
      lastSeq: run.lastSeq,
    });
  }
}
