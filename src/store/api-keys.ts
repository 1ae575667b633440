import type { CredentialId } from "../domain/ids.js";
import type { ApiScope } from "../domain/scope.js";
import type { TenantTx } from "./tx.js";

export interface NewApiKey {
  readonly id: CredentialId;
  readonly publicId: string;
  readonly name: string;
  readonly secretHash: Buffer;
  readonly last4: string;
  readonly scopes: readonly ApiScope[];
  readonly expiresAt: Date | null;
}

export async function insertApiKey(tx: TenantTx, key: NewApiKey): Promise<void> {
  await tx.query(
    `insert into api_key (tenant_id, id, public_id, name, secret_hash, last4, scopes, created_by, expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
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
    ],
  );
}

const actorName = (tx: TenantTx): string =>
  tx.scope.actor.id ? `${tx.scope.actor.kind}:${tx.scope.actor.id}` : tx.scope.actor.kind;
