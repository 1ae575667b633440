import type pg from "pg";
import type { CredentialId, MemberId, SessionId, TenantId } from "../domain/ids.js";
import type { Role } from "../domain/roles.js";
import { apiScopes } from "../domain/scope.js";
import type { StoredCredential } from "./credentials.js";
import type { TenantTx } from "./tx.js";

interface Row {
  tenant_id: TenantId;
  id: SessionId;
  member_id: MemberId;
  secret_hash: Buffer;
  expires_at: Date;
  last_used_at: Date;
  ended_at: Date | null;
  role: Role | null;
}

/** A session as authentication needs it. It ends at its absolute expiry, or when it was idle for too long. */
export async function findSession(pool: pg.Pool, publicId: string, idleMs: number): Promise<StoredCredential | null> {
  const result = await pool.query<Row>({
    name: "session_find_v1",
    text: "select * from session_find_v1($1)",
    values: [publicId],
  });
  const row = result.rows[0];
  if (!row) return null;
  return {
    tenantId: row.tenant_id,
    id: row.id as string as CredentialId,
    secretHash: row.secret_hash,
    previousHash: null,
    previousExpiresAt: null,
    expiresAt: new Date(Math.min(row.expires_at.getTime(), row.last_used_at.getTime() + idleMs)),
    revokedAt: row.ended_at,
    scopes: apiScopes,
    agents: null,
    owner: { kind: "member", id: row.member_id },
    role: row.role,
    kind: "",
  };
}

/** Notes that sessions were used, so that their idle time begins again. */
export async function touchSessions(pool: pg.Pool, ids: readonly string[]): Promise<void> {
  await pool.query({ name: "session_touch_v1", text: "select session_touch_v1($1)", values: [ids] });
}

export interface NewSession {
  readonly id: SessionId;
  readonly memberId: MemberId;
  readonly publicId: string;
  readonly secretHash: Buffer;
  readonly signInHash: Buffer;
  readonly expiresAt: Date;
}

/** False when this sign-in has made a session already. */
export async function insertSession(tx: TenantTx, session: NewSession): Promise<boolean> {
  const rows = await tx.query(
    `insert into session (tenant_id, id, member_id, public_id, secret_hash, sign_in_hash, expires_at) values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (sign_in_hash) do nothing returning id`,
    [
      tx.scope.tenantId,
      session.id,
      session.memberId,
      session.publicId,
      session.secretHash,
      session.signInHash,
      session.expiresAt,
    ],
  );
  return rows.length > 0;
}

/** Ends one session. Null when it is over already. */
export async function endSession(tx: TenantTx, publicId: string): Promise<SessionId | null> {
  const rows = await tx.query<{ id: SessionId }>(
    "update session set ended_at = clock_timestamp() where tenant_id = $1 and public_id = $2 and ended_at is null returning id",
    [tx.scope.tenantId, publicId],
  );
  return rows[0]?.id ?? null;
}

/** Ends all sessions of a member; their public ids. */
export async function endSessionsOf(tx: TenantTx, memberId: MemberId): Promise<string[]> {
  const rows = await tx.query<{ publicId: string }>(
    `update session set ended_at = clock_timestamp() where tenant_id = $1 and member_id = $2 and ended_at is null returning public_id as "publicId"`,
    [tx.scope.tenantId, memberId],
  );
  return rows.map(({ publicId }) => publicId);
}

/** The public ids of a member's open sessions. */
export async function sessionsOf(tx: TenantTx, memberId: MemberId): Promise<string[]> {
  const rows = await tx.query<{ publicId: string }>(
    `select public_id as "publicId" from session where tenant_id = $1 and member_id = $2 and ended_at is null`,
    [tx.scope.tenantId, memberId],
  );
  return rows.map(({ publicId }) => publicId);
}
