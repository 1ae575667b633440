import type pg from "pg";
import type { AgentId, HaltId, RunId } from "../domain/ids.js";
import { actorName } from "./actor-name.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

export const haltScopes = ["tenant", "agent", "kind"] as const;
export type HaltScope = (typeof haltScopes)[number];
export const haltModes = ["block", "cancel"] as const;
export type HaltMode = (typeof haltModes)[number];

/** The runs that a halt covers. */
export interface HaltPlace {
  readonly scope: HaltScope;
  readonly agentId: AgentId | null;
  readonly kind: string | null;
}

export interface Halt extends HaltPlace {
  readonly id: HaltId;
  readonly mode: HaltMode;
  readonly version: number;
  readonly liftedAt: Date | null;
}

/** Waits for every create and claim of the tenant that looked before, and keeps those out that come after, until the commit. */
export async function lockHalts(tx: TenantTx): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(halt_key_v1($1))", [tx.scope.tenantId]);
}

export async function insertHalt(
  tx: TenantTx,
  halt: HaltPlace & {
    readonly id: HaltId;
    readonly mode: HaltMode;
    readonly reason: string;
    readonly expiresAt: Date | null;
  },
): Promise<void> {
  await tx.query(
    `insert into halt (tenant_id, id, scope, agent_id, kind, mode, reason, expires_at, created_by) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      tx.scope.tenantId,
      halt.id,
      halt.scope,
      halt.agentId,
      halt.kind,
      halt.mode,
      halt.reason,
      halt.expiresAt,
      actorName(tx),
    ],
  );
}

/** Null when unknown or foreign. */
export async function readHalt(tx: TenantTx, id: HaltId): Promise<Halt | null> {
  const rows = await tx.query<Halt & pg.QueryResultRow>(
    `select id, scope, agent_id as "agentId", kind, mode, version, lifted_at as "liftedAt" from halt where tenant_id = $1 and id = $2 for update`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

export async function writeLift(tx: TenantTx, halt: Halt): Promise<void> {
  const { tenantId } = tx.scope;
  await tx.query(
    "update halt set lifted_at = clock_timestamp(), lifted_by = $3, version = version + 1 where tenant_id = $1 and id = $2",
    [tenantId, halt.id, actorName(tx)],
  );
  await tx.query("select halt_resume_v1($1, $2, $3, $4)", [tenantId, halt.scope, halt.agentId, halt.kind]);
}

export interface Affected {
  readonly pending: number;
  readonly running: number;
}

/** Open runs that a halt of this place covers. */
export async function countAffected(tenant: TenantReads, { scope, agentId, kind }: HaltPlace): Promise<Affected> {
  const rows = await tenant.query<{ pending: string; running: string }>(
    "select pending, running from halt_affects_v1($1, $2, $3, $4)",
    [tenant.scope.tenantId, scope, agentId, kind],
  );
  return { pending: Number(rows[0]?.pending ?? 0), running: Number(rows[0]?.running ?? 0) };
}

/** Some of the runs that a halt has to stop and that were not told yet. */
export async function openHalted(
  tenant: TenantReads,
  { scope, agentId, kind }: HaltPlace,
  limit: number,
): Promise<RunId[]> {
  const rows = await tenant.query<{ run_id: RunId }>("select run_id from halt_open_v1($1, $2, $3, $4, $5)", [
    tenant.scope.tenantId,
    scope,
    agentId,
    kind,
    limit,
  ]);
  return rows.map((row) => row.run_id);
}
