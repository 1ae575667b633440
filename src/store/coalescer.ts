import { DomainError } from "../domain/errors.js";
import { classifyFailure } from "./client.js";

// Concurrent callers share statements: items are collected while a flush is in flight and written by the next one. There is no timer, so an idle
// caller waits for nothing, and a batch of one is the simple case. An item is answered after its batch committed.
//
// How long an item waits is what is before it, divided by the rate. So a batch is bounded by its load and not only by its length, and an urgent item
// goes before what is not; items with a key in common keep their order.
//
// When a statement is refused (a constraint, a bad byte), its batch is halved until the culprit stands alone and only that caller fails. When the
// connection broke, nobody knows whether the batch was committed: it is sent again with `again` set, and the statement tells an item that was written
// before from a new one (its guards make it idempotent). Callers are answered only after that.

export interface CoalescerOptions<Item, Result> {
  readonly name: string;
  /** Items that have a key in common never share a batch: the second waits for the next flush. */
  readonly keys: (item: Item) => readonly string[];
  /** Whose share of the bound and of a batch the item uses. */
  readonly tenant: (item: Item) => string;
  readonly flush: (items: readonly Item[], again: boolean) => Promise<readonly Result[]>;
  readonly maxBatch: number;
  /** What an item costs, and what a batch may cost before it is closed; by default items are equal. */
  readonly load?: (item: Item) => number;
  readonly maxLoad?: number;
  /** Goes before what is not urgent. Only for items that come before all others with their keys. */
  readonly urgent?: (item: Item) => boolean;
  /** Items that may wait. Beyond it callers get OVERLOADED at once. */
  readonly maxWaiting: number;
  /** For how long a batch whose outcome is unknown, or that must be retried, is tried again. */
  readonly retryForMs: number;
  /** Flushes that may be in flight at once; equal keys never are. */
  readonly parallel: number;
}

interface Waiter<Item, Result> {
  readonly item: Item;
  readonly isUrgent: boolean;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export interface Coalescer<Item, Result> {
  add(item: Item): Promise<Result>;
  /** Items that are waiting or in flight. */
  readonly size: () => number;
  /** Resolves once nothing is waiting or in flight. */
  drained(): Promise<void>;
}

export function createCoalescer<Item, Result>(options: CoalescerOptions<Item, Result>): Coalescer<Item, Result> {
  const waiting = new Map<string, Waiter<Item, Result>[]>();
  const busyKeys = new Set<string>();
  let waitingCount = 0;
  let inFlight = 0;
  let inFlightItems = 0;
  let scheduled = false;
  const idle: (() => void)[] = [];

  const add = (item: Item): Promise<Result> => {
    const tenant = options.tenant(item);
    const line = waiting.get(tenant);
    // The bound is shared out: a tenant that fills it alone leaves a quarter for the others.
    const share =
      waiting.size > 1 || (waiting.size === 1 && !line)
        ? Math.ceil(options.maxWaiting / (waiting.size + 1))
        : Math.ceil(options.maxWaiting * 0.75);
    if (
      waitingCount >= options.maxWaiting ||
      (line && line.length >= share && waitingCount >= options.maxWaiting / 2)
    ) {
      return Promise.reject(
        new DomainError("OVERLOADED", undefined, { coalescer: options.name, waiting: waitingCount }),
      );
    }
    return new Promise<Result>((resolve, reject) => {
      const waiter = { item, isUrgent: options.urgent?.(item) ?? false, resolve, reject };
      if (!line) waiting.set(tenant, [waiter]);
      else if (waiter.isUrgent) line.splice(firstUnhurried(line), 0, waiter);
      else line.push(waiter);
      waitingCount++;
      schedule();
    });
  };

  // One turn of the event loop later, so that the callers of this turn share the first flush.
  const schedule = (): void => {
    if (scheduled || inFlight >= options.parallel || waitingCount === 0) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      if (inFlight < options.parallel) start();
    });
  };

  const start = (): void => {
    const batch = takeBatch();
    if (batch.length === 0) return;
    inFlight++;
    inFlightItems += batch.length;
    void write(batch).finally(() => {
      for (const waiter of batch) for (const key of options.keys(waiter.item)) busyKeys.delete(key);
      inFlight--;
      inFlightItems -= batch.length;
      if (waitingCount > 0) start();
      if (inFlight === 0 && waitingCount === 0) for (const done of idle.splice(0)) done();
    });
    schedule();
  };

  /** Round robin over tenants; items whose key is in flight or in this batch already stay, in order. */
  const takeBatch = (): Waiter<Item, Result>[] => {
    const batch: Waiter<Item, Result>[] = [];
    const maxLoad = options.maxLoad ?? Number.POSITIVE_INFINITY;
    let load = 0;
    const isFull = (): boolean => batch.length >= options.maxBatch || load >= maxLoad;
    const lines = [...waiting.entries()].map(([tenant, line]) => ({
      tenant,
      line,
      at: 0,
      kept: [] as Waiter<Item, Result>[],
      heldKeys: new Set<string>(),
    }));
    for (let open = lines.length; open > 0 && !isFull(); ) {
      open = 0;
      for (const row of lines) {
        if (isFull()) break;
        while (row.at < row.line.length) {
          const waiter = row.line[row.at++] as Waiter<Item, Result>;
          const keys = options.keys(waiter.item);
          if (keys.some((key) => busyKeys.has(key) || row.heldKeys.has(key))) {
            row.kept.push(waiter);
            for (const key of keys) row.heldKeys.add(key);
            continue;
          }
          for (const key of keys) busyKeys.add(key);
          batch.push(waiter);
          load += options.load?.(waiter.item) ?? 0;
          break;
        }
        if (row.at < row.line.length) open++;
      }
    }
    for (const row of lines) {
      const rest = row.at < row.line.length ? [...row.kept, ...row.line.slice(row.at)] : row.kept;
      if (rest.length === 0) waiting.delete(row.tenant);
      else waiting.set(row.tenant, rest);
    }
    waitingCount -= batch.length;
    return batch;
  };

  const write = async (
    batch: readonly Waiter<Item, Result>[],
    again = false,
    deadline = performance.now() + options.retryForMs,
  ): Promise<void> => {
    let known = !again;
    for (let attempt = 0; ; attempt++) {
      try {
        const results = await options.flush(
          batch.map((waiter) => waiter.item),
          !known,
        );
        batch.forEach((waiter, index) => {
          waiter.resolve(results[index] as Result);
        });
        return;
      } catch (error) {
        const failure = error instanceof DomainError ? "refused" : classifyFailure(error);
        if (failure === "unknown") known = false;
        if (failure === "refused") {
          if (batch.length === 1) {
            batch[0]?.reject(error);
            return;
          }
          const middle = batch.length >> 1;
          await write(batch.slice(0, middle), !known, deadline);
          await write(batch.slice(middle), !known, deadline);
          return;
        }
        if (performance.now() >= deadline) {
          const unavailable = new DomainError("UNAVAILABLE", undefined, { coalescer: options.name }, error);
          for (const waiter of batch) waiter.reject(unavailable);
          return;
        }
        await pause(Math.min(20 * 2 ** attempt, 500));
      }
    }
  };

  return {
    add,
    size: () => waitingCount + inFlightItems,
    drained: () =>
      inFlight === 0 && waitingCount === 0 ? Promise.resolve() : new Promise((resolve) => idle.push(resolve)),
  };
}

/** Where the urgent ones at the head of a line end. */
function firstUnhurried(line: readonly { readonly isUrgent: boolean }[]): number {
  let at = 0;
  while (at < line.length && line[at]?.isUrgent) at++;
  return at;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
