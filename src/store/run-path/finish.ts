import type pg from "pg";
import type { AgentQueue, RunId, TenantId, ThreadId } from "../../domain/ids.js";
import type { FinalRunState, RunState } from "../../domain/moves/run.js";
import type { HeldRun, Segment } from "./append.js";
import { eventCount } from "./append.js";
import { type Extras, extrasParameters, gatherBytes } from "./extras.js";
import { tenantSet } from "./tenant-set.js";

export interface OpenInterrupt {
  readonly id: string;
  readonly namespace: readonly string[];
  readonly taskId: string;
  /** JSON text. */
  readonly value: Buffer;
}

export interface FinishItem extends HeldRun {
  readonly threadId: ThreadId;
  readonly purpose: "run" | "update_state";
  /** Events that the runner sent under this fence, tail included. */
  readonly total: number;
  readonly tailFirst: number;
  readonly tail: readonly Segment[];
  readonly extras: Extras;
  /** The frames that the plane adds: an EventList. */
  readonly end: Buffer;
  readonly endCount: number;
  readonly status: FinalRunState;
  readonly reason: string;
  /** {"error", "message"} as JSON text. */
  readonly error: string | null;
  readonly values: Buffer | null;
  readonly next: readonly string[];
  readonly interrupts: readonly OpenInterrupt[];
  /** {task id: [{id, value}]} as clients see it. */
  readonly threadInterrupts: Buffer | null;
}

/** A run that became the head of its thread, to be woken. */
export interface NextRun {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly queue: AgentQueue;
  readonly isAdmitted: boolean;
}

export interface Finished {
  readonly verdict: "recorded" | "replayed" | "missing" | "superseded";
  /** For a replay: what stands. */
  readonly storedStatus: RunState | null;
  /** The last stored number of the runner's sequence. */
  readonly source: number;
  readonly firstSeq: number;
  readonly next: NextRun | null;
}

/** Ends runs with their runners' results: last events, end frames, run, thread, interrupts and the thread's next run in one statement. */
export async function finishRuns(pool: pg.Pool, items: readonly FinishItem[], again: boolean): Promise<Finished[]> {
  const bytes = gatherBytes();
  const rows = items.map((item) => {
    const tail = item.tail.map((segment) => segment.body);
    const at = bytes.add(...tail, item.end, item.values, item.threadInterrupts);
    const interrupts = item.interrupts.map(({ id, namespace, taskId, value }) => {
      return { id, namespace, task_id: taskId, at: bytes.add(value), bytes: value.length };
    });
    const row = JSON.stringify({
      tenant_id: item.tenantId,
      run_id: item.runId,
      thread_id: item.threadId,
      fence: item.fence,
      pool_id: item.queue.poolId,
      kind: item.queue.kind,
      purpose: item.purpose,
      total: item.total,
      tail_first: item.tailFirst,
      tail_count: eventCount({ segments: item.tail }),
      end_count: item.endCount,
      status: item.status,
      reason: item.reason,
      next: item.next,
      ...(interrupts.length > 0 && { interrupts }),
      at,
      tail_bytes: tail.reduce((sum, body) => sum + body.length, 0),
      end_bytes: item.end.length,
      ...(item.values && { values_bytes: item.values.length }),
      ...(item.threadInterrupts && { asked_bytes: item.threadInterrupts.length }),
    });
    return item.error === null ? row : `${row.slice(0, -1)},"error":${item.error}}`;
  });
  const result = await pool.query<{
    ord: number;
    verdict: Finished["verdict"];
    stored_status: RunState | null;
    source: number;
    first_seq: number;
    next_run: RunId | null;
    next_pool: TenantId | null;
    next_kind: string | null;
    next_graph: string | null;
    next_admitted: boolean | null;
  }>({
    name: "run_finish_v2",
    text: `select ord, verdict, stored_status, source, first_seq, next_run, next_pool, next_kind, next_graph, next_admitted
      from run_finish_v2($1, $2, $3, $4, $5, $6, $7) order by ord`,
    values: [tenantSet(items), `[${rows.join(",")}]`, ...extrasParameters(items, bytes), bytes.all()],
  });
  return result.rows.map((row, at) => {
    const item = items[at] as FinishItem;
    return {
      // After an unknown commit our own report answers as a replay.
      verdict: again && row.verdict === "replayed" && row.stored_status === item.status ? "recorded" : row.verdict,
      storedStatus: row.stored_status,
      source: row.source,
      firstSeq: again && row.verdict === "replayed" ? 0 : row.first_seq,
      next:
        row.next_run && row.next_pool && row.next_kind && row.next_graph
          ? {
              tenantId: item.tenantId,
              runId: row.next_run,
              queue: { poolId: row.next_pool, kind: row.next_kind, graphId: row.next_graph },
              isAdmitted: row.next_admitted ?? false,
            }
          : null,
    };
  });
}
