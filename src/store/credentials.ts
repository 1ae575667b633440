import type pg from "pg";
import type { AgentId, CredentialId, MemberId, ServiceAccountId, TenantId } from "../domain/ids.js";
import type { Role } from "../domain/roles.js";
import type { ApiScope, Owner } from "../domain/scope.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

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
  /** API keys only: the agents that it is for; null for all of them. */
  readonly agents: readonly AgentId[] | null;
  /** API keys only: null for a key of the tenant's own. */
  readonly owner: Owner | null;
  /** What the owner is now; null without an owner, and when the owner is gone. */
  readonly role: Role | null;
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
  agent_ids?: AgentId[];
  owner_kind?: Owner["kind"] | null;
  owner_id?: MemberId | ServiceAccountId;
  owner_role?: Role | null;
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
    agents: row.agent_ids && row.agent_ids.length > 0 ? row.agent_ids : null,
    owner: row.owner_kind ? ({ kind: row.owner_kind, id: row.owner_id } as Owner) : null,
    role: row.owner_role ?? null,
    kind: row.kind ?? "",
  };
};

export function findApiKey(pool: pg.Pool, publicId: string): Promise<StoredCredential | null> {
  return find(pool, "api_key_find_v2", publicId);
}

export function findRunnerToken(pool: pg.Pool, publicId: string): Promise<StoredCredential | null> {
  return find(pool, "runner_token_find_v1", publicId);
}

/** Notes that credentials were used, to the minute. */
export async function touchCredentials(
  pool: pg.Pool,
  apiKeys: readonly CredentialId[],
  runnerTokens: readonly CredentialId[],
): Promise<void> {
  await pool.query({
    name: "credential_touch_v1",
    text: "select credential_touch_v1($1, $2)",
    values: [apiKeys, runnerTokens],
  });
}

/** The kinds of credentials; each is the name of its table. */
export type CredentialTable = "api_key" | "runner_token";

const owned = `scopes, coalesce(member_id, service_account_id) as "ownerId", member_id is not null as "isMembers", coalesce(
  (select m.role from member m where m.tenant_id = k.tenant_id and m.id = k.member_id and m.status = 'active'),
  (select s.role from service_account s where s.tenant_id = k.tenant_id and s.id = k.service_account_id and s.removed_at is null)) as role`;
const unowned = `'{}'::text[] as scopes, null as "ownerId", false as "isMembers", null as role`;

export interface LockedCredential {
  readonly publicId: string;
  readonly previousExpiresAt: Date | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** API keys only. */
  readonly scopes: readonly ApiScope[];
  /** API keys only: whose it is, and what they are now. */
  readonly ownerId: MemberId | ServiceAccountId | null;
  readonly isMembers: boolean;
  readonly role: Role | null;
}

/** Null when unknown or foreign. */
export async function lockCredential(
  tx: TenantTx,
  table: CredentialTable,
  id: CredentialId,
): Promise<LockedCredential | null> {
  const rows = await tx.query<LockedCredential & pg.QueryResultRow>(
    `select public_id as "publicId", previous_expires_at as "previousExpiresAt", expires_at as "expiresAt", revoked_at as "revokedAt",
       ${table === "api_key" ? owned : unowned}
     from ${table} k where tenant_id = $1 and id = $2 for update`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

/** Puts a new secret into the first slot; the one of before moves to the second, until its deadline, or goes. */
export async function writeRotation(
  tx: TenantTx,
  table: CredentialTable,
  id: CredentialId,
  secret: { readonly hash: Buffer; readonly last4: string },
  previousExpiresAt: Date | null,
): Promise<void> {
  await tx.query(
    `update ${table} set previous_hash = case when $5::timestamptz is not null then secret_hash end, previous_expires_at = $5, secret_hash = $3, last4 = $4,
       rotated_at = clock_timestamp()
     where tenant_id = $1 and id = $2`,
    [tx.scope.tenantId, id, secret.hash, secret.last4, previousExpiresAt],
  );
}

export async function writeRevocation(tx: TenantTx, table: CredentialTable, id: CredentialId): Promise<void> {
  await tx.query(`update ${table} set revoked_at = clock_timestamp() where tenant_id = $1 and id = $2`, [
    tx.scope.tenantId,
    id,
  ]);
}

/** A credential as its administrators see it. */
export interface ListedCredential {
  readonly id: CredentialId;
  readonly name: string;
  readonly publicId: string;
  readonly last4: string;
  /** API keys only. */
  readonly scopes: readonly ApiScope[];
  /** Runner tokens only. */
  readonly kind: string | null;
  readonly createdBy: string;
  readonly createdAt: Date;
  readonly rotatedAt: Date | null;
  readonly previousExpiresAt: Date | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  readonly lastUsedAt: Date | null;
}

/** All of a tenant's, the newest first. */
export function listCredentials(tenant: TenantReads, table: CredentialTable): Promise<ListedCredential[]> {
  const special = table === "api_key" ? "scopes, null as kind" : "'{}'::text[] as scopes, kind";
  return tenant.query<ListedCredential & pg.QueryResultRow>(
    `select id, name, public_id as "publicId", last4, ${special}, created_by as "createdBy", created_at as "createdAt", rotated_at as "rotatedAt",
       previous_expires_at as "previousExpiresAt", expires_at as "expiresAt", revoked_at as "revokedAt", last_used_at as "lastUsedAt"
     from ${table} where tenant_id = $1 order by created_at desc, id desc`,
    [tenant.scope.tenantId],
  );
}
