import { expect } from "vitest";
import type { BudgetId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { archiveBudget, type BudgetInput, createBudget } from "../../src/governance/edit-budgets.js";
import { readBudgetState } from "../../src/store/budgets.js";
import { withTenantReads } from "../../src/store/reads.js";
import type { TestDatabase } from "./postgres.js";
import type { RunMoves } from "./run-moves.js";
import { withAdmin } from "./template-database.js";

/** Budgets of a tenant whose runs are moved by hand, and what must hold of them at any moment. */
export function budgetsOf(database: () => TestDatabase, moves: () => RunMoves) {
  const budgets: BudgetId[] = [];
  async function budget(more: Partial<BudgetInput> = {}): Promise<BudgetId> {
    const id = await createBudget(
      moves().stores,
      systemScope(moves().tenantId),
      {
        ...{ name: "b", unit: "runs", scope: "tenant", agentId: null, apiKeyId: null, period: "lifetime", zone: "UTC" },
        ...{ amount: 10n, runHold: 1n, hard: true, ...more },
      } as BudgetInput,
      null,
    );
    budgets.push(id);
    return id;
  }

  const stateOf = (id: BudgetId) =>
    withTenantReads(moves().stores, systemScope(moves().tenantId), async (tenant) => {
      const { posted, held } = await readBudgetState(tenant, moves().tenantId, id);
      return { posted, held };
    });
  const sql = async (text: string, values: unknown[] = []) =>
    withAdmin(
      database().adminUrl,
      async (admin) => (await admin.query(text, values)).rows as Record<string, unknown>[],
    );

  /** The counters are what the ledger says, and every open hold is of an open run. */
  async function expectSound(): Promise<void> {
    const wrong = await sql(`
      select w.budget_id, w.posted, w.held, e.posted as entries_posted, e.held as entries_held from budget_window w
      join lateral (select coalesce(sum(posted) filter (where folded), 0) as posted, coalesce(sum(held) filter (where folded), 0) as held from budget_entry e
        where e.tenant_id = w.tenant_id and e.budget_id = w.budget_id and e.starts_at = w.starts_at) e on true
      where w.posted <> e.posted or w.held <> e.held`);
    expect(wrong).toEqual([]);
    const orphans =
      await sql(`select h.* from budget_hold h left join run r on r.tenant_id = h.tenant_id and r.id = h.run_id
      where h.settled_at is null and (r.id is null or r.status not in ('pending', 'running') or not r.budgeted)`);
    expect(orphans).toEqual([]);
    const held = await sql(`select b.id from budget b
      join lateral (select coalesce(sum(e.held), 0) as held from budget_entry e where e.tenant_id = b.tenant_id and e.budget_id = b.id) e on true
      join lateral (select coalesce(sum(h.amount), 0) as held from budget_hold h where h.tenant_id = b.tenant_id and h.budget_id = b.id and h.settled_at is null) h on true
      where e.held <> h.held`);
    expect(held).toEqual([]);
  }

  const archiveAll = async (): Promise<void> => {
    for (const id of budgets.splice(0))
      await archiveBudget(moves().stores, systemScope(moves().tenantId), { id, expectedVersion: null });
  };
  return { budget, stateOf, sql, expectSound, archiveAll };
}
