import type pg from "pg";
import type { ThreadId } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

export const threadStates = ["idle", "busy", "interrupted", "error"] as const;
export type ThreadState = (typeof threadStates)[number];

/** A thread as clients see it. JSON is text or bytes, as it was received. */
export interface Thread {
  readonly id: ThreadId;
  readonly status: ThreadState;
  readonly metadata: string;
  readonly values: Buffer | null;
  /** {task id: [{id, value}]}; null when nothing is open. */
  readonly interrupts: Buffer | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly stateUpdatedAt: Date;
}

export const threadColumns = `t.id, t.status, t.metadata, coalesce(t.values, v.values) as values, t.interrupts, t.created_at as "createdAt", t.updated_at as "updatedAt",
  t.state_updated_at as "stateUpdatedAt"`;
export const threadWithValues = "thread t left join run v on v.tenant_id = t.tenant_id and v.id = t.values_run_id";

/** Null when unknown, foreign or deleted. */
export async function findThread(tenant: TenantReads, threadId: ThreadId): Promise<Thread | null> {
  const rows = await tenant.query<Thread & pg.QueryResultRow>(
    `select ${threadColumns} from ${threadWithValues} where t.tenant_id = $1 and t.id = $2 and t.deleted_at is null`,
    [tenant.scope.tenantId, threadId],
  );
  return rows[0] ?? null;
}

/** False when the id is taken. A deleted thread's id stays taken. */
export async function insertThread(tx: TenantTx, threadId: ThreadId, metadata: string): Promise<boolean> {
  const rows = await tx.query(
    "insert into thread (tenant_id, id, metadata) values ($1, $2, $3) on conflict do nothing returning id",
    [tx.scope.tenantId, threadId, metadata],
  );
  return rows.length === 1;
}

/** Merges into the metadata, key by key. False when there is no such thread. */
export async function mergeThreadMetadata(tx: TenantTx, threadId: ThreadId, metadata: string): Promise<boolean> {
  const rows = await tx.query(
    `update thread set metadata = (metadata::jsonb || $3::jsonb)::json, updated_at = clock_timestamp()
     where tenant_id = $1 and id = $2 and deleted_at is null returning id`,
    [tx.scope.tenantId, threadId, metadata],
  );
  return rows.length === 1;
}
