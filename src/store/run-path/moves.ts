import type pg from "pg";
import type { AgentQueue, QueueName, RunId, RunnerId, TenantId, ThreadId } from "../../domain/ids.js";
import type { RunState } from "../../domain/moves/run.js";
import type { TenantTx } from "../tx.js";
import type { HeldRun } from "./append.js";
import type { NextRun } from "./finish.js";

// Moves of the plane: rare, one run a statement.

export interface RunMoved {
  readonly verdict: "moved" | "requeued" | "requested" | "final" | "gone" | "not_found";
  readonly runId: RunId;
  readonly threadId: ThreadId;
  readonly status: RunState;
  readonly fence: number;
  readonly attempt: number;
  readonly queue: AgentQueue;
  /** Who held it. */
  readonly runnerId: RunnerId | null;
  /** Number of the first frame that the move wrote; null when it wrote none. */
  readonly firstSeq: number | null;
  readonly lastSeq: number;
  readonly next: NextRun | null;
}

interface Row {
  verdict: RunMoved["verdict"];
  run_id: RunId;
  thread_id: ThreadId;
  status: RunState;
  fence: number;
  attempt: number;
  pool_id: TenantId;
  kind: string;
  graph_id: string;
  runner_id: RunnerId | null;
  first_seq: number | null;
  last_seq: number;
  next_run: RunId | null;
  next_pool: TenantId | null;
  next_kind: string | null;
  next_graph: string | null;
  next_admitted: boolean | null;
}

type Ask = (text: string, values: readonly unknown[]) => Promise<Row[]>;

const alone =
  (pool: pg.Pool): Ask =>
  async (text, values) =>
    (await pool.query<Row>(text, [...values])).rows;

async function move(ask: Ask, tenantId: TenantId, call: string, values: unknown[]): Promise<RunMoved> {
  const row = (await ask(`select (m).* from ${call} m`, values))[0] as Row;
  return {
    verdict: row.verdict,
    runId: row.run_id,
    threadId: row.thread_id,
    status: row.status,
    fence: row.fence,
    attempt: row.attempt,
    queue: { poolId: row.pool_id, kind: row.kind, graphId: row.graph_id },
    runnerId: row.runner_id,
    firstSeq: row.first_seq,
    lastSeq: row.last_seq,
    next:
      row.next_run && row.next_pool && row.next_kind && row.next_graph
        ? {
            tenantId,
            runId: row.next_run,
            queue: { poolId: row.next_pool, kind: row.next_kind, graphId: row.next_graph },
            isAdmitted: row.next_admitted ?? false,
          }
        : null,
  };
}

export interface EndFrames {
  readonly bytes: Buffer;
  readonly count: number;
}

/** Cancels a pending run at once, asks for a running one. With `forceFence` a running one under that fence is ended too. */
export function cancelRunRow(
  tx: TenantTx,
  runId: RunId,
  action: "interrupt" | "rollback",
  forceFence: number | null,
  end: EndFrames,
): Promise<RunMoved> {
  const { tenantId } = tx.scope;
  return move(
    (text, values) => tx.query<Row & pg.QueryResultRow>(text, values),
    tenantId,
    "run_cancel_v1($1, $2, $3, $4, $5, $6)",
    [tenantId, runId, action, forceFence, end.bytes, end.count],
  );
}

/** Cancels a run because it is halted; `gone` when it is not, or was told to stop already. */
export function cancelHaltedRun(pool: pg.Pool, tenantId: TenantId, runId: RunId, end: EndFrames): Promise<RunMoved> {
  return move(alone(pool), tenantId, "run_cancel_halted_v1($1, $2, $3, $4)", [tenantId, runId, end.bytes, end.count]);
}

/** Cancels a running run that has used up its budget; `gone` when it has ended, or was told to stop already. */
export function cancelOverBudget(pool: pg.Pool, tenantId: TenantId, runId: RunId, end: EndFrames): Promise<RunMoved> {
  return move(alone(pool), tenantId, "run_cancel_budget_v1($1, $2, $3, $4)", [tenantId, runId, end.bytes, end.count]);
}

/** lapsed: the offer was not confirmed. lost: the lease ran out. released: the runner gave it back. undelivered: it was claimed and reached no runner. */
export type TakeBackCause = "lapsed" | "lost" | "released" | "undelivered";

export interface TakeBack {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly fence: number;
  readonly cause: TakeBackCause;
  /** The queue that a runner may give back to; null when the plane itself takes the run. */
  readonly queue: QueueName | null;
  readonly maxHandbacks: number;
  readonly again: EndFrames;
  readonly end: EndFrames;
  readonly endReason: string;
  /** JSON text. */
  readonly endError: string;
  readonly cancelEnd: EndFrames;
}

