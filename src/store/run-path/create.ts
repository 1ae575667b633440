import type pg from "pg";
import type { AgentId, CredentialId, RunId, RunnerId, TenantId, ThreadId } from "../../domain/ids.js";
import { type Claimed, type ClaimedRow, claimedColumnsOf, claimItemOf, toClaimed } from "./claim.js";
import { tenantSet } from "./tenant-set.js";

/** One run to create. Payloads are JSON text as the client sent it. */
export interface CreateItem {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  /** The client chose the run id: an existing one is a replay. */
  readonly runIdChosen: boolean;
  readonly threadId: ThreadId;
  /** existing: must be there. create: made when missing. temporary: made for this run. */
  readonly threadMode: "existing" | "create" | "temporary";
  readonly threadMetadata: string;
  readonly agentId: AgentId;
  readonly graphId: string;
  readonly poolId: TenantId;
  readonly kind: string;
  readonly purpose: "run" | "update_state";
  readonly strategy: "enqueue" | "reject";
  /** one: the answer to the only open question. map: answers by id. */
  readonly resume: "one" | "map" | null;
  readonly resumeIds: readonly string[];
  readonly maxAttempts: number;
  readonly recovery: string;
  readonly queueTimeoutMs: number;
  readonly runTimeoutMs: number | null;
  readonly dueMs: number | null;
  readonly input: string | null;
  readonly command: string | null;
  readonly config: string | null;
  readonly context: string | null;
  readonly metadata: string;
  readonly stateUpdate: string | null;
  readonly streamModes: readonly string[];
  readonly streamSubgraphs: boolean;
  readonly streamResumable: boolean;
  readonly interruptBefore: readonly string[];
  readonly interruptAfter: readonly string[];
  readonly onDisconnect: "continue" | "cancel";
  readonly deleteThread: boolean;
  readonly fromCheckpointId: string | null;
  readonly credentialId: CredentialId | null;
  /** Hex SHA-256 of route and body. */
  readonly requestHash: string;
  readonly idempotencyKey: string | null;
  readonly traceparent: string | null;
}

export type CreateVerdict =
  | "created"
  | "replayed"
  | "mismatch"
  | "halted"
  | "over_budget"
  | "thread_not_found"
  | "thread_busy"
  | "checkpoint_not_found"
  | "no_such_interrupt"
  | "ambiguous_resume";

export interface Created {
  readonly verdict: CreateVerdict;
  /** For a replay: the run of before. */
  readonly runId: RunId;
  readonly isHead: boolean;
  readonly isAdmitted: boolean;
  readonly createdAt: Date;
  readonly openInterrupts: readonly string[];
  readonly blockingRunId: RunId | null;
  /** What the item's taker got: the run was offered to it in the same transaction. */
  readonly claimed: Claimed | null;
}

interface Row extends ClaimedRow {
  /** Null in the rows of the claimed, which follow those of the created. */
  verdict: CreateVerdict | null;
  created_run_id: RunId;
  is_head: boolean;
  is_admitted: boolean;
  created_at: Date;
  open_interrupts: string[] | null;
  blocking_run: RunId | null;
}

const bytes = (text: string | null): Buffer | null => (text === null ? null : Buffer.from(text));

const createOnly = `select verdict, run_id as created_run_id, is_head, is_admitted, created as created_at, open_interrupts, blocking_run
  from run_create_v3($1, $2, $3, $4, $5, $6, $7, $8, $9)`;
const createAndClaim = `select (created).verdict, (created).run_id as created_run_id, (created).is_head, (created).is_admitted, (created).created as created_at,
  (created).open_interrupts, (created).blocking_run, ${claimedColumnsOf("claimed")}
  from run_create_claim_v3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`;

export interface CreateLimits {
  /** Runs of an agent that may be admitted and unclaimed, by weight of the tenant. */
  readonly window: number;
  readonly offerMs: number;
}

/** Creates a batch of runs: replay check, thread lock, strategy, resume target, admission, insert, and claim by the runner in `takers` of the same place,
 *  in one statement. */
