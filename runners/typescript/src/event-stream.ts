import type { ClientDuplexStream } from "@grpc/grpc-js";
import { type Backoff, createBackoff, nextDelayMs, succeeded } from "./backoff.js";
import {
  type Acknowledgement,
  type Control,
  ControlKind,
  type EventBatch,
  type StreamEventsRequest,
  type StreamEventsResponse,
} from "./generated/fairlead/runner/v1/runner.js";
import type { HeldRun } from "./held-run.js";
import { isTrusted } from "./lease.js";
import type { Logger } from "./log.js";
import { isDrained, type Outbox, seal } from "./outbox.js";
import { describeCallError } from "./transport.js";

// One stream per process for the events of all its runs.
//
// What is due in one turn of the event loop leaves in one message. A run's first token leaves at once; the tokens after it wait until 8 ms have
// passed since its last batch, or 16 of them or 4 KB are there. Everything that is not a token leaves at once and takes the waiting tokens along,
// so that order is kept. When the plane says "slow down", the window grows, and it shrinks again when the plane has been quiet for a while.
//
// When the stream breaks, nothing is lost: every batch that was not acknowledged is written again to the next stream. A stream on which
// acknowledgements stay away for too long is taken for broken.

const WINDOW_MS = 8;
const BATCH_EVENTS = 16;
const BATCH_BYTES = 4 * 1024;
const MAX_WIDENING = 32;
const QUIET_MS = 5_000;
/** Several batches share a message up to this size. */
const MESSAGE_BYTES = 1024 * 1024;
const ACKNOWLEDGE_WITHIN_MS = 15_000;
/** Long enough for the answers to what is under way, so that one disorder causes one resend and not a storm of them. */
const RESEND_DELAY_MS = 50;

type Call = ClientDuplexStream<StreamEventsRequest, StreamEventsResponse>;

export interface EventStream {
  /**
   * The run has something to send. Answers with a promise when its batch is full: code that makes tokens without ever waiting for anything else
   * would otherwise not let them leave.
   */
  touch(run: HeldRun, delta: boolean): Promise<void> | undefined;
  /** The run's unsent events will travel with its report, or not at all. */
  withhold(run: HeldRun): void;
  /** Sends everything of the run that was not acknowledged, after a short delay: what caused the disorder may still be under way. */
  resend(run: HeldRun): void;
  isUp(): boolean;
  /** Starts anew when acknowledgements are overdue. */
  check(runs: Iterable<HeldRun>, now: number): void;
  open(): void;
  close(): void;
}

export interface EventStreamOptions {
  readonly connect: () => Call;
  readonly runnerId: string;
  readonly kind: string;
  readonly log: Logger;
  readonly held: () => Iterable<HeldRun>;
  readonly onAcknowledgement: (acknowledgement: Acknowledgement) => void;
  readonly onControl: (control: Control) => void;
  readonly onDown: () => void;
}

