import type { ClientReadableStream } from "@grpc/grpc-js";
import { createBackoff, nextDelayMs, succeeded } from "./backoff.js";
import type { RunRef, WatchCancelsResponse } from "./generated/fairlead/runner/v1/runner.js";
import { keyOf } from "./held-run.js";
import type { Logger } from "./log.js";
import { describeCallError } from "./transport.js";

// Cancels are delivered three times over: here, down the event stream, and on every heartbeat. Any one of them is enough.

/** A cancel may overtake the assignment that it is about; more than these cannot be under way at once. */
const REMEMBERED_CANCELS = 1_000;

export interface CancelWatch {
  open(): void;
  close(): void;
  /** Did a cancel for this run arrive before the run did? */
  wasCancelled(ref: RunRef): boolean;
}

export interface CancelWatchOptions {
  readonly open: () => ClientReadableStream<WatchCancelsResponse>;
  readonly log: Logger;
  /** False when this process does not hold the run. */
  readonly onCancel: (ref: RunRef) => boolean;
}

export function createCancelWatch(options: CancelWatchOptions): CancelWatch {
  const early = new Set<string>();
  const backoff = createBackoff(100, 5_000);
  let call: ClientReadableStream<WatchCancelsResponse> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function open(): void {
    if (closed || call !== undefined) return;
    const opened = options.open();
    call = opened;
    opened.on("data", ({ runs }: WatchCancelsResponse) => {
      succeeded(backoff);
      for (const ref of runs) if (!options.onCancel(ref)) remember(ref);
    });
    opened.on("error", (error: Error) => lost(opened, describeCallError(error)));
    opened.on("end", () => lost(opened, "the plane ended the stream"));
  }

  function remember(ref: RunRef): void {
    const key = keyOf(ref);
    early.delete(key);
    early.add(key);
    if (early.size <= REMEMBERED_CANCELS) return;
    const [oldest] = early;
    if (oldest !== undefined) early.delete(oldest);
  }

  function lost(opened: ClientReadableStream<WatchCancelsResponse>, why: string): void {
    if (call !== opened) return;
    call = undefined;
    opened.on("error", () => {});
    opened.cancel();
    if (closed) return;
    const delayMs = nextDelayMs(backoff);
    options.log.debug(`The watch for cancels ended (${why}); opening it again in ${Math.round(delayMs)} ms.`);
    timer = setTimeout(open, delayMs);
  }

  return {
    open,
    close: () => {
      closed = true;
      clearTimeout(timer);
      const closing = call;
      call = undefined;
      closing?.on("error", () => {});
      closing?.cancel();
    },
    wasCancelled: (ref) => early.delete(keyOf(ref)),
  };
}
