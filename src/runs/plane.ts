import type { AgentQueue, RunId, RunKey, RunnerId, TenantId } from "../domain/ids.js";
import type { Clock } from "../platform/clock.js";
import type { Limits } from "../platform/config.js";
import type { Log } from "../platform/log.js";
import type { Stores } from "../store/client.js";
import type { RunPath } from "../store/run-path/path.js";
import type { Feeds, LogChunk, RunEnd } from "./feeds.js";
import type { Parked } from "./parked.js";
import type { AgentResolver } from "./resolve-agent.js";

/** What the verbs of a run's path work with. Made by compose, once. */
export interface Plane {
  readonly stores: Stores;
  readonly path: RunPath;
  readonly feeds: Feeds;
  readonly parked: Parked;
  readonly agents: AgentResolver;
  readonly stops: Stops;
  readonly signals: Signals;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly log: Log;
}

/** A run that its holder must stop. */
export interface StopOrder {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly fence: number;
  readonly kind: "cancel" | "superseded";
}

/** Tells the sessions of this process, by runner, to stop a run. */
export interface Stops {
  tell(runnerId: RunnerId, order: StopOrder): void;
  listen(runnerId: RunnerId, listener: (order: StopOrder) => void): () => void;
}

/** News for other processes. Losing one delays somebody by a second; nothing depends on it. */
export interface Signals {
  /** Events were committed here. */
  committed(key: RunKey, chunk: LogChunk, end: RunEnd | null): void;
  /** A run waits for a runner. `dispatchNo` tells a new dispatch of the same run from the last one. */
  waiting(queue: AgentQueue, tenantId: TenantId, runId: RunId, dispatchNo: number): void;
  /** Another process follows the run, as far as this one has heard. */
  isFollowedElsewhere(key: RunKey): boolean;
  /** A runner that may be connected elsewhere must stop a run. */
  stop(runnerId: RunnerId, order: StopOrder): void;
}

export function createStops(): Stops {
  const listeners = new Map<RunnerId, Set<(order: StopOrder) => void>>();
  return {
    tell: (runnerId, order) => {
      for (const listener of listeners.get(runnerId) ?? []) listener(order);
    },
    listen: (runnerId, listener) => {
      const set = listeners.get(runnerId) ?? new Set();
      listeners.set(runnerId, set);
      set.add(listener);
      return () => {
        set.delete(listener);
        if (set.size === 0) listeners.delete(runnerId);
      };
    },
  };
}
