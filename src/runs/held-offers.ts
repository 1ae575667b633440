import { type RunId, type RunKey, runKey, type TenantId } from "../domain/ids.js";

// Runs that nobody could take at once, though a runner is here that will ask again within moments: its answer is on the way to it. Whoever tells the
// queue at once makes a job that is stale when it is fetched, for half of all runs under load (measured: a quarter of the plane's CPU). So the word is held
// back for as long as a runner needs to ask again, and given only for runs that were not claimed here meanwhile. What is lost with the process is found by
// the relay, like every hint that is lost. One timer serves all.

export interface HeldOffers {
  hold(tenantId: TenantId, runId: RunId, otherwise: () => void): void;
  /** It was claimed here. */
  claimed(tenantId: TenantId, runId: RunId): void;
  /** Gives the word for all that are held. */
  release(): void;
}

interface Held {
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
    hold: (tenantId, runId, otherwise) => {
      held.set(runKey(tenantId, runId), { until: performance.now() + holdMs, otherwise });
      timer ??= setTimeout(() => giveUp(performance.now()), holdMs);
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
