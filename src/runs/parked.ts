import type { AgentQueue, QueueName, RunId, RunnerId, TenantId } from "../domain/ids.js";
import { queueKey } from "../domain/ids.js";
import type { Claimed } from "../store/run-path/claim.js";
import type { RunPath, Taker } from "../store/run-path/path.js";
import { createHeldOffers, type HeldOffers } from "./held-offers.js";

// GetJobs that wait in this process, and the three ways in which a run finds one:
//   direct  a run that is created here is claimed for a parked GetJob in the same transaction, or by name right after its commit: for one that is parked,
//           or for the next one, when a runner was just answered and will ask again (held-offers),
//   queue   a BullMQ job names a run, while a GetJob of its queue is parked here,
//   relay   what is next in the queue is claimed from Postgres.
// Every way ends in the claim statement; who loses there gets nothing. A poll is answered as soon as it holds an assignment and no claim for it is in
// flight. One whose time is over still gets what is being claimed for it: otherwise a runner that asks without waiting would never get anything. What is
// claimed for a poll that was abandoned meanwhile is handed back at once.

export type DispatchWay = "direct" | "queue" | "relay";

interface Poll {
  readonly runnerId: RunnerId;
  /** What its runner executes: it is never given anything else. */
  readonly graphIds: ReadonlySet<string>;
  /** Equal for equal sets. */
  readonly graphsKey: string;
  readonly slots: number;
  readonly resolve: (claimed: Claimed[]) => void;
  readonly taken: Claimed[];
  inFlight: number;
  /** Its time is over: it is answered once no claim for it is in flight. */
  isDue: boolean;
  closed: boolean;
}

interface Line {
  readonly queue: QueueName;
  readonly polls: Poll[];
  /** Sets of graphs for which the store holds nothing that nobody was woken for. For all others: claim from there before parking. */
  readonly drained: Set<string>;
  pumping: boolean;
  readonly held: HeldOffers;
  /** When a runner that offers a graph was last answered, monotonic. */
  readonly heardAt: Map<string, number>;
  /** Runners that were answered and have slots left, for which they will ask within moments. */
  readonly away: Map<RunnerId, { readonly slots: number; readonly since: number }>;
}

/** A GetJob: whose it is, what it can execute, and how much of it. */
export interface ParkedPoll {
  readonly queue: QueueName;
  readonly graphIds: ReadonlySet<string>;
  readonly runnerId: RunnerId;
  readonly slots: number;
}

export interface Parked {
  /** Waits for work: at least one assignment, or none once the time is over or the caller has gone. */
  park(poll: ParkedPoll, waitMs: number, gone: AbortSignal): Promise<Claimed[]>;
  /** Offers a run that was just committed. `otherwise` is called when nobody here takes it: at once, or when a runner that should have asked has not. */
  offer(queue: AgentQueue, tenantId: TenantId, runId: RunId, otherwise: () => void): void;
  /** A parked GetJob for a run that is about to be created, with which it will be claimed; null when the run must be offered after its commit. */
  reserve(queue: AgentQueue): Taker | null;
  /** Claims a run that a job named; false when no GetJob is parked for it. Resolves after the claim was decided. */
  take(queue: AgentQueue, tenantId: TenantId, runId: RunId): Promise<boolean>;
  /** There may be work in this queue. */
  wake(queue: QueueName): void;
  /** Free slots of all parked GetJobs, and of runners that were just answered. */
  room(): number;
  /** Every queue that has a GetJob parked here. */
  queues(): AgentQueue[];
  onChange(listener: (queue: QueueName, isParked: boolean) => void): void;
  /** Answers every poll with nothing and takes no more. */
  drain(): void;
  isDraining(): boolean;
}

export interface ParkedOptions {
  readonly path: Pick<RunPath, "claim" | "claimNext">;
  readonly handBack: (claimed: Claimed, queue: QueueName) => void;
  readonly onError: (error: unknown) => void;
  readonly count: (way: DispatchWay, runs: number) => void;
  readonly ways: ReadonlySet<DispatchWay>;
}

