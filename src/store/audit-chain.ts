import type pg from "pg";
import type { AuditCheckpoint, ChainPoint } from "../domain/audit-checkpoint.js";
import { writeRecord } from "../domain/audit-record.js";
import type { TenantId } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";
import { tenantSet } from "./run-path/tenant-set.js";

// The chain as verifiers, signers and exports read it: pages by number. What was hashed is written anew here from the columns, not by the database:
// who can change its rows can change its functions.

export interface AuditHead extends ChainPoint {
  readonly signedSeq: number;
}

const time = (column: string): string => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

export async function readAuditHead(reads: TenantReads): Promise<AuditHead | null> {
  const rows = await reads.query<{ seq: number; hash: string; signedSeq: number }>(
    `select seq, encode(hash, 'hex') as hash, signed_seq as "signedSeq" from audit_head where tenant_id = $1`,
    [reads.scope.tenantId],
  );
  return rows[0] ?? null;
}

export interface ChainedRow {
  readonly seq: number;
  readonly id: string;
  readonly record: string;
  readonly hash: string;
}

interface RecordRow extends pg.QueryResultRow {
  seq: number;
  id: string;
  at: string;
  actorKind: string;
  actorId: string | null;
  action: string;
  targetKind: string;
  targetId: string;
  outcome: string;
  detail: string;
  prev: string;
  hash: string;
}

/** Of two records with one number, which no honest chain has, both come. `after` names the last row of the page before. */
export async function readChainPage(
  reads: TenantReads,
  after: { readonly seq: number; readonly id: string },
  to: number,
  limit: number,
): Promise<ChainedRow[]> {
  const { tenantId } = reads.scope;
  const rows = await reads.query<RecordRow>(
    `select seq, id, ${time("at")} as at, actor_kind as "actorKind", actor_id as "actorId", action, target_kind as "targetKind", target_id as "targetId",
       outcome, detail::text as detail, encode(prev_hash, 'hex') as prev, encode(hash, 'hex') as hash
     from audit_event where tenant_id = $1 and seq >= $2 and (seq, id) > ($2, $3) and seq <= $4 order by seq, id limit $5`,
    [tenantId, after.seq, after.id, to, limit],
  );
  return rows.map(({ hash, ...row }) => ({
    seq: row.seq,
    id: row.id,
    record: writeRecord({ tenantId, ...row }),
    hash,
  }));
}

/** Whether records stand behind the end of the chain, asked together with where that is. */
export async function hasRecordsBehindHead(reads: TenantReads): Promise<boolean> {
  const rows = await reads.query<{ found: boolean }>(
    "select exists (select 1 from audit_event e join audit_head h using (tenant_id) where e.tenant_id = $1 and e.seq > h.seq) as found",
    [reads.scope.tenantId],
  );
  return rows[0]?.found === true;
}

/** The number of the newest checkpoint; 0 when there is none. */
export async function readNewestCheckpoint(reads: TenantReads): Promise<number> {
  const rows = await reads.query<{ seq: number | null }>(
    "select max(seq) as seq from audit_checkpoint where tenant_id = $1",
    [reads.scope.tenantId],
  );
  return rows[0]?.seq ?? 0;
}

export async function readCheckpointPage(
  reads: TenantReads,
  after: number,
  to: number,
  limit: number,
): Promise<AuditCheckpoint[]> {
  const { tenantId } = reads.scope;
  const rows = await reads.query<Omit<AuditCheckpoint, "tenantId"> & pg.QueryResultRow>(
    `select seq, encode(hash, 'hex') as hash, ${time("at")} as at, key_id as "keyId", signature
     from audit_checkpoint where tenant_id = $1 and seq > $2 and seq <= $3 order by seq limit $4`,
    [tenantId, after, to, limit],
  );
  return rows.map((row) => ({ ...row, tenantId }));
}

/** Tenants whose chain has grown by so much, or that long ago, since it was signed. For the sweeper's connection. */
export async function tenantsToSign(
  pool: pg.Pool,
  records: number,
  afterMs: number,
  limit: number,
): Promise<TenantId[]> {
  const { rows } = await pool.query<{ id: TenantId }>(
    `select tenant_id as id from audit_head
     where seq > signed_seq and (seq - signed_seq >= $1 or signed_at <= clock_timestamp() - $2 * interval '1 ms') order by signed_at limit $3`,
    [records, afterMs, limit],
  );
  return rows.map(({ id }) => id);
}

/** How many were kept: those that are beyond the newest. */
export async function keepCheckpoints(pool: pg.Pool, checkpoints: readonly AuditCheckpoint[]): Promise<number> {
  const { rows } = await pool.query<{ kept: number }>(
    "select audit_checkpoint_v1($1, $2, $3, $4, $5, $6, $7) as kept",
    [
      tenantSet(checkpoints),
      checkpoints.map(({ tenantId }) => tenantId),
      checkpoints.map(({ seq }) => seq),
      checkpoints.map(({ hash }) => Buffer.from(hash, "hex")),
      checkpoints.map(({ at }) => at),
      checkpoints.map(({ keyId }) => keyId),
      checkpoints.map(({ signature }) => signature),
    ],
  );
  return rows[0]?.kept ?? 0;
}
