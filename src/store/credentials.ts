import type pg from "pg";
import type { CredentialId, TenantId } from "../domain/ids.js";
import type { ApiScope } from "../domain/scope.js";

/** A stored credential as authentication needs it, found by its public id across tenants: nobody is known yet. */
export interface StoredCredential {
  readonly tenantId: TenantId;
  readonly id: CredentialId;
  readonly secretHash: Buffer;
  readonly previousHash: Buffer | null;
  readonly previousExpiresAt: Date | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** API keys only. */
  readonly scopes: readonly ApiScope[];
  /** Runner tokens only. */
  readonly kind: string;
}

interface Row {
  tenant_id: TenantId;
  id: CredentialId;
  secret_hash: Buffer;
  previous_hash: Buffer | null;
  previous_expires_at: Date | null;
  expires_at: Date | null;
  revoked_at: Date | null;
  scopes?: ApiScope[];
  kind?: string;
}

const find = async (pool: pg.Pool, call: string, publicId: string): Promise<StoredCredential | null> => {
  const result = await pool.query<Row>({ name: call, text: `select * from ${call}($1)`, values: [publicId] });
  const row = result.rows[0];
  if (!row) return null;
  return {
    tenantId: row.tenant_id,
    id: row.id,
    secretHash: row.secret_hash,
    previousHash: row.previous_hash,
    previousExpiresAt: row.previous_expires_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    scopes: row.scopes ?? [],
    kind: row.kind ?? "",
  };
};

export function findApiKey(pool: pg.Pool, publicId: string): Promise<StoredCredential | null> {
  return find(pool, "api_key_find_v1", publicId);
}

export function findRunnerToken(pool: pg.Pool, publicId: string): Promise<StoredCredential | null> {
  return find(pool, "runner_token_find_v1", publicId);
}
