import {
  type AgentQueue,
  type QueueName,
  queueKey,
  type RunId,
  type RunKey,
  type RunnerId,
  type TenantId,
} from "../domain/ids.js";
import type { Denials } from "../governance/record-denials.js";
import type { ToolGate } from "../governance/tool-policy/ask.js";
import type { Clock } from "../platform/clock.js";
import type { Limits } from "../platform/config.js";
import type { Log } from "../platform/log.js";
import type { Stores } from "../store/client.js";
import type { RunPath } from "../store/run-path/path.js";
import type { BudgetedTenants } from "./budgeted-tenants.js";
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
  readonly denials: Denials;
  readonly tools: ToolGate;
  readonly budgeted: BudgetedTenants;
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

/** Whom a stop order is for. Runners choose their ids, so an id means something in its queue only. */
export interface Holder {
  readonly runnerId: RunnerId;
  readonly queue: QueueName;
}

/** Tells the sessions of this process to stop a run. */
export interface Stops {
  tell(holder: Holder, order: StopOrder): void;
  listen(holder: Holder, listener: (order: StopOrder) => void): () => void;
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
  stop(holder: Holder, order: StopOrder): void;
}

export function createStops(): Stops {
  const listeners = new Map<string, Set<(order: StopOrder) => void>>();
  const keyOf = ({ runnerId, queue }: Holder): string => `${queueKey(queue)}:${runnerId.toLowerCase()}`;
  return {
    tell: (holder, order) => {
      for (const listener of listeners.get(keyOf(holder)) ?? []) listener(order);
    },
    listen: (holder, listener) => {
      const key = keyOf(holder);
      const set = listeners.get(key) ?? new Set();
      listeners.set(key, set);
      set.add(listener);
      return () => {
        set.delete(listener);
        if (set.size === 0) listeners.delete(key);
      };
    },
  };
}
