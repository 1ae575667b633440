import type { RunKey, TenantId } from "../domain/ids.js";
import { systemScope } from "../domain/scope.js";
import type { Clock } from "../platform/clock.js";
import { hasUsageBudgets } from "../store/budgets.js";
import type { Stores } from "../store/client.js";
import { withTenantReads } from "../store/reads.js";

const keepMs = 2_000;
const maxKept = 10_000;

/** Which tenants have budgets that a run can use up before it ends; remembered for two seconds. A run that ends is settled without asking here. */
export interface BudgetedTenants {
  has(tenantId: TenantId): Promise<boolean>;
  /** Looks at a run now; while that lasts, however many ask again, it is looked at once more and not at the same time. */
  look(key: RunKey, at: () => Promise<void>): Promise<void>;
}

export function createBudgetedTenants(stores: Stores, clock: Clock): BudgetedTenants {
  const kept = new Map<TenantId, { has: Promise<boolean>; until: number }>();
  const looking = new Map<RunKey, { again: boolean }>();
  return {
    look: async (key, at) => {
      const before = looking.get(key);
      if (before) {
        before.again = true;
        return;
      }
      const mine = { again: true };
      looking.set(key, mine);
      try {
        while (mine.again) {
          mine.again = false;
          await at();
        }
      } finally {
        looking.delete(key);
      }
    },
    has: (tenantId) => {
      const hit = kept.get(tenantId);
      if (hit && hit.until > clock.monotonic()) return hit.has;
      if (kept.size >= maxKept) kept.clear();
      const has = withTenantReads(stores, systemScope(tenantId), hasUsageBudgets);
      kept.set(tenantId, { has, until: clock.monotonic() + keepMs });
      has.catch(() => kept.delete(tenantId));
      return has;
    },
  };
}
