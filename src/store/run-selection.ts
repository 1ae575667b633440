import type { RunId, ThreadId } from "../domain/ids.js";
import type { RunState } from "../domain/moves/run.js";
import type { TenantReads } from "./reads.js";
import { agentsOf } from "./selected-agents.js";

export interface RunSelection {
  readonly threadId: ThreadId | null;
  readonly runIds: readonly RunId[] | null;
  readonly statuses: readonly RunState[] | null;
}

/** The ids of the runs that a bulk request means, oldest first. */
export async function selectRunIds(tenant: TenantReads, selection: RunSelection, limit: number): Promise<RunId[]> {
  const rows = await tenant.query<{ id: RunId }>(
    `select r.id from run r where r.tenant_id = $1 and ($2::uuid is null or r.thread_id = $2) and ($3::uuid[] is null or r.id = any ($3))
       and ($4::text[] is null or r.status = any ($4)) and r.deleted_at is null and r.purpose = 'run'
       and ($6::uuid[] is null or r.agent_id = any ($6)) order by r.created_at, r.id limit $5`,
    [tenant.scope.tenantId, selection.threadId, selection.runIds, selection.statuses, limit, agentsOf(tenant)],
  );
  return rows.map((row) => row.id);
}
