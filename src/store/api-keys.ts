import type { AgentId, CredentialId } from "../domain/ids.js";
import type { ApiScope, Owner } from "../domain/scope.js";
import { actorName } from "./actor-name.js";
import type { TenantTx } from "./tx.js";

export interface NewApiKey {
  readonly id: CredentialId;
  readonly publicId: string;
  readonly name: string;
  readonly secretHash: Buffer;
  readonly last4: string;
  readonly scopes: readonly ApiScope[];
  readonly expiresAt: Date | null;
  readonly owner: Owner | null;
  /** Empty: all. */
  readonly agents: readonly AgentId[];
}

export async function insertApiKey(tx: TenantTx, key: NewApiKey): Promise<void> {
  await tx.query(
    `insert into api_key (tenant_id, id, public_id, name, secret_hash, last4, scopes, created_by, expires_at, member_id, service_account_id, agent_ids)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      tx.scope.tenantId,
      key.id,
      key.publicId,
      key.name,
      key.secretHash,
      key.last4,
      key.scopes,
      actorName(tx),
      key.expiresAt,
      key.owner?.kind === "member" ? key.owner.id : null,
      key.owner?.kind === "service_account" ? key.owner.id : null,
      key.agents,
    ],
  );
}

/** Which of these agents the tenant has. */
export async function knownAgents(tx: TenantTx, ids: readonly string[]): Promise<Set<string>> {
  const rows = await tx.query<{ id: string }>("select id from agent where tenant_id = $1 and id = any ($2::uuid[])", [
    tx.scope.tenantId,
    ids,
  ]);
  return new Set(rows.map(({ id }) => id));
}

export async function knowsApiKey(tx: TenantTx, id: CredentialId): Promise<boolean> {
  const rows = await tx.query("select 1 from api_key where tenant_id = $1 and id = $2", [tx.scope.tenantId, id]);
  return rows.length > 0;
}
