import type pg from "pg";
import type { AgentId, BudgetId, CredentialId, RunId, TenantId } from "../domain/ids.js";
import { actorName } from "./actor-name.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

export const budgetUnits = ["runs", "tokens", "usd"] as const;
export type BudgetUnit = (typeof budgetUnits)[number];
export const budgetScopes = ["tenant", "agent", "key"] as const;
export type BudgetScope = (typeof budgetScopes)[number];
export const budgetPeriods = ["hour", "day", "week", "month", "lifetime"] as const;
export type BudgetPeriod = (typeof budgetPeriods)[number];

export interface BudgetTerms {
  readonly name: string;
  /** In the budget's unit; money in nanodollars. */
  readonly amount: bigint;
  /** What a run holds from its creation until its end. */
  readonly runHold: bigint;
  /** A soft budget counts and refuses nothing. */
  readonly hard: boolean;
}

export interface NewBudget extends BudgetTerms {
  readonly unit: BudgetUnit;
  readonly scope: BudgetScope;
  readonly agentId: AgentId | null;
  readonly apiKeyId: CredentialId | null;
  readonly period: BudgetPeriod;
  /** IANA name; windows begin at its midnights. */
  readonly zone: string;
}

export interface Budget extends BudgetTerms {
  readonly id: BudgetId;
  readonly unit: BudgetUnit;
  readonly version: number;
  readonly archivedAt: Date | null;
}

export async function insertBudget(tx: TenantTx, id: BudgetId, budget: NewBudget): Promise<void> {
  await tx.query(
    `insert into budget (tenant_id, id, name, unit, scope, agent_id, api_key_id, period, zone, amount, run_hold, hard, created_by)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
    [
      ...[tx.scope.tenantId, id, budget.name, budget.unit, budget.scope, budget.agentId, budget.apiKeyId],
      ...[budget.period, budget.zone, budget.amount, budget.runHold, budget.hard, actorName(tx)],
    ],
  );
}

/** Null when unknown or foreign. */
export async function lockBudget(tx: TenantTx, id: BudgetId): Promise<Budget | null> {
  const rows = await tx.query<Omit<Budget, "amount" | "runHold"> & { amount: string; runHold: string }>(
    `select id, name, unit, amount, run_hold as "runHold", hard, version, archived_at as "archivedAt"
     from budget where tenant_id = $1 and id = $2 for no key update`,
    [tx.scope.tenantId, id],
  );
  const row = rows[0];
  return row ? { ...row, amount: BigInt(row.amount), runHold: BigInt(row.runHold) } : null;
}

/** Waits for the creates that have looked at a budget's terms, and keeps those out that come after, until the commit. */
export async function lockWindows(tx: TenantTx, id: BudgetId): Promise<void> {
  await tx.query(
    "select 1 from budget_window where tenant_id = $1 and budget_id = $2 order by starts_at for no key update",
    [tx.scope.tenantId, id],
  );
}

export async function writeTerms(tx: TenantTx, id: BudgetId, terms: BudgetTerms): Promise<void> {
  await tx.query(
    "update budget set name = $3, amount = $4, run_hold = $5, hard = $6, version = version + 1 where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id, terms.name, terms.amount, terms.runHold, terms.hard],
  );
}

export async function writeArchival(tx: TenantTx, id: BudgetId): Promise<void> {
  await tx.query(
    "update budget set archived_at = clock_timestamp(), version = version + 1 where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id],
  );
}

export async function isZone(tx: TenantTx, zone: string): Promise<boolean> {
  // Names only: an offset such as +2 would mean the opposite here.
  const rows = await tx.query("select 1 from pg_timezone_names where name = $1", [zone]);
  return rows.length > 0;
}

export interface BudgetState {
  readonly startsAt: Date | null;
  readonly endsAt: Date | null;
  readonly posted: bigint;
  readonly held: bigint;
  /** The last entry of the ledger that is in these sums, and when they were read. */
  readonly position: bigint;
  readonly at: Date;
}

/** The handle of a GraphQL operation, or of a transaction. Whole numbers come as texts or as bigints. */
interface StateReads {
  query<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[]): Promise<Row[]>;
}

/** What the window of now says. */
export async function readBudgetState(reads: StateReads, tenantId: TenantId, id: BudgetId): Promise<BudgetState> {
  const rows = await reads.query<{
    starts_at: Date | null;
    ends_at: Date | null;
    posted: string | bigint;
    held: string | bigint;
    position: string | bigint;
    at: Date;
  }>(
    `select case when b.period <> 'lifetime' then w.starts_at end as starts_at,
       case b.period when 'lifetime' then null when 'hour' then w.starts_at + interval '1 hour'
         else ((w.starts_at at time zone b.zone) + ('1 ' || b.period)::interval) at time zone b.zone end as ends_at,
       s.posted, s.held, s."position", n.at
     from (select clock_timestamp() as at) n, budget b
     cross join lateral (select budget_window_v1(b.period, b.zone, n.at) as starts_at) w
     cross join lateral budget_state_v1(b.tenant_id, b.id, w.starts_at) s where b.tenant_id = $1::uuid and b.id = $2::uuid`,
    [tenantId, id],
  );
  const row = rows[0] as (typeof rows)[number];
  return {
    startsAt: row.starts_at,
    endsAt: row.ends_at,
    posted: BigInt(row.posted),
    held: BigInt(row.held),
    position: BigInt(row.position),
    at: row.at,
  };
}

/** Whether runs of the tenant may hold something that can be used up before they end. */
export async function hasUsageBudgets(tenant: TenantReads): Promise<boolean> {
  const rows = await tenant.query(
    "select 1 from budget where tenant_id = $1 and archived_at is null and unit <> 'runs' limit 1",
    [tenant.scope.tenantId],
  );
  return rows.length > 0;
}

/** Raises a run's holds to what it has used. Why it has to end, or null. */
export async function raiseHolds(pool: pg.Pool, tenantId: TenantId, runId: RunId): Promise<string | null> {
  const { rows } = await pool.query<{ why: string | null }>("select budget_raise_v1($1, $2) as why", [tenantId, runId]);
  return rows[0]?.why ?? null;
}

export interface ModelPrice {
  readonly model: string;
  /** In picodollars a token. */
  readonly inputPico: bigint;
  readonly outputPico: bigint;
  readonly cacheReadPico: bigint;
  /** Null: from now on. */
  readonly effectiveFrom: Date | null;
}

/** False when the model has a price from this moment on already. */
export async function insertPrice(tx: TenantTx, id: string, price: ModelPrice): Promise<boolean> {
  const rows = await tx.query(
    `insert into model_price (tenant_id, id, model, effective_from, input_pico, output_pico, cache_read_pico, created_by)
     values ($1, $2, $3, coalesce($4, clock_timestamp()), $5, $6, $7, $8) on conflict do nothing returning id`,
    [
      ...[tx.scope.tenantId, id, price.model, price.effectiveFrom, price.inputPico, price.outputPico],
      ...[price.cacheReadPico, actorName(tx)],
    ],
  );
  return rows.length > 0;
}