/** A runner that was answered asks again within its round trip, on a busy machine somewhat later; one that has no free slot does not. */
const askAgainMs = 200;
const attachedMs = 1_000;

export function createParked({ path, handBack, onError, count, ways }: ParkedOptions): Parked {
  const lines = new Map<string, Line>();
  const listeners: ((queue: QueueName, isParked: boolean) => void)[] = [];
  let draining = false;

  const lineOf = (queue: QueueName): Line => {
    const key = queueKey(queue);
    let line = lines.get(key);
    if (!line) {
      line = {
        queue,
        polls: [],
        drained: new Set(),
        pumping: false,
        held: createHeldOffers(askAgainMs),
        heardAt: new Map(),
        away: new Map(),
      };
      lines.set(key, line);
    }
    return line;
  };

  const room = (poll: Poll): number =>
    poll.closed || poll.isDue || poll.taken.length > 0 ? 0 : poll.slots - poll.inFlight;

  /** Of the polls that fit, the one with the most free slots, so that work spreads over runners. */
  const roomiest = (line: Line, fits: (poll: Poll) => boolean): Poll | undefined => {
    let best: Poll | undefined;
    for (const poll of line.polls) if (room(poll) > 0 && (!best || room(poll) > room(best)) && fits(poll)) best = poll;
    return best;
  };
  const offers =
    (graphId: string) =>
    (poll: Poll): boolean =>
      poll.graphIds.has(graphId);

  /** Who takes a new run at once. */
  const atOnce = (line: Line, graphId: string): Poll | undefined =>
    ways.has("direct") && !line.pumping ? roomiest(line, offers(graphId)) : undefined;

  const settle = (line: Line, poll: Poll, claimed: readonly Claimed[], way: DispatchWay): void => {
    poll.inFlight -= 1;
    if (claimed.length > 0) count(way, claimed.length);
    for (const run of claimed) line.held.claimed(run.tenantId, run.runId);
    if (poll.closed) {
      for (const run of claimed) handBack(run, line.queue);
      return;
    }
    poll.taken.push(...claimed);
    if (poll.inFlight === 0 && (poll.taken.length > 0 || poll.isDue || draining)) answer(line, poll);
  };

  const answer = (line: Line, poll: Poll): void => {
    if (poll.closed) return;
    poll.closed = true;
    const now = performance.now();
    for (const graphId of poll.graphIds) line.heardAt.set(graphId, now);
    if (poll.slots > poll.taken.length && poll.taken.length > 0)
      line.away.set(poll.runnerId, { slots: poll.slots - poll.taken.length, since: now });
    const at = line.polls.indexOf(poll);
    if (at >= 0) line.polls.splice(at, 1);
    if (line.polls.length === 0) for (const listener of listeners) listener(line.queue, false);
    poll.resolve(poll.taken);
  };

  const claimNamed = async (
    line: Line,
    poll: Poll,
    tenantId: TenantId,
    runId: RunId,
    way: DispatchWay,
  ): Promise<void> => {
    poll.inFlight += 1;
    let claimed: Claimed | null = null;
    try {
      claimed = await path.claim({ tenantId, runId, queue: line.queue, runnerId: poll.runnerId });
    } catch (error) {
      line.drained.clear();
      onError(error);
    }
    // Whoever kept it from us for a moment may leave it waiting, with nobody told.
    if (!claimed && way === "direct") line.drained.clear();
    settle(line, poll, claimed ? [claimed] : [], way);
  };

  /** Claims what is held for the GetJobs that are parked. */
  const serveHeld = (line: Line): void => {
    while (!line.pumping && ways.has("direct")) {
      const poll = roomiest(line, ({ graphIds }) => line.held.has(graphIds));
      if (!poll) break;
      for (const { tenantId, runId } of line.held.take(poll.graphIds, room(poll)))
        void claimNamed(line, poll, tenantId, runId, "direct");
    }
  };

  const pump = async (line: Line): Promise<void> => {
    if (line.pumping || !ways.has("relay")) return;
    line.pumping = true;
    try {
      while (!draining) {
        const poll = roomiest(line, ({ graphsKey }) => !line.drained.has(graphsKey));
        if (!poll) break;
        line.drained.add(poll.graphsKey);
        const limit = room(poll);
        poll.inFlight += 1;
        let claimed: Claimed[] = [];
        try {
          claimed = await path.claimNext(line.queue, [...poll.graphIds], poll.runnerId, limit);
        } catch (error) {
          onError(error);
        }
        // Less than asked for means that the queue is empty: whoever commits a run afterwards says so.
        if (claimed.length === limit) line.drained.delete(poll.graphsKey);
        settle(line, poll, claimed, "relay");
      }
    } finally {
      line.pumping = false;
    }
    serveHeld(line);
  };

  return {
    park: ({ queue, graphIds, runnerId, slots }, waitMs, gone) =>
      new Promise<Claimed[]>((done) => {
        if (draining || gone.aborted || slots < 1) return done([]);
        const line = lineOf(queue);
        const onGone = (): void => answer(line, poll);
        const timer = setTimeout(() => {
          poll.isDue = true;
          if (poll.inFlight === 0) answer(line, poll);
        }, waitMs);
        const resolve = (claimed: Claimed[]): void => {
          clearTimeout(timer);
          gone.removeEventListener("abort", onGone);
          done(claimed);
        };
        const graphsKey = [...graphIds].sort().join(" ");
        const poll: Poll = {
          runnerId,
          graphIds,
          graphsKey,
          slots,
          resolve,
          taken: [],
          inFlight: 0,
          isDue: false,
          closed: false,
        };
        line.polls.push(poll);
        line.away.delete(runnerId);
        gone.addEventListener("abort", onGone, { once: true });
        if (line.polls.length === 1) for (const listener of listeners) listener(queue, true);
        if (line.drained.has(graphsKey)) serveHeld(line);
        else void pump(line);
      }),
    reserve: (queue) => {
      const line = lines.get(queueKey(queue));
      const poll = line && atOnce(line, queue.graphId);
      if (!line || !poll) return null;
      poll.inFlight += 1;
      return {
        runnerId: poll.runnerId,
        settle: (claimed) => settle(line, poll, claimed ? [claimed] : [], "direct"),
      };
    },
    offer: (queue, tenantId, runId, otherwise) => {
      const line = lines.get(queueKey(queue));
      if (!line) return otherwise();
      const poll = atOnce(line, queue.graphId);
      if (poll) {
        void claimNamed(line, poll, tenantId, runId, "direct");
        return;
      }
      const isAttached =
        line.polls.some(offers(queue.graphId)) ||
        performance.now() - (line.heardAt.get(queue.graphId) ?? -attachedMs) < attachedMs;
      const tell = (): void => {
        line.drained.clear();
        otherwise();
      };
      if (isAttached && ways.has("direct") && ways.has("relay") && !draining)
        line.held.hold({ tenantId, runId, graphId: queue.graphId }, tell);
      else tell();
    },
    take: async (queue, tenantId, runId) => {
      const line = lines.get(queueKey(queue));
      const poll = line && roomiest(line, offers(queue.graphId));
      if (!line || !poll) return false;
      await claimNamed(line, poll, tenantId, runId, "queue");
      return true;
    },
    wake: (queue) => {
      const line = lines.get(queueKey(queue));
      if (!line) return;
      line.drained.clear();
      void pump(line);
    },
    room: () => {
      let free = 0;
      const recent = performance.now() - askAgainMs;
      for (const { polls, away } of lines.values()) {
        for (const poll of polls) free += room(poll);
        for (const [runnerId, { slots, since }] of away) {
          if (since < recent) away.delete(runnerId);
          else free += slots;
        }
      }
      return free;
    },
    queues: () =>
      [...lines.values()].flatMap((line) =>
        [...new Set(line.polls.flatMap((poll) => [...poll.graphIds]))].map((graphId) => ({ ...line.queue, graphId })),
      ),
    onChange: (listener) => {
      listeners.push(listener);
    },
    drain: () => {
      draining = true;
      for (const line of lines.values()) {
        line.held.release();
        for (const poll of [...line.polls]) if (poll.inFlight === 0) answer(line, poll);
      }
    },
    isDraining: () => draining,
  };
}