export async function createRuns(
  pool: pg.Pool,
  items: readonly CreateItem[],
  takers: readonly (RunnerId | null)[],
  again: boolean,
  limits: CreateLimits,
): Promise<Created[]> {
  try {
    return await createBatch(pool, items, takers, again, limits);
  } catch (error) {
    // Another process committed an equal idempotency key or run id in the same moment: now it can be seen.
    if ((error as { code?: string }).code !== uniqueViolation) throw error;
    return createBatch(pool, items, takers, again, limits);
  }
}

const uniqueViolation = "23505";

async function createBatch(
  pool: pg.Pool,
  items: readonly CreateItem[],
  takers: readonly (RunnerId | null)[],
  again: boolean,
  limits: CreateLimits,
): Promise<Created[]> {
  const rows = items.map((item) => ({
    tenant_id: item.tenantId,
    run_id: item.runId,
    // After an unknown commit our own row counts as a replay.
    run_id_chosen: item.runIdChosen || again,
    thread_id: item.threadId,
    thread_mode: item.threadMode,
    agent_id: item.agentId,
    graph_id: item.graphId,
    pool_id: item.poolId,
    kind: item.kind,
    purpose: item.purpose,
    strategy: item.strategy,
    resume: item.resume,
    resume_ids: item.resumeIds,
    max_attempts: item.maxAttempts,
    recovery: item.recovery,
    queue_timeout_ms: item.queueTimeoutMs,
    run_timeout_ms: item.runTimeoutMs,
    due_ms: item.dueMs,
    stream_modes: item.streamModes,
    stream_subgraphs: item.streamSubgraphs,
    stream_resumable: item.streamResumable,
    interrupt_before: item.interruptBefore,
    interrupt_after: item.interruptAfter,
    on_disconnect: item.onDisconnect,
    delete_thread: item.deleteThread,
    from_checkpoint_id: item.fromCheckpointId,
    credential_id: item.credentialId,
    request_hash: item.requestHash,
    idempotency_key: item.idempotencyKey,
    traceparent: item.traceparent,
  }));
  // Metadata is client JSON: spliced in as text, so that it is stored as it was sent.
  const itemsJson = `[${rows
    .map(
      (row, i) =>
        `${JSON.stringify(row).slice(0, -1)},"metadata":${items[i]?.metadata},"thread_metadata":${items[i]?.threadMetadata}}`,
    )
    .join(",")}]`;
  const claims = items.flatMap((item, i) => {
    const runnerId = takers[i];
    if (!runnerId) return [];
    return [{ ord: i + 1, ...claimItemOf({ tenantId: item.tenantId, runId: item.runId, queue: item, runnerId }) }];
  });
  const values = [
    tenantSet(items),
    itemsJson,
    items.map((item) => bytes(item.input)),
    items.map((item) => bytes(item.command)),
    items.map((item) => bytes(item.config)),
    items.map((item) => bytes(item.context)),
    items.map((item) => bytes(item.stateUpdate)),
    limits.window,
    items.some((item) => item.threadMode !== "temporary"),
  ];
  const result =
    claims.length === 0
      ? await pool.query<Row>({ name: "run_create_v3", text: createOnly, values })
      : await pool.query<Row>({
          name: "run_create_claim_v3",
          text: createAndClaim,
          values: [...values, JSON.stringify(claims), limits.offerMs],
        });
  const claimed = new Map(
    result.rows.slice(items.length).map((row) => [`${row.tenant_id}:${row.run_id}`, toClaimed(row)] as const),
  );
  return items.map((item, i) => {
    const row = result.rows[i] as Row & { verdict: CreateVerdict };
    return {
      verdict:
        again && row.verdict === "replayed" && row.created_run_id === item.runId && !item.runIdChosen
          ? "created"
          : row.verdict,
      runId: row.created_run_id,
      isHead: row.is_head,
      isAdmitted: row.is_admitted,
      createdAt: row.created_at,
      openInterrupts: row.open_interrupts ?? [],
      blockingRunId: row.blocking_run,
      claimed: claimed.get(`${item.tenantId}:${item.runId}`) ?? null,
    };
  });
}
