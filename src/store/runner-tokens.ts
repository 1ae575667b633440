import type { CredentialId } from "../domain/ids.js";
import type { TenantTx } from "./tx.js";

export interface NewRunnerToken {
  readonly id: CredentialId;
  readonly publicId: string;
  readonly name: string;
  readonly kind: string;
  readonly secretHash: Buffer;
  readonly last4: string;
  readonly expiresAt: Date | null;
}

export async function insertRunnerToken(tx: TenantTx, token: NewRunnerToken): Promise<void> {
  const { kind, id } = tx.scope.actor;
  await tx.query(
    `insert into runner_token (tenant_id, id, public_id, name, kind, secret_hash, last4, created_by, expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      tx.scope.tenantId,
      token.id,
      token.publicId,
      token.name,
      token.kind,
      token.secretHash,
      token.last4,
      id ? `${kind}:${id}` : kind,
      token.expiresAt,
    ],
  );
}
