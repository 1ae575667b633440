import { DomainError } from "../domain/errors.js";
import type { RunId, ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import type { Stores } from "../store/client.js";
import { withTenantReads } from "../store/reads.js";
import { deleteRunRow, listRuns, type Run, type RunFilter } from "../store/runs.js";
import { findThread } from "../store/threads.js";
import { withTenantTx } from "../store/tx.js";

/** Runs of a thread, newest first; THREAD_NOT_FOUND when there is no such thread. */
export function listThreadRuns(stores: Stores, scope: Scope, filter: RunFilter): Promise<Run[]> {
  return withTenantReads(stores, scope, async (tenant) => {
    const runs = await listRuns(tenant, filter);
    if (runs.length === 0 && !(await findThread(tenant, filter.threadId))) {
      throw new DomainError("THREAD_NOT_FOUND", `There is no thread ${filter.threadId}.`);
    }
    return runs;
  });
}

/** Removes an ended run from sight. An active one must be cancelled first. */
export async function deleteRun(stores: Stores, scope: Scope, runId: RunId, threadId: ThreadId): Promise<void> {
  const outcome = await withTenantTx(stores, scope, (tx) => deleteRunRow(tx, runId, threadId));
  if (outcome === "not_found") throw new DomainError("RUN_NOT_FOUND", `There is no run ${runId}.`);
  if (outcome === "active") throw new DomainError("RUN_ACTIVE", `Run ${runId} has not ended: cancel it first.`);
}
