import { status } from "@grpc/grpc-js";
import { createBackoff, nextDelayMs, succeeded } from "./backoff.js";
import {
  Outcome,
  type Report,
  type ReportStatusRequest,
  type ReportStatusResponse,
  ReportVerdict,
  type Verdict,
} from "./generated/fairlead/runner/v1/runner.js";
import type { HeldRun, PendingReport } from "./held-run.js";
import { keyOf } from "./held-run.js";
import { isTrusted } from "./lease.js";
import type { Logger } from "./log.js";
import { emitted, isDrained, rewind, tailOf } from "./outbox.js";
import { describeCallError, statusOf } from "./transport.js";

// How runs end. Reports of one turn of the event loop share a call. A run's unsent events travel with its report, so a short run needs no
// message on the stream at all. Events that are under way on the stream are waited for, briefly, because a report that overtakes them is answered
// "missing" and costs a second call.
//
// A report is repeated until there is a verdict, or until the run's lease is over: then the plane has given the run away.

/** A tail above this goes over the stream, which has backpressure. */
const TAIL_BYTES = 1024 * 1024;
const CALL_BYTES = 3 * 1024 * 1024;
const CALL_REPORTS = 100;
const ACKNOWLEDGED_WITHIN_MS = 250;
const CALL_DEADLINE_MS = 10_000;

export interface Reporter {
  report(run: HeldRun, fields: PendingReport["fields"]): void;
  /** Something about the run changed for which its report may be waiting. */
  advance(run: HeldRun): void;
  close(): void;
}

export interface ReporterOptions {
  readonly runnerId: string;
  readonly log: Logger;
  readonly call: (request: ReportStatusRequest, deadlineMs: number) => Promise<ReportStatusResponse>;
  readonly streamIsUp: () => boolean;
  /** Sends the run's events over the stream, again if need be. */
  readonly sendEvents: (run: HeldRun) => void;
  readonly onSettled: (run: HeldRun) => void;
  readonly onSuperseded: (run: HeldRun) => void;
  /** Nothing more can be said about this run. */
  readonly onLost: (run: HeldRun, why: string) => void;
  /** Does the error mean that the plane does not want to hear from this runner any more? Then the runner ends. */
  readonly onError: (error: unknown) => boolean;
}

