import type pg from "pg";
import type { AgentId, RunId, TenantId, ThreadId } from "../domain/ids.js";
import type { RunState } from "../domain/moves/run.js";
import { systemScope } from "../domain/scope.js";
import type { Stores } from "./client.js";
import { type TenantReads, withTenantReads } from "./reads.js";

/** A run as clients see it. JSON is text or bytes, as it was received. */
export interface Run {
  readonly id: RunId;
  readonly threadId: ThreadId;
  readonly agentId: AgentId;
  readonly status: RunState;
  readonly statusReason: string | null;
  readonly attempt: number;
  readonly error: string | null;
  readonly metadata: string;
  readonly input: Buffer | null;
  readonly command: Buffer | null;
  readonly config: Buffer | null;
  readonly context: Buffer | null;
  readonly streamModes: string[];
  readonly streamSubgraphs: boolean;
  readonly streamResumable: boolean;
  readonly interruptBefore: string[];
  readonly interruptAfter: string[];
  readonly multitaskStrategy: string;
  readonly onDisconnect: "continue" | "cancel";
  readonly temporary: boolean;
  /** Number of its last event so far. */
  readonly lastSeq: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `r.id, r.thread_id as "threadId", r.agent_id as "agentId", r.status, r.status_reason as "statusReason", r.attempt, r.error, r.metadata, r.input, r.command,
  r.config, r.context, r.stream_modes as "streamModes", r.stream_subgraphs as "streamSubgraphs", r.stream_resumable as "streamResumable",
  r.interrupt_before as "interruptBefore", r.interrupt_after as "interruptAfter", r.multitask_strategy as "multitaskStrategy",
  r.on_disconnect as "onDisconnect", r.delete_thread as temporary, r.last_seq as "lastSeq", r.created_at as "createdAt", r.updated_at as "updatedAt"`;

// A run that went with its thread is unknown once its contents are gone; its row stays for the ledger.
const visible = "r.deleted_at is null and r.purged_at is null and r.purpose = 'run'";

/** A run by id, and by thread where the caller names one: a run of another thread is unknown there. */
export async function findRun(tenant: TenantReads, runId: RunId, threadId: ThreadId | null): Promise<Run | null> {
  const rows = await tenant.query<Run & pg.QueryResultRow>(
    `select ${columns} from run r where r.tenant_id = $1 and r.id = $2 and ($3::uuid is null or r.thread_id = $3) and ${visible}`,
    [tenant.scope.tenantId, runId, threadId],
  );
  return rows[0] ?? null;
}

export interface RunFilter {
  readonly threadId: ThreadId;
  readonly statuses: readonly RunState[] | null;
  readonly limit: number;
  readonly offset: number;
}

/** Runs of a thread, newest first. */
export function listRuns(tenant: TenantReads, filter: RunFilter): Promise<Run[]> {
  return tenant.query<Run & pg.QueryResultRow>(
    `select ${columns} from run r where r.tenant_id = $1 and r.thread_id = $2 and ($3::text[] is null or r.status = any ($3)) and ${visible}
     order by r.created_at desc, r.id desc limit $4 offset $5`,
    [tenant.scope.tenantId, filter.threadId, filter.statuses, filter.limit, filter.offset],
  );
}

/** The outcome of an ended run, for those who waited. */
export interface RunOutcome {
  readonly status: RunState;
  readonly error: string | null;
  readonly values: Buffer | null;
  /** {task id: [{id, value}]} if the run waits for a person and the thread still does. */
  readonly interrupts: Buffer | null;
}

export async function readOutcome(tenant: TenantReads, runId: RunId): Promise<RunOutcome | null> {
  const rows = await tenant.query<RunOutcome & pg.QueryResultRow>(
    `select r.status, r.error, r.values, case when r.status = 'waiting' then t.interrupts end as interrupts
     from run r join thread t on t.tenant_id = r.tenant_id and t.id = r.thread_id where r.tenant_id = $1 and r.id = $2`,
    [tenant.scope.tenantId, runId],
  );
  return rows[0] ?? null;
}

export interface ReportedRun {
  readonly threadId: ThreadId;
  readonly purpose: "run" | "update_state";
  readonly attempt: number;
}

/** What the bridge must know of a run that was assigned through another process. */
export function findRunForReport(stores: Stores, tenantId: TenantId, runId: RunId): Promise<ReportedRun | undefined> {
  return withTenantReads(stores, systemScope(tenantId), async (tenant) => {
    const rows = await tenant.query<ReportedRun & pg.QueryResultRow>(
      `select r.thread_id as "threadId", r.purpose, r.attempt from run r where r.tenant_id = $1 and r.id = $2`,
      [tenantId, runId],
    );
    return rows[0];
  });
}

/** Marks an ended run as deleted: unknown outside, kept for the ledger and the audit. False when it is unknown or has not ended. */
export async function deleteRunRow(
  tx: TenantReads,
  runId: RunId,
  threadId: ThreadId,
): Promise<"deleted" | "not_found" | "active"> {
  const rows = await tx.query<{ status: RunState }>(
    `select status from run r where r.tenant_id = $1 and r.id = $2 and r.thread_id = $3 and ${visible} for update`,
    [tx.scope.tenantId, runId, threadId],
  );
  const row = rows[0];
  if (!row) return "not_found";
  if (row.status === "pending" || row.status === "running") return "active";
  await tx.query("update run set deleted_at = clock_timestamp() where tenant_id = $1 and id = $2", [
    tx.scope.tenantId,
    runId,
  ]);
  return "deleted";
}
