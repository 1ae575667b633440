import { type RunId, type RunKey, runKey, type TenantId } from "../domain/ids.js";

// Runs that nobody could take at once, though a runner is here that will ask again within moments: its answer is on the way to it. Whoever tells the
// queue at once makes a job that is stale when it is fetched, for half of all runs under load (measured: a quarter of the plane's CPU). So the word is held
// back for as long as a runner needs to ask again, and given only for runs that were not claimed here meanwhile. Who asks meanwhile gets them by name,
// which spares the search in Postgres. What is lost with the process is found by the relay, like every hint that is lost.

export interface HeldRun {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly graphId: string;
}

/** The held runs of one queue. */
export interface HeldOffers {
  hold(run: HeldRun, otherwise: () => void): void;
  has(graphIds: ReadonlySet<string>): boolean;
  /** Takes out at most `limit` runs of these graphs: the oldest of each tenant, then the next of each. */
  take(graphIds: ReadonlySet<string>, limit: number): HeldRun[];
  /** It was claimed here. */
  claimed(tenantId: TenantId, runId: RunId): void;
  /** Gives the word for all that are held. */
  release(): void;
}

interface Held extends HeldRun {
  readonly until: number;
  readonly otherwise: () => void;
}

export function createHeldOffers(holdMs: number): HeldOffers {
  // In the order of their ends, because all are held equally long.
  const held = new Map<RunKey, Held>();
  let timer: NodeJS.Timeout | undefined;

  const giveUp = (now: number): void => {
    timer = undefined;
    for (const [key, { until, otherwise }] of held) {
      if (until > now) {
        timer = setTimeout(() => giveUp(performance.now()), until - now);
        return;
      }
      held.delete(key);
      otherwise();
    }
  };

  return {
    hold: (run, otherwise) => {
      held.set(runKey(run.tenantId, run.runId), { ...run, until: performance.now() + holdMs, otherwise });
      timer ??= setTimeout(() => giveUp(performance.now()), holdMs);
    },
    has: (graphIds) => {
      for (const { graphId } of held.values()) if (graphIds.has(graphId)) return true;
      return false;
    },
    take: (graphIds, limit) => {
      const turns: HeldRun[][] = [];
      const turnOf = new Map<TenantId, number>();
      for (const run of held.values()) {
        if (!graphIds.has(run.graphId)) continue;
        const turn = turnOf.get(run.tenantId) ?? 0;
        turnOf.set(run.tenantId, turn + 1);
        turns[turn] ??= [];
        turns[turn].push(run);
      }
      const taken = turns.flat().slice(0, limit);
      for (const { tenantId, runId } of taken) held.delete(runKey(tenantId, runId));
      return taken;
    },
    claimed: (tenantId, runId) => {
      held.delete(runKey(tenantId, runId));
    },
    release: () => {
      clearTimeout(timer);
      giveUp(Number.POSITIVE_INFINITY);
    },
  };
}
