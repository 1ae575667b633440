import type pg from "pg";
import type { TenantTx } from "./tx.js";

const nobody = "00000000-0000-0000-0000-000000000000";

export interface CreateRequest {
  readonly operation: string;
  readonly key: string;
  readonly hash: Buffer;
  readonly targetId: string;
}

/** Notes a create under its caller's key. Null when it is the first; else what the first one made and whether it asked for the same. Waits for a
 *  concurrent first one. */
export async function noteCreate(
  tx: TenantTx,
  request: CreateRequest,
): Promise<{ readonly targetId: string; readonly same: boolean } | null> {
  const { tenantId, actor } = tx.scope;
  const place = [tenantId, actor.id ?? nobody, request.operation, request.key];
  const made = await tx.query(
    `insert into create_request (tenant_id, actor_id, operation, key, request_hash, target_id) values ($1, $2, $3, $4, $5, $6)
     on conflict do nothing returning target_id`,
    [...place, request.hash, request.targetId],
  );
  if (made.length > 0) return null;
  const rows = await tx.query<{ targetId: string; same: boolean } & pg.QueryResultRow>(
    `select target_id as "targetId", request_hash = $5 as same from create_request
     where tenant_id = $1 and actor_id = $2 and operation = $3 and key = $4`,
    [...place, request.hash],
  );
  return rows[0] ?? null;
}
