import type pg from "pg";
import type { ThreadId } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";
import { agentsOf, noOtherAgents } from "./selected-agents.js";
import { type Thread, type ThreadState, threadColumns, threadWithValues } from "./threads.js";

export const threadOrders = ["thread_id", "status", "created_at", "updated_at", "state_updated_at"] as const;

export interface ThreadFilter {
  readonly ids: readonly ThreadId[] | null;
  readonly status: ThreadState | null;
  /** JSON text of an object that the metadata must contain. */
  readonly metadata: string | null;
  readonly sortBy: (typeof threadOrders)[number];
  readonly descending: boolean;
  readonly limit: number;
  readonly offset: number;
}

const sortColumns: Record<ThreadFilter["sortBy"], string> = {
  thread_id: "t.id",
  status: "t.status",
  created_at: "t.created_at",
  updated_at: "t.updated_at",
  state_updated_at: "t.state_updated_at",
};

/** A page of threads in a total order: equal times are ordered by id. Threads of stateless runs are not listed. */
export function searchThreads(tenant: TenantReads, filter: ThreadFilter): Promise<Thread[]> {
  const direction = filter.descending ? "desc" : "asc";
  return tenant.query<Thread & pg.QueryResultRow>(
    `select ${threadColumns} from ${threadWithValues}
     where t.tenant_id = $1 and t.deleted_at is null and not t.temporary and ($2::uuid[] is null or t.id = any ($2))
       and ($3::text is null or t.status = $3) and ($4::jsonb is null or t.metadata::jsonb @> $4::jsonb)
       and ${noOtherAgents("$7")}
     order by ${sortColumns[filter.sortBy]} ${direction}, t.id ${direction} limit $5 offset $6`,
    [tenant.scope.tenantId, filter.ids, filter.status, filter.metadata, filter.limit, filter.offset, agentsOf(tenant)],
  );
}
