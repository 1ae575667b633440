import type pg from "pg";
import {
  parseRunKey,
  type QueueName,
  type RunId,
  type RunKey,
  type RunnerId,
  type TenantId,
} from "../../domain/ids.js";
import type { RunState } from "../../domain/moves/run.js";

// A page ends with the chunk that crosses this size.
const pageBytes = 2 * 1024 * 1024;

/** Chunks of a run's log after a cursor, in order. */
export async function readChunks(
  pool: pg.Pool,
  key: RunKey,
  after: number,
): Promise<{ firstSeq: number; count: number; body: Buffer }[]> {
  const { tenantId, runId } = parseRunKey(key);
  const result = await pool.query<{ first_seq: number; count: number; body: Buffer }>({
    name: "run_read_v1",
    text: "select first_seq, count, body from run_read_v1($1, $2, $3, $4)",
    values: [tenantId, runId, after, pageBytes],
  });
  return result.rows.map((row) => ({ firstSeq: row.first_seq, count: row.count, body: row.body }));
}

/** (last number, status) of many runs in one statement; null for those that are gone. */
export async function readHeads(
  pool: pg.Pool,
  keys: readonly RunKey[],
): Promise<({ lastSeq: number; status: RunState } | null)[]> {
  const names = keys.map(parseRunKey);
  const result = await pool.query<{ ord: number; last_seq: number; status: RunState }>({
    name: "run_heads_v1",
    text: "select ord, last_seq, status from run_heads_v1($1, $2)",
    values: [names.map((name) => name.tenantId), names.map((name) => name.runId)],
  });
  const heads: ({ lastSeq: number; status: RunState } | null)[] = keys.map(() => null);
  for (const row of result.rows) heads[row.ord - 1] = { lastSeq: row.last_seq, status: row.status };
  return heads;
}

/** Cancels that a runner has not answered yet. */
export async function openCancels(
  pool: pg.Pool,
  queue: QueueName,
  runnerId: RunnerId,
): Promise<{ tenantId: TenantId; runId: RunId; fence: number }[]> {
  const result = await pool.query<{ tenantId: TenantId; runId: RunId; fence: number }>({
    name: "run_open_cancels_v1",
    text: `select tenant_id as "tenantId", run_id as "runId", fence from run_open_cancels_v1($1, $2, $3)`,
    values: [queue.poolId, queue.kind, runnerId],
  });
  return result.rows;
}
