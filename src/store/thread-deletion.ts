import type pg from "pg";
import type { QueueName, RunId, RunnerId, TenantId, ThreadId } from "../domain/ids.js";
import type { EndFrames } from "./run-path/moves.js";
import type { TenantTx } from "./tx.js";

export interface EndedRun {
  readonly runId: RunId;
  readonly tenantId: TenantId;
  /** The fence that the holder had. */
  readonly fence: number;
  readonly runnerId: RunnerId | null;
  readonly queue: QueueName;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

/** Ends every run of the thread, fenced off, and turns thread and runs into tombstones without contents. Null when there is no such thread. */
export async function deleteThreadRows(tx: TenantTx, threadId: ThreadId, end: EndFrames): Promise<EndedRun[] | null> {
  const key = [tx.scope.tenantId, threadId];
  const threads = await tx.query(
    "select id from thread where tenant_id = $1 and id = $2 and deleted_at is null for no key update",
    key,
  );
  if (threads.length === 0) return null;
  // The head goes last, when no queued run is left that could take its place.
  const ended = await tx.query<Omit<EndedRun, "tenantId" | "queue"> & QueueName & pg.QueryResultRow>(
    `select r.id as "runId", r.fence, r.runner_id as "runnerId", r.pool_id as "poolId", r.kind, m.first_seq as "firstSeq", m.last_seq as "lastSeq"
     from (select id, fence, runner_id, pool_id, kind from run where tenant_id = $1 and thread_id = $2 and status in ('pending', 'running') order by thread_head, id for no key update) r
     cross join lateral run_end($1, r.id, 'cancelled', 'thread_deleted', null, $3, $4) m`,
    [...key, end.bytes, end.count],
  );
  await tx.query("delete from checkpoint_write where tenant_id = $1 and thread_id = $2", key);
  await tx.query("delete from checkpoint where tenant_id = $1 and thread_id = $2", key);
  await tx.query(
    "update interrupt set status = 'superseded', value = 'null' where tenant_id = $1 and thread_id = $2",
    key,
  );
  await tx.query(
    `update run set deleted_at = coalesce(deleted_at, clock_timestamp()), input = null, command = null, config = null, context = null, metadata = '{}',
       state_update = null, values = null where tenant_id = $1 and thread_id = $2`,
    key,
  );
  await tx.query(
    `update thread set deleted_at = clock_timestamp(), metadata = '{}', values = null, values_run_id = null, interrupts = null
     where tenant_id = $1 and id = $2`,
    key,
  );
  return ended.map(({ poolId, kind, ...run }) => ({ ...run, queue: { poolId, kind }, tenantId: tx.scope.tenantId }));
}
