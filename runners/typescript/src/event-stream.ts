import type { ClientDuplexStream } from "@grpc/grpc-js";
import { createAsks, type ToolQuestion, type ToolVerdict } from "./asks.js";
import { type Backoff, createBackoff, nextDelayMs, succeeded } from "./backoff.js";
import {
  type Acknowledgement,
  type Control,
  ControlKind,
  type EventBatch,
  type RunRef,
  type StreamEventsRequest,
  type StreamEventsResponse,
} from "./generated/fairlead/runner/v1/runner.js";
import type { HeldRun } from "./held-run.js";
import { isTrusted } from "./lease.js";
import type { Logger } from "./log.js";
import { endTurn, isDrained, openLoad, seal, underWay, whenSealed } from "./outbox.js";
import { describeCallError } from "./transport.js";

// One stream per process for the events of all its runs.
//
// What is due in one turn of the event loop leaves in one message. A run's first token leaves at once; the tokens after it wait until 8 ms have
// passed since its last batch, or 16 of them or 4 KB are there. Everything that is not a token leaves at once and takes the waiting tokens along,
// so that order is kept. When the plane says "slow down", the window grows, and it shrinks again when the plane has been quiet for a while.
//
// Latency under a flood is what waits divided by the rate, so what is under way is bounded: all runs share one window, and a run whose share is under
// way waits for an acknowledgement. Meanwhile it fills a batch as large as its share, and then its `emit` waits: no run makes more than that in one
// turn, and a sibling's first event leaves in the next. A batch of a run of which nothing is under way always leaves.
//
// When the stream breaks, nothing is lost: every batch that was not acknowledged is written again to the next stream. A stream on which
// acknowledgements stay away for too long is taken for broken.

const WINDOW_MS = 8;
/** In loads: 16 events or 4 KB. */
const BATCH_LOAD = 16;
/** What all runs together may have under way, in loads. */
const STREAM_WINDOW = 4_096;
/** What one run may have under way when it is alone. */
const RUN_WINDOW = 512;
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
   * The run has something to send. Answers with a promise when its batch is full: code that makes events without ever waiting for anything else
   * would otherwise not let them leave, nor those of other runs.
   */
  touch(run: HeldRun, delta: boolean, paced?: boolean): Promise<void> | undefined;
  /** The plane has stored something of the run: what waited for that may leave. */
  acknowledged(run: HeldRun): void;
  /** The run's unsent events will travel with its report, or not at all. */
  withhold(run: HeldRun): void;
  /** Sends everything of the run that was not acknowledged, after a short delay: what caused the disorder may still be under way. */
  resend(run: HeldRun): void;
  /** May the run call a tool? Without a stream it may not. */
  ask(run: RunRef, question: ToolQuestion): Promise<ToolVerdict>;
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
  const asks = createAsks((ask) => {
    if (call === undefined) return false;
    write({ hello: undefined, batches: [], asks: [ask] });
    return true;
  });
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
  /** A run's share of the window, as of the last flush. */
  let share = RUN_WINDOW;

  function touch(run: HeldRun, delta: boolean, paced = false): Promise<void> | undefined {
    const { outbox } = run;
    const now = performance.now();
    if (widening > 1 && now - widenedAt > QUIET_MS) widening = 1;
    const load = openLoad(outbox);
    const full = load >= Math.min(BATCH_LOAD * widening, share);
    const dueAt = delta && !full ? Math.max(now, outbox.leftAt + WINDOW_MS * widening) : now;
    if (dueAt < outbox.dueAt) outbox.dueAt = dueAt;
    due.add(run);
    schedule(outbox.dueAt, now);
    if (!full || !(delta || paced)) return undefined;
    // Without a stream nothing leaves: what may gather then is for the outbox to say.
    if (call === undefined || !paced) return new Promise((resolve) => setImmediate(resolve));
    return load < share && underWay(outbox) >= share ? undefined : whenSealed(outbox);
  }

  /** Everything that is under way, shared out among the runs that are sending. */
  function shareOut(): void {
    let sending = 0;
    for (const { outbox } of options.held()) if (outbox.sent > 0 || outbox.open !== undefined) sending += 1;
    share = Math.max(BATCH_LOAD, Math.min(RUN_WINDOW, Math.floor(STREAM_WINDOW / Math.max(1, sending))));
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
    shareOut();
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
      let flying = underWay(outbox);
      // Its next acknowledgement brings it back.
      if (flying >= share) continue;
      outbox.leftAt = now;
      while (flying < share) {
        if (outbox.sent === outbox.sealed.length) seal(outbox);
        if (outbox.sent === outbox.sealed.length) break;
        const sealed = outbox.sealed[outbox.sent]!;
        outbox.sent += 1;
        flying += sealed.load;
        sealed.sentAt = now;
        message.push(sealed.batch);
        bytes += sealed.bytes;
        if (bytes >= MESSAGE_BYTES) {
          write({ hello: undefined, batches: message, asks: [] });
          message = [];
          bytes = 0;
          if (blocked) break;
        }
      }
      if (outbox.sent === outbox.sealed.length && outbox.open === undefined) due.delete(run);
    }
    if (message.length > 0) write({ hello: undefined, batches: message, asks: [] });
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
    });
    opened.on("error", (error: Error) => lost(opened, describeCallError(error)));
    opened.on("end", () => lost(opened, "the plane ended the stream"));
    write({ hello: { runnerId: options.runnerId, kind: options.kind }, batches: [], asks: [] });
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
    } else if (message?.$case === "decision") {
      asks.answered(message.value);
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
    opened.on("error", () => {});
    opened.cancel();
    for (const { outbox } of options.held()) {
      outbox.sent = 0;
      endTurn(outbox);
    }
    asks.lost();
    options.onDown();
    if (ended) return;
    const delayMs = nextDelayMs(reopenBackoff);
    options.log.debug(`The event stream ended (${why}); opening it again in ${Math.round(delayMs)} ms.`);
    reopenTimer = setTimeout(open, delayMs);
  }

  return {
    touch,
    acknowledged: (run) => {
      if (!due.has(run)) return;
      const { outbox } = run;
      const now = performance.now();
      schedule(outbox.sent < outbox.sealed.length ? now : outbox.dueAt, now);
    },
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
    ask: asks.ask,
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
      for (const { outbox } of options.held()) endTurn(outbox);
      asks.lost();
      closing?.on("error", () => {});
      closing?.end();
    },
  };
}
