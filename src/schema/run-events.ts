import { DomainError, invalidInput } from "../domain/errors.js";
import type { RunId } from "../domain/ids.js";
import type { FinalRunState } from "../domain/moves/run.js";
import { isFinalRunState } from "../domain/moves/run.js";
import type { Permission } from "../domain/permissions.js";
import type { LogChunk, RunEnd } from "../runs/feeds.js";
import { type FollowTarget, followRun, requireRun } from "../runs/follow-run.js";
import { builder } from "./builder.js";
import { type GraphqlContext, need } from "./context.js";
import { RunStatusEnum } from "./enums.js";
import { Event, eventsOf, type RunEvent } from "./event.js";
import { uuidOf } from "./ids.js";

const sees = "runs:read" satisfies Permission;

interface Batch {
  readonly events: readonly RunEvent[];
  readonly lastSeq: number;
  readonly status: FinalRunState | null;
  /** Why the subscription is over before the run is. */
  readonly refused?: DomainError;
}

const batchEvents = 500;

const RunEventBatch = builder.objectRef<Batch>("RunEventBatch").implement({
  description: "Events that were committed together, or close to each other.",
  fields: (t) => ({
    events: t.field({ type: [Event], resolve: (batch) => [...batch.events] }),
    lastSeq: t.field({
      type: "BigInt",
      description: "The cursor: subscribe again with `after` set to it, and nothing is missed or doubled.",
      resolve: (batch) => batch.lastSeq,
    }),
    ended: t.boolean({ description: "Nothing follows.", resolve: (batch) => batch.status !== null }),
    status: t.field({
      type: RunStatusEnum,
      nullable: true,
      description: "How the run ended; null while it has not.",
      resolve: (batch) => batch.status,
    }),
  }),
});

builder.subscriptionField("runEvents", (t) =>
  t.field({
    type: RunEventBatch,
    description: "The events of a run after a number, then live, each once and in order, until the run ends.",
    args: {
      runId: t.arg.id({ required: true }),
      after: t.arg({ type: "BigInt", description: "Number of the last event that the client has. Default: 0." }),
    },
    subscribe: async (_root, args, context) => {
      need(context, sees);
      const run = await requireRun(context.plane, context.scope, uuidOf("Run", args.runId) as RunId, null).catch(
        (error: unknown) => {
          throw error instanceof DomainError && error.code === "RUN_NOT_FOUND"
            ? new DomainError("RUN_NOT_FOUND", "runId: there is no such run.", { field: "runId" })
            : error;
        },
      );
      return batches(context, run, cursorOf(args.after ?? 0n, run));
    },
    resolve: (batch) => {
      if (batch.refused) throw batch.refused;
      return batch;
    },
  }),
);

/** A number that was never given out would wait for ever, or skip events that are still to come. */
function cursorOf(after: bigint, run: FollowTarget): number {
  if (after < 0n || after > BigInt(run.lastSeq))
    throw invalidInput("after", `0 to ${run.lastSeq}, the number of the run's last event`);
  // Whoever has everything of a finished run is still owed its end.
  return isFinalRunState(run.status) ? Math.min(Number(after), run.lastSeq) : Number(after);
}

/** Pulled by the transport: what it does not take stays in the log, and the feed pauses. `return` frees everything at once, whether or not an event
 *  is being waited for. */
function batches(context: GraphqlContext, run: FollowTarget, after: number): AsyncIterableIterator<Batch> {
  let queue: { chunk: LogChunk; from: number }[] = [];
  let bytes = 0;
  let cursor = after;
  let end: RunEnd | undefined;
  let refused: DomainError | undefined;
  let over = false;
  let waiting: ((result: IteratorResult<Batch>) => void) | undefined;

  const close = (): void => {
    over = true;
    queue = [];
    bytes = 0;
    following.close();
    unwatch();
  };
  const take = (): Batch | undefined => {
    const events: RunEvent[] = [];
    while (queue[0] && events.length < batchEvents) {
      const { chunk, from } = queue[0];
      const some = eventsOf(chunk, from, batchEvents - events.length);
      events.push(...some);
      const last = some.at(-1)?.seq ?? chunk.firstSeq + chunk.count - 1;
      cursor = Math.max(cursor, last);
      if (last >= chunk.firstSeq + chunk.count - 1) {
        queue.shift();
        bytes -= chunk.body.length;
      } else queue[0] = { chunk, from: last + 1 };
    }
    const isLast = end !== undefined && queue.length === 0;
    if (events.length === 0 && !isLast) return undefined;
    return { events, lastSeq: cursor, status: isLast ? (end as RunEnd).status : null };
  };
  const step = (): IteratorResult<Batch> | undefined => {
    if (over) return { done: true, value: undefined };
    if (refused) {
      const value: Batch = { events: [], lastSeq: cursor, status: null, refused };
      close();
      return { done: false, value };
    }
    const value = take();
    if (!value) return undefined;
    if (value.status !== null) close();
    return { done: false, value };
  };
  const wake = (): void => {
    if (!waiting) return;
    const result = step();
    if (!result) return;
    const resolve = waiting;
    waiting = undefined;
    resolve(result);
  };
  const refuse = (error: DomainError): void => {
    refused ??= error;
    wake();
  };

  const unwatch = context.watch.watch(context.credential, sees, refuse);
  const following = followRun(context.plane, context.scope, run, after, {
    deliver: (chunks, from) => {
      for (const chunk of chunks) {
        queue.push({ chunk, from: Math.max(from, chunk.firstSeq) });
        bytes += chunk.body.length;
      }
      wake();
    },
    ended: (fact) => {
      end = fact;
      wake();
    },
    failed: () => refuse(new DomainError("UNAVAILABLE")),
    buffered: () => bytes,
  });

  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => {
      const result = step();
      if (result) {
        // Only here: a feed must not be resumed from within its own delivery.
        if (!over) following.resume();
        return Promise.resolve(result);
      }
      return new Promise((resolve) => {
        waiting = resolve;
      });
    },
    return: () => {
      close();
      waiting?.({ done: true, value: undefined });
      waiting = undefined;
      return Promise.resolve({ done: true, value: undefined });
    },
    throw: (error: unknown) => {
      close();
      return Promise.reject(error as Error);
    },
  };
}
