import type { Scope } from "../domain/scope.js";

export const auditOutcomes = ["success", "denied", "failed"] as const;
export type AuditOutcome = (typeof auditOutcomes)[number];

/** A record as it goes to the store, which numbers it, dates it and chains it. */
export interface AuditRow {
  readonly id: string;
  readonly scope: Scope;
  readonly action: string;
  readonly targetKind: string;
  readonly targetId: string;
  readonly outcome: AuditOutcome;
  /** Canonical JSON. */
  readonly detail: string;
}

/**
 * The one statement that writes records, for any tenants that the transaction has set. It locks their heads in one order, so it must be the last
 * statement of the transaction: whoever waits for a head may hold anything else, whoever has one waits for nothing more.
 */
export async function appendAuditRows(
  query: (text: string, values: readonly unknown[]) => Promise<unknown>,
  rows: readonly AuditRow[],
): Promise<void> {
  await query("select audit_append_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)", [
    rows.map(({ scope }) => scope.tenantId),
    rows.map(({ id }) => id),
    rows.map(({ scope }) => scope.actor.kind),
    rows.map(({ scope }) => scope.actor.id),
    rows.map(({ action }) => action),
    rows.map(({ targetKind }) => targetKind),
    rows.map(({ targetId }) => targetId),
    rows.map(({ outcome }) => outcome),
    rows.map(({ detail }) => detail),
  ]);
}
