import type pg from "pg";
import type { AgentId, RunId, ThreadId } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

/** A checkpoint as clients see it. */
export interface StateView {
  readonly namespace: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly runId: RunId | null;
  /** {"values", "next", "tasks", "metadata", "created_at"}, as it was received. */
  readonly view: Buffer;
}

const columns = `c.namespace, c.id, c.parent_id as "parentId", c.run_id as "runId", c.view`;

/** A checkpoint of a namespace by id, or the newest one. Null when there is none that clients may see. */
export async function findView(
  tenant: TenantReads,
  threadId: ThreadId,
  namespace: string,
  checkpointId: string | null,
): Promise<StateView | null> {
  const rows = await tenant.query<StateView & pg.QueryResultRow>(
    `select ${columns} from checkpoint c where c.tenant_id = $1 and c.thread_id = $2 and c.namespace = $3 and ($4::text is null or c.id = $4)
       and c.view is not null order by c.seq desc limit 1`,
    [tenant.scope.tenantId, threadId, namespace, checkpointId],
  );
  return rows[0] ?? null;
}

/** The newest checkpoint that a run wrote into the root namespace. */
export async function findViewOfRun(tenant: TenantReads, threadId: ThreadId, runId: RunId): Promise<StateView | null> {
  const rows = await tenant.query<StateView & pg.QueryResultRow>(
    `select ${columns} from checkpoint c where c.tenant_id = $1 and c.run_id = $3 and c.thread_id = $2 and c.namespace = '' and c.view is not null
     order by c.seq desc limit 1`,
    [tenant.scope.tenantId, threadId, runId],
  );
  return rows[0] ?? null;
}

/** Checkpoints of a namespace that are older than `before`, newest first. */
export function listViews(
  tenant: TenantReads,
  threadId: ThreadId,
  namespace: string,
  before: string | null,
  limit: number,
): Promise<StateView[]> {
  return tenant.query<StateView & pg.QueryResultRow>(
    `select ${columns} from checkpoint c where c.tenant_id = $1 and c.thread_id = $2 and c.namespace = $3 and c.view is not null
       and ($4::text is null or c.seq < (select b.seq from checkpoint b where b.tenant_id = $1 and b.thread_id = $2 and b.namespace = $3 and b.id = $4))
     order by c.seq desc limit $5`,
    [tenant.scope.tenantId, threadId, namespace, before, limit],
  );
}

export interface ThreadHead {
  /** The agent of the thread's first run. */
  readonly agentId: AgentId | null;
  readonly graphId: string | null;
  /** {task id: [{id, value}]}; null when nothing is open. */
  readonly interrupts: Buffer | null;
  /** The run that is pending or running now. */
  readonly activeRunId: RunId | null;
}

/** What a thread is about, and what it is busy with. */
export async function findThreadHead(tenant: TenantReads, threadId: ThreadId): Promise<ThreadHead | null> {
  const rows = await tenant.query<ThreadHead & pg.QueryResultRow>(
    `select t.agent_id as "agentId", coalesce(t.graph_id, t.metadata ->> 'graph_id') as "graphId", t.interrupts, r.id as "activeRunId" from thread t
     left join run r on r.tenant_id = t.tenant_id and r.thread_id = t.id and r.thread_head
     where t.tenant_id = $1 and t.id = $2 and t.deleted_at is null`,
    [tenant.scope.tenantId, threadId],
  );
  return rows[0] ?? null;
}

/** The newest root checkpoint, locked for a change of its metadata. */
export async function lockNewestView(tx: TenantTx, threadId: ThreadId): Promise<StateView | null> {
  const rows = await tx.query<StateView & pg.QueryResultRow>(
    `select ${columns} from checkpoint c where c.tenant_id = $1 and c.thread_id = $2 and c.namespace = '' and c.view is not null
     order by c.seq desc limit 1 for update`,
    [tx.scope.tenantId, threadId],
  );
  return rows[0] ?? null;
}

export async function writeView(
  tx: TenantTx,
  threadId: ThreadId,
  view: StateView,
  text: string,
  metadata: string,
): Promise<void> {
  await tx.query(
    "update checkpoint set view = $5, metadata = $6 where tenant_id = $1 and thread_id = $2 and namespace = $3 and id = $4",
    [tx.scope.tenantId, threadId, view.namespace, view.id, Buffer.from(text), Buffer.from(metadata)],
  );
}