export function createReporter(options: ReporterOptions): Reporter {
  const waiting = new Set<HeldRun>();
  const ready = new Set<HeldRun>();
  const retryBackoff = createBackoff(100, 2_000);
  let flushing: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;
  let retryAt = 0;

  function report(run: HeldRun, fields: PendingReport["fields"]): void {
    const waitUntil = run.outbox.sent > 0 ? performance.now() + ACKNOWLEDGED_WITHIN_MS : 0;
    run.report = {
      fields,
      waitUntil,
      viaStream: false,
      missingFrom: 0,
      acknowledged: 0,
      inFlight: false,
      sentAt: 0,
      reduced: false,
    };
    place(run);
  }

  /** Decides whether the report can go now. */
  function place(run: HeldRun): void {
    const pending = run.report;
    if (pending === undefined || pending.inFlight) return;
    const now = performance.now();
    if (run.outbox.bytes > TAIL_BYTES) {
      if (!pending.viaStream) {
        pending.viaStream = true;
        options.sendEvents(run);
      }
      waiting.add(run);
    } else if (run.outbox.sent > 0 && now < pending.waitUntil && options.streamIsUp()) {
      waiting.add(run);
      wakeAt(pending.waitUntil, now);
    } else {
      waiting.delete(run);
      ready.add(run);
      if (now >= retryAt) flushing ??= setImmediate(flush);
      else wakeAt(retryAt, now);
    }
  }

  function wakeAt(at: number, now: number): void {
    if (timerAt <= at) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(
      () => {
        timerAt = Number.POSITIVE_INFINITY;
        for (const run of [...waiting]) place(run);
        if (ready.size > 0) flush();
      },
      Math.max(1, at - now),
    );
  }

  function flush(): void {
    clearImmediate(flushing);
    flushing = undefined;
    const now = performance.now();
    if (now < retryAt) {
      wakeAt(retryAt, now);
      return;
    }
    let runs: HeldRun[] = [];
    let bytes = 0;
    for (const run of ready) {
      ready.delete(run);
      if (run.phase === "over" || run.report === undefined) continue;
      if (!isTrusted(run.lease, now)) {
        options.onLost(run, "its lease ended before the plane took its report");
        continue;
      }
      const size = run.outbox.bytes + run.report.fields.values.length;
      if (runs.length > 0 && (runs.length >= CALL_REPORTS || bytes + size > CALL_BYTES)) {
        void send(runs);
        runs = [];
        bytes = 0;
      }
      runs.push(run);
      bytes += size;
    }
    if (runs.length > 0) void send(runs);
  }

  async function send(runs: HeldRun[]): Promise<void> {
    const reports = runs.map((run): Report => {
      const pending = run.report!;
      pending.inFlight = true;
      pending.sentAt = performance.now();
      pending.acknowledged = run.outbox.acknowledged;
      // What a reduced report leaves out is not counted either.
      const isLast = run.assignment.ephemeral && pending.fields.outcome !== Outcome.OUTCOME_RELEASED;
      const tail = pending.reduced ? undefined : tailOf(run.outbox, isLast);
      const events = pending.reduced ? run.outbox.acknowledged : emitted(run.outbox);
      return { ...pending.fields, run: run.ref, events, tail };
    });
    try {
      const { verdicts } = await options.call({ runnerId: options.runnerId, reports }, CALL_DEADLINE_MS);
      succeeded(retryBackoff);
      retryAt = 0;
      const byKey = new Map(verdicts.flatMap((verdict) => (verdict.run ? [[keyOf(verdict.run), verdict]] : [])));
      for (const run of runs) {
        run.report!.inFlight = false;
        if (run.phase !== "over") judge(run, byKey.get(run.key));
      }
    } catch (error) {
      for (const run of runs) run.report!.inFlight = false;
      failed(runs, error);
    }
  }

  function judge(run: HeldRun, verdict: Verdict | undefined): void {
    switch (verdict?.verdict) {
      case ReportVerdict.REPORT_VERDICT_RECORDED:
      case ReportVerdict.REPORT_VERDICT_REPLAYED:
        options.onSettled(run);
        return;
      case ReportVerdict.REPORT_VERDICT_SUPERSEDED:
        options.onSuperseded(run);
        return;
      case ReportVerdict.REPORT_VERDICT_MISSING:
        missing(run, verdict.missingFrom);
        return;
      case ReportVerdict.REPORT_VERDICT_INVALID:
        invalid(run, verdict.message);
        return;
      default:
        retry([run], "the plane gave no verdict on it");
        return;
    }
  }

  function missing(run: HeldRun, from: number): void {
    const pending = run.report!;
    // The plane judged before it stored what it has acknowledged since: events that the report overtook. It has them by now.
    const overtook = from > pending.acknowledged && from <= run.outbox.acknowledged;
    if (overtook) from = run.outbox.acknowledged + 1;
    if (from < 1 || from > run.outbox.next || !rewind(run.outbox, from - 1)) {
      options.onLost(run, `the plane misses its events from ${from}, which are not here any more`);
      return;
    }
    if (!overtook && isDrained(run.outbox) && from <= emitted(run.outbox)) {
      options.onLost(run, `the plane misses its events from ${from}, which it had acknowledged`);
      return;
    }
    const again = pending.missingFrom === from;
    Object.assign(pending, { missingFrom: from, waitUntil: 0, viaStream: false });
    // The same answer twice in a row: something is slow there, and hurry would not help.
    if (again) retry([run], `the plane still misses its events from ${from}`);
    else place(run);
  }

  function invalid(run: HeldRun, message: string): void {
    const pending = run.report!;
    options.log.error(`The plane refused the report of run ${run.ref.runId}: ${message || "no reason given"}.`);
    if (pending.reduced) {
      options.onLost(run, "the plane refused its report");
      return;
    }
    run.report = {
      ...pending,
      reduced: true,
      fields: {
        outcome: Outcome.OUTCOME_ERROR,
        values: Buffer.alloc(0),
        failure: { type: "InvalidReport", message: `The result of the agent was refused: ${message}` },
        interrupts: [],
        next: [],
      },
    };
    ready.add(run);
    flushing ??= setImmediate(flush);
  }

  function failed(runs: HeldRun[], error: unknown): void {
    if (options.onError(error)) return;
    const alive = runs.filter((run) => run.phase !== "over");
    if (!isFaultOfTheRequest(error)) {
      retry(alive, describeCallError(error));
      return;
    }
    const [only, ...more] = alive;
    if (only === undefined) return;
    if (more.length === 0) {
      invalid(only, describeCallError(error));
      return;
    }
    // One of them is the culprit; alone it will be known.
    for (const run of alive) void send([run]);
  }

  function retry(runs: HeldRun[], why: string): void {
    const now = performance.now();
    const delayMs = nextDelayMs(retryBackoff);
    options.log.debug(`Reporting ${runs.length} runs again in ${Math.round(delayMs)} ms: ${why}.`);
    retryAt = Math.max(retryAt, now + delayMs);
    for (const run of runs) if (run.phase !== "over") ready.add(run);
    wakeAt(retryAt, now);
  }

  /** Repeating the same request would end the same way. */
  function isFaultOfTheRequest(error: unknown): boolean {
    const code = statusOf(error);
    if (code === status.INVALID_ARGUMENT) return true;
    return code === status.RESOURCE_EXHAUSTED && /larger than|too large/i.test(describeCallError(error));
  }

  return {
    report,
    advance: (run) => {
      if (waiting.has(run)) place(run);
    },
    close: () => {
      clearTimeout(timer);
      clearImmediate(flushing);
    },
  };
}
