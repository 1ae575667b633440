import type { RunnerId } from "../domain/ids.js";
import { type RunnerScope, systemScope } from "../domain/scope.js";
import type { Stores } from "./client.js";
import { withTenantTx } from "./tx.js";

export interface RunnerRow {
  readonly id: RunnerId;
  readonly version: string;
  readonly capacity: number;
  readonly announcementDigest: string;
  readonly graphIds: readonly string[];
}

/** Remembers a runner process as it announced itself. */
export async function upsertRunner(stores: Stores, scope: RunnerScope, row: RunnerRow): Promise<void> {
  await withTenantTx(stores, systemScope(scope.poolId), (tx) =>
    tx.query(
      `insert into runner (tenant_id, id, token_id, kind, version, capacity, announcement_digest, graph_ids, status)
       values ($1, $2, $3, $4, $5, $6, $7, $8, 'ready')
       on conflict (tenant_id, id) do update set token_id = excluded.token_id, version = excluded.version, capacity = excluded.capacity,
         announcement_digest = excluded.announcement_digest, graph_ids = excluded.graph_ids, status = 'ready', last_seen_at = clock_timestamp(), gone_at = null`,
      [
        scope.poolId,
        row.id,
        scope.tokenId,
        scope.kind,
        row.version,
        row.capacity,
        row.announcementDigest,
        row.graphIds,
      ],
    ),
  );
}

/** Notes which runners of a pool were heard of, and which are gone. */
export async function noteRunners(
  stores: Stores,
  poolId: RunnerScope["poolId"],
  seen: readonly RunnerId[],
  gone: readonly RunnerId[],
): Promise<void> {
  await withTenantTx(stores, systemScope(poolId), (tx) =>
    tx.query(
      `update runner set last_seen_at = case when id = any ($2) then clock_timestamp() else last_seen_at end,
         status = case when id = any ($3) then 'gone' else 'ready' end, gone_at = case when id = any ($3) then clock_timestamp() end
       where tenant_id = $1 and (id = any ($2) or id = any ($3))`,
      [poolId, seen, gone],
    ),
  );
}