export function createEventStream(options: EventStreamOptions): EventStream {
  const due = new Set<HeldRun>();
  const reopenBackoff: Backoff = createBackoff(100, 5_000);
  let call: Call | undefined;
  let blocked = false;
  let ended = false;
  let flushing: NodeJS.Immediate | undefined;
  let windowTimer: NodeJS.Timeout | undefined;
  let windowAt = Number.POSITIVE_INFINITY;
  let reopenTimer: NodeJS.Timeout | undefined;
  let widening = 1;
  let widenedAt = 0;
  /** The next turn of the event loop, in which full batches leave. */
  let turn: { promise: Promise<void>; resolve: () => void } | undefined;

  function touch(run: HeldRun, delta: boolean): Promise<void> | undefined {
    const { outbox } = run;
    const now = performance.now();
    const full = isFull(outbox, now);
    const dueAt = delta && !full ? Math.max(now, outbox.leftAt + WINDOW_MS * widening) : now;
    if (dueAt < outbox.dueAt) outbox.dueAt = dueAt;
    due.add(run);
    schedule(outbox.dueAt, now);
    return full && delta ? nextTurn() : undefined;
  }

  function isFull({ open }: Outbox, now: number): boolean {
    if (widening > 1 && now - widenedAt > QUIET_MS) widening = 1;
    return open !== undefined && (open.count >= BATCH_EVENTS * widening || open.bytes >= BATCH_BYTES * widening);
  }

  /** When full batches have left; while the stream takes nothing, when it takes something again. */
  function nextTurn(): Promise<void> {
    if (turn === undefined) {
      let resolve = (): void => {};
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      turn = { promise, resolve };
      if (!blocked) setImmediate(endTurn);
    }
    return turn.promise;
  }

  function endTurn(): void {
    if (blocked) return;
    turn?.resolve();
    turn = undefined;
  }

  function schedule(at: number, now: number): void {
    if (call === undefined || blocked) return;
    if (at <= now) {
      flushing ??= setImmediate(flush);
    } else if (at < windowAt) {
      clearTimeout(windowTimer);
      windowAt = at;
      windowTimer = setTimeout(flush, at - now);
    }
  }

  function flush(): void {
    clearImmediate(flushing);
    clearTimeout(windowTimer);
    flushing = undefined;
    windowTimer = undefined;
    windowAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    // A timer may fire a fraction of a millisecond early.
    const horizon = now + 0.5;
    let next = Number.POSITIVE_INFINITY;
    let message: EventBatch[] = [];
    let bytes = 0;
    for (const run of due) {
      if (call === undefined || blocked) break;
      const { outbox } = run;
      // A run whose lease is over is swept by the heartbeat; until then it sends nothing.
      if (run.phase === "over" || !isTrusted(run.lease, now)) {
        due.delete(run);
        continue;
      }
      if (outbox.dueAt > horizon && outbox.sent === outbox.sealed.length) {
        next = Math.min(next, outbox.dueAt);
        continue;
      }
      seal(outbox);
      outbox.dueAt = Number.POSITIVE_INFINITY;
      outbox.leftAt = now;
      while (outbox.sent < outbox.sealed.length) {
        const sealed = outbox.sealed[outbox.sent]!;
        outbox.sent += 1;
        sealed.sentAt = now;
        message.push(sealed.batch);
        bytes += sealed.bytes;
        if (bytes >= MESSAGE_BYTES) {
          write({ hello: undefined, batches: message });
          message = [];
          bytes = 0;
          if (blocked) break;
        }
      }
      if (outbox.sent === outbox.sealed.length) due.delete(run);
    }
    if (message.length > 0) write({ hello: undefined, batches: message });
    if (next !== Number.POSITIVE_INFINITY) schedule(next, now);
  }

  function write(request: StreamEventsRequest): void {
    if (call?.write(request) === false) blocked = true;
  }

  function open(): void {
    if (call !== undefined || ended) return;
    clearTimeout(reopenTimer);
    reopenTimer = undefined;
    const opened = options.connect();
    call = opened;
    blocked = false;
    opened.on("data", (response: StreamEventsResponse) => {
      if (call !== opened) return;
      succeeded(reopenBackoff);
      receive(response);
    });
    opened.on("drain", () => {
      if (call !== opened) return;
      blocked = false;
      if (due.size > 0) flush();
      endTurn();
    });
    opened.on("error", (error: Error) => lost(opened, describeCallError(error)));
    opened.on("end", () => lost(opened, "the plane ended the stream"));
    write({ hello: { runnerId: options.runnerId, kind: options.kind }, batches: [] });
    resendAll();
  }

  function resendAll(): void {
    for (const run of options.held()) {
      const streams = run.phase === "running" || run.report?.viaStream === true;
      if (streams && !isDrained(run.outbox)) void touch(run, false);
    }
  }

  function receive({ message }: StreamEventsResponse): void {
    if (message?.$case === "acknowledgements") {
      for (const acknowledgement of message.value.acknowledgements) options.onAcknowledgement(acknowledgement);
    } else if (message?.$case === "control") {
      if (message.value.kind === ControlKind.CONTROL_KIND_SLOW_DOWN) slowDown();
      else options.onControl(message.value);
    }
  }

  function slowDown(): void {
    widening = Math.min(widening * 2, MAX_WIDENING);
    widenedAt = performance.now();
  }

  function lost(opened: Call, why: string): void {
    if (call !== opened) return;
    call = undefined;
    blocked = false;
    endTurn();
    opened.on("error", () => {});
    opened.cancel();
    for (const run of options.held()) run.outbox.sent = 0;
    options.onDown();
    if (ended) return;
    const delayMs = nextDelayMs(reopenBackoff);
    options.log.debug(`The event stream ended (${why}); opening it again in ${Math.round(delayMs)} ms.`);
    reopenTimer = setTimeout(open, delayMs);
  }

  return {
    touch,
    withhold: (run) => {
      due.delete(run);
    },
    resend: (run) => {
      due.delete(run);
      run.outbox.sent = 0;
      if (isDrained(run.outbox)) return;
      setTimeout(() => {
        if (run.phase !== "over") void touch(run, false);
      }, RESEND_DELAY_MS).unref();
    },
    isUp: () => call !== undefined,
    check: (runs, now) => {
      if (call === undefined) return;
      for (const { outbox } of runs) {
        const oldest = outbox.sent > 0 ? outbox.sealed[0] : undefined;
        if (oldest === undefined || now - oldest.sentAt < ACKNOWLEDGE_WITHIN_MS) continue;
        lost(call, `no acknowledgement for ${Math.round(now - oldest.sentAt)} ms`);
        return;
      }
    },
    open,
    close: () => {
      ended = true;
      clearTimeout(reopenTimer);
      clearTimeout(windowTimer);
      clearImmediate(flushing);
      const closing = call;
      call = undefined;
      blocked = false;
      endTurn();
      closing?.on("error", () => {});
      closing?.end();
    },
  };
}
