import { DomainError } from "../../domain/errors.js";
import type { AgentQueue, QueueName, RunnerId } from "../../domain/ids.js";
import type { Limits } from "../../platform/config.js";
import type { Stores } from "../client.js";
import { type Coalescer, createCoalescer } from "../coalescer.js";
import {
  type Appended,
  type AppendItem,
  appendEvents,
  eventLoad,
  type HeldRun,
  type Renewed,
  renewLeases,
} from "./append.js";
import { type Claimed, type ClaimItem, claimNextRuns, claimRuns } from "./claim.js";
import { type Created, type CreateItem, createRuns } from "./create.js";
import { type Finished, type FinishItem, finishRuns } from "./finish.js";

/** The writes of a run's path, each through a coalescer. */
export interface RunPath {
  create(item: CreateItem): Promise<Created>;
  claim(item: ClaimItem): Promise<Claimed | null>;
  claimNext(queue: QueueName, graphIds: readonly string[], runnerId: RunnerId, limit: number): Promise<Claimed[]>;
  append(item: AppendItem): Promise<Appended>;
  renew(item: HeldRun): Promise<Renewed>;
  finish(item: FinishItem): Promise<Finished>;
  /** Resolves once nothing is waiting or in flight. */
  drained(): Promise<void>;
}

/** A runner that waits in this process. Whoever holds it settles it once, with what was claimed for it or null. */
export interface Taker {
  readonly runnerId: RunnerId;
  settle(claimed: Claimed | null): void;
}

/** The runners that wait in this process. */
export interface Takers {
  /** Slots that are free right now, by which the admission window is widened, so that a burst that can start at once is not queued. */
  room(): number;
  reserve(queue: AgentQueue): Taker | null;
}

export function createRunPath(stores: Stores, limits: Limits, takers: Takers): RunPath {
  const pool = stores.path;
  const run = (item: { tenantId: string; runId: string }) => [`${item.tenantId}:${item.runId}`];
  const tenant = (item: { tenantId: string }) => item.tenantId;
  const shape = { maxBatch: 256, maxWaiting: 20_000, retryForMs: 15_000, parallel: 1, tenant };

  const create: Coalescer<CreateItem, Created> = createCoalescer<CreateItem, Created>({
    ...shape,
    name: "create",
    // Equal idempotency keys and chosen run ids wait for each other, so that the second one finds the first one's row.
    keys: (item) => {
      const keys = [`t:${item.tenantId}:${item.threadId}`];
      if (item.idempotencyKey !== null) keys.push(`k:${item.tenantId}:${item.credentialId}:${item.idempotencyKey}`);
      if (item.runIdChosen) keys.push(`r:${item.tenantId}:${item.runId}`);
      return keys;
    },
    flush: async (items, again) => {
      const window = limits.admissionWindow + takers.room();
      // Chosen when the batch is sent, not when its items came: a runner is answered when nothing is being claimed for it any more.
      const chosen = items.map((item) => (again || item.dueMs !== null ? null : takers.reserve(item)));
      const runnerIds = chosen.map((taker) => taker?.runnerId ?? null);
      let created: Created[] = [];
      try {
        created = await createRuns(pool, items, runnerIds, again, { window, offerMs: limits.offerMs });
      } finally {
        chosen.forEach((taker, i) => {
          taker?.settle(created[i]?.claimed ?? null);
        });
      }
      return created;
    },
  });
  const claim = createCoalescer<ClaimItem, Claimed | null>({
    ...shape,
    name: "claim",
    keys: run,
    flush: async (items, again) => {
      if (again) throw new DomainError("UNAVAILABLE");
      return claimRuns(pool, items, limits.offerMs);
    },
  });
  const append = createCoalescer<AppendItem, Appended>({
    ...shape,
    name: "append",
    keys: run,
    parallel: 2,
    // A flush of about 20 ms. A run's first event passes what others have to say.
    load: ({ segments }) => segments.reduce((sum, { count, body }) => sum + eventLoad(count, body.length), 0),
    maxLoad: 2_048,
    urgent: (item) => item.first === 1,
    flush: (items, again) => appendEvents(pool, items, again, limits.leaseMs),
  });
  const renew = createCoalescer<HeldRun, Renewed>({
    ...shape,
    name: "renew",
    keys: run,
    retryForMs: 3_000,
    flush: (items) => renewLeases(pool, items, limits.leaseMs),
  });
  const finish = createCoalescer<FinishItem, Finished>({
    ...shape,
    name: "finish",
    // The statement locks threads first, so two runs of one thread do not share a batch.
    keys: (item) => [`${item.tenantId}:${item.threadId}`],
    flush: (items, again) => finishRuns(pool, items, again),
  });

  return {
    create: create.add,
    claim: claim.add,
    claimNext: (queue, graphIds, runnerId, limit) =>
      claimNextRuns(pool, queue, graphIds, runnerId, limit, limits.admissionWindow, limits.offerMs),
    append: append.add,
    renew: renew.add,
    finish: finish.add,
    drained: async () => {
      await Promise.all([create, claim, append, renew, finish].map((coalescer) => coalescer.drained()));
    },
  };
}
