import type pg from "pg";
import type { TenantId } from "../domain/ids.js";
import type { Stores } from "./client.js";
import type { TenantTx } from "./tx.js";

export interface Tenant {
  readonly id: TenantId;
  readonly slug: string;
  readonly name: string;
  readonly weight: number;
  readonly createdAt: Date;
}

const columns = `id, slug, name, weight, created_at as "createdAt"`;

/** Makes the scope's tenant, with the agents of the shared pool. Null when the slug is taken. */
export async function insertTenant(tx: TenantTx, slug: string, name: string): Promise<Tenant | null> {
  const { tenantId } = tx.scope;
  const rows = await tx.query<Tenant & pg.QueryResultRow>(
    `insert into tenant (id, slug, name) values ($1, $2, $3) on conflict do nothing returning ${columns}`,
    [tenantId, slug, name],
  );
  if (rows[0]) await tx.query("select agent_adopt_v1($1)", [tenantId]);
  return rows[0] ?? null;
}

/** For the operator's commands, who name a tenant by its slug or its id. */
export async function findTenantByName(stores: Stores, name: string): Promise<Tenant | null> {
  const result = await stores.app.query<Tenant & pg.QueryResultRow>(`select ${columns} from tenant_find_v1($1)`, [
    name,
  ]);
  return result.rows[0] ?? null;
}

/** For the operator's commands: a page of all tenants, by slug. */
export async function listTenants(stores: Stores, after: string | null, limit: number): Promise<Tenant[]> {
  const result = await stores.app.query<Tenant & pg.QueryResultRow>(`select ${columns} from tenant_list_v1($1, $2)`, [
    after,
    limit,
  ]);
  return result.rows;
}