export function takeBackRun(pool: pg.Pool, input: TakeBack): Promise<RunMoved> {
  return move(
    alone(pool),
    input.tenantId,
    "run_take_back_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'error', $12, $13, $14, $15)",
    [
      input.tenantId,
      input.runId,
      input.fence,
      input.queue?.poolId ?? null,
      input.queue?.kind ?? null,
      input.cause,
      input.maxHandbacks,
      input.again.bytes,
      input.again.count,
      input.end.bytes,
      input.end.count,
      input.endReason,
      input.endError,
      input.cancelEnd.bytes,
      input.cancelEnd.count,
    ],
  );
}

/** Ends a run whose time is up: `error` in the queue, `timeout` while running. */
export function expireRunRow(
  pool: pg.Pool,
  tenantId: TenantId,
  runId: RunId,
  status: "error" | "timeout",
  reason: string,
  error: string,
  end: EndFrames,
): Promise<RunMoved> {
  return move(alone(pool), tenantId, "run_expire_v1($1, $2, $3, $4, $5, $6, $7)", [
    tenantId,
    runId,
    end.bytes,
    end.count,
    status,
    reason,
    error,
  ]);
}

/** Ends a run whose holder, proven by its fence, sent something that cannot be stored. */
export function failRunRow(
  pool: pg.Pool,
  run: HeldRun,
  reason: string,
  error: string,
  end: EndFrames,
): Promise<RunMoved> {
  return move(alone(pool), run.tenantId, "run_fail_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)", [
    run.tenantId,
    run.runId,
    run.fence,
    run.queue.poolId,
    run.queue.kind,
    reason,
    error,
    end.bytes,
    end.count,
  ]);
}

export interface Swept {
  readonly what: "lapsed" | "lost" | "ungraceful" | "overdue" | "halted";
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly threadId: ThreadId;
  readonly fence: number;
  readonly attempt: number;
  readonly recovery: string;
  readonly cancelAction: "interrupt" | "rollback" | null;
}

/** Leases that ran out, cancels past their grace, deadlines that passed, open runs that are halted. Finds only; the moves decide. */
export async function sweepRuns(pool: pg.Pool, limit: number, graceMs: number): Promise<Swept[]> {
  const result = await pool.query<Swept & pg.QueryResultRow>({
    name: "run_sweep_v2",
    text: `select what, tenant_id as "tenantId", run_id as "runId", thread_id as "threadId", fence, attempt, recovery, cancel_action as "cancelAction"
      from run_sweep_v2($1, $2)`,
    values: [limit, graceMs],
  });
  return result.rows;
}

export interface SweptQueued {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly threadId: ThreadId;
}

/** Pending runs whose queue time is over. */
export async function sweepQueue(pool: pg.Pool, limit: number): Promise<SweptQueued[]> {
  const result = await pool.query<SweptQueued & pg.QueryResultRow>({
    name: "run_sweep_queue_v1",
    text: `select tenant_id as "tenantId", run_id as "runId", thread_id as "threadId" from run_sweep_queue_v1($1)`,
    values: [limit],
  });
  return result.rows;
}

export interface Rehinted {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly queue: AgentQueue;
  readonly dispatchNo: number;
}

/** Admitted runs whose hint is old; their hints are renewed. */
export async function rehintRuns(pool: pg.Pool, limit: number): Promise<Rehinted[]> {
  const result = await pool.query<{
    tenant_id: TenantId;
    run_id: RunId;
    pool_id: TenantId;
    kind: string;
    graph_id: string;
    dispatch_no: number;
  }>({
    name: "run_relay_v1",
    text: "select tenant_id, run_id, pool_id, kind, graph_id, dispatch_no from run_relay_v1($1)",
    values: [limit],
  });
  return result.rows.map((row) => ({
    tenantId: row.tenant_id,
    runId: row.run_id,
    queue: { poolId: row.pool_id, kind: row.kind, graphId: row.graph_id },
    dispatchNo: row.dispatch_no,
  }));
}

/** Which of these queues hold something that could be claimed now. */
export async function queuesWithWork(pool: pg.Pool, queues: readonly AgentQueue[]): Promise<AgentQueue[]> {
  const result = await pool.query<{ pool_id: TenantId; kind: string; graph_id: string }>({
    name: "run_queues_v1",
    text: "select pool_id, kind, graph_id from run_queues_v1($1, $2, $3)",
    values: [
      queues.map((queue) => queue.poolId),
      queues.map((queue) => queue.kind),
      queues.map((queue) => queue.graphId),
    ],
  });
  return result.rows.map((row) => ({ poolId: row.pool_id, kind: row.kind, graphId: row.graph_id }));
}

/** What is next in a queue, admitted tenant by tenant, and not claimed by this. */
export async function nextInQueue(
  pool: pg.Pool,
  queue: AgentQueue,
  limit: number,
  window: number,
): Promise<{ tenantId: TenantId; runId: RunId }[]> {
  const result = await pool.query<{ tenantId: TenantId; runId: RunId }>({
    name: "run_candidates_v2",
    text: `select tenant_id as "tenantId", run_id as "runId" from run_candidates_v2($1, $2, $3, $4, $5)`,
    values: [queue.poolId, queue.kind, [queue.graphId], limit, window],
  });
  return result.rows;
}
