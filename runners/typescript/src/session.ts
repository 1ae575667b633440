import { randomUUID } from "node:crypto";
import type { Agent, Ending, Execution } from "./agent.js";
import { type CancelWatch, createCancelWatch } from "./cancel-watch.js";
import { describeFailure, isRunnerError, RunnerError } from "./errors.js";
import { createEventStream, type EventStream } from "./event-stream.js";
import {
  type Acknowledgement,
  type Assignment,
  BatchVerdict,
  type Control,
  ControlKind,
  Outcome,
  type Pulse,
  type Report,
  type RunRef,
} from "./generated/fairlead/runner/v1/runner.js";
import { createHeartbeat, FIRST_HEARTBEAT_MS, type Heartbeat } from "./heartbeat.js";
import { giveUp, type HeldRun, keyOf, signalOf, stopWork } from "./held-run.js";
import { isTrusted, mayStartWork, nextRenewal, offeredLease, renew } from "./lease.js";
import type { Logger } from "./log.js";
import {
  acknowledge,
  append,
  attachWrites,
  close,
  createOutbox,
  isCrowded,
  isDrained,
  type OutgoingEvent,
  rewind,
  whenRoom,
} from "./outbox.js";
import { createReporter, type Reporter } from "./reports.js";
import { createStartQueue } from "./start-queue.js";
import { type Connection, callUnary, isRefusal } from "./transport.js";

// The runs that this process holds, and everything that can happen to one: its code ends, the plane cancels it, another runner gets it, its lease
// ends, this process drains. All of these race; `phase` decides, and moves only forward (see held-run.ts).

export interface Session {
  readonly runnerId: string;
  readonly heldCount: () => number;
  accept(assignment: Assignment): void;
  /** Runs that still work or report. */
  held(): Iterable<HeldRun>;
  /** Opens the streams; called once the plane has answered. */
  open(): void;
  /** Tells the code of every run that still works to stop; such runs are handed back when it has. */
  release(): void;
  /** Hands back what did not stop. */
  handBack(): void;
  /** Forgets every run without another word. */
  abandon(why: RunnerError): void;
  close(): void;
}

export interface SessionOptions {
  readonly connection: Connection;
  readonly kind: string;
  readonly agents: ReadonlyMap<string, Agent>;
  readonly log: Logger;
  /** A run is over and its slot is free. */
  readonly onFree: () => void;
  readonly onRefused: (error: unknown) => void;
}

export function createSession(options: SessionOptions): Session {
  const { connection, agents, log } = options;
  const runnerId = randomUUID();
  const runs = new Map<string, HeldRun>();
  /** The newest generation per run, so that a newer one supersedes an older one in the same process. */
  const newest = new Map<string, HeldRun>();
  const lateEmitsReported = new WeakSet<HeldRun>();
  const starts = createStartQueue(start);

  const stream: EventStream = createEventStream({
    connect: () => connection.client.streamEvents(connection.metadata),
    runnerId,
    kind: options.kind,
    log,
    held: () => runs.values(),
    onAcknowledgement: acknowledged,
    onControl: controlled,
    onDown: () => {
      for (const run of runs.values()) reporter.advance(run);
    },
  });

  const reporter: Reporter = createReporter({
    runnerId,
    log,
    call: (request, deadlineMs) => callUnary(connection, connection.client.reportStatus, request, deadlineMs),
    streamIsUp: stream.isUp,
    sendEvents: (run) => void stream.touch(run, false),
    onSettled: forget,
    onSuperseded: supersede,
    onLost: lose,
    onError: refused,
  });

  const heartbeat: Heartbeat = createHeartbeat({
    runnerId,
    log,
    call: (request, deadlineMs) => callUnary(connection, connection.client.heartbeat, request, deadlineMs),
    runs,
    onPulse: pulsed,
    onLeaseOver: (run) => lose(run, "the plane could not be reached before its lease ended"),
    onTick: (now) => stream.check(runs.values(), now),
    onError: refused,
  });

  const cancels: CancelWatch = createCancelWatch({
    open: () => connection.client.watchCancels({ runnerId, kind: options.kind }, connection.metadata),
    log,
    onCancel: (ref) => {
      const run = runs.get(keyOf(ref));
      if (run === undefined) return false;
      cancel(run);
      return true;
    },
  });

  function accept(assignment: Assignment): void {
    const ref = assignment.run;
    if (ref === undefined || ref.generation < 1 || ref.runId === "") {
      log.error("The plane sent an assignment without a run or with generation 0; it is ignored.");
      return;
    }
    const key = keyOf(ref);
    if (runs.has(key)) return;
    const name = nameOf(ref);
    const older = newest.get(name);
    if (older !== undefined && older.ref.generation > ref.generation) return;
    if (older !== undefined) supersede(older);
    const now = performance.now();
    const run: HeldRun = {
      key,
      ref,
      assignment,
      outbox: createOutbox(ref),
      lease: offeredLease(now, assignment.leaseMs),
      phase: "running",
      controller: undefined,
      stopped: undefined,
      heartbeatDueAt: now + Math.min(FIRST_HEARTBEAT_MS, assignment.heartbeatMs),
      values: "",
      report: undefined,
    };
    runs.set(key, run);
    newest.set(name, run);
    heartbeat.watch(run, now);
    if (cancels.wasCancelled(ref)) {
      cancel(run);
      finish(run, { outcome: Outcome.OUTCOME_CANCELLED });
      return;
    }
    starts.add(run);
  }

  function start(run: HeldRun): void {
    if (run.phase !== "running") return;
    if (run.stopped !== undefined) {
      threw(run, run.stopped);
      return;
    }
    const agent = agents.get(run.assignment.graphId);
    if (agent === undefined) {
      const known = [...agents.keys()].join(", ");
      const message = `This runner has no agent "${run.assignment.graphId}"; it has: ${known}.`;
      finish(run, { outcome: Outcome.OUTCOME_ERROR, failure: { type: "UnknownAgent", message } });
      return;
    }
    // Not `await`: a plain function that ends at once must not pay for a second promise chain.
    agent.execute(executionOf(run)).then(
      (ending) => ended(run, ending),
      (error: unknown) => threw(run, error),
    );
  }

  function executionOf(run: HeldRun): Execution {
    return {
      assignment: run.assignment,
      get signal() {
        return signalOf(run);
      },
      emit: (event) => emit(run, event),
      attachWrites: (writes) => attachWrites(run.outbox, writes),
      mayStartWork: () => gate(run),
      remember: (values) => {
        run.values = values;
      },
      remembered: () => run.values,
      ask: (question) => stream.ask(run.ref, question),
      log,
    };
  }

  function emit(run: HeldRun, event: OutgoingEvent): Promise<void> {
    try {
      append(run.outbox, event, Date.now());
    } catch (error) {
      const rejected = Promise.reject(error);
      // An emit that nobody awaits must not end the process; whoever awaits it still gets the error.
      rejected.catch(() => {});
      if (isRunnerError(error, "late_event") && !lateEmitsReported.has(run)) {
        lateEmitsReported.add(run);
        log.warn(error.message);
      }
      return rejected;
    }
    const turn = stream.touch(run, event.delta, event.paced);
    return turn === undefined || isCrowded(run.outbox) ? whenRoom(run.outbox) : turn;
  }

  /** Undefined when work may start at once, so that the usual case costs no promise. */
  function gate(run: HeldRun): Promise<void> | undefined {
    if (run.stopped !== undefined) throw run.stopped;
    if (mayStartWork(run.lease, performance.now())) return undefined;
    heartbeat.hurry(run);
    return nextRenewal(run.lease).then(() => gate(run));
  }

  function ended(run: HeldRun, ending: Ending): void {
    if (run.phase !== "running") return;
    if (ending.outcome === "success") {
      finish(run, { outcome: Outcome.OUTCOME_SUCCESS, values: ending.values });
      return;
    }
    const { values, interrupts, next } = ending;
    finish(run, { outcome: Outcome.OUTCOME_WAITING, values, interrupts: [...interrupts], next: [...next] });
  }

  function threw(run: HeldRun, error: unknown): void {
    if (run.phase !== "running") return;
    if (isRunnerError(run.stopped, "cancelled")) {
      finish(run, { outcome: Outcome.OUTCOME_CANCELLED });
      return;
    }
    if (isRunnerError(run.stopped, "released")) {
      finish(run, { outcome: Outcome.OUTCOME_RELEASED });
      return;
    }
    const failure = describeFailure(error);
    log.warn(`Run ${run.ref.runId} of agent ${run.assignment.graphId} failed: ${failure.type}: ${failure.message}`);
    if (error instanceof Error && error.stack !== undefined) log.debug(error.stack);
    finish(run, { outcome: Outcome.OUTCOME_ERROR, failure });
  }

  function finish(
    run: HeldRun,
    end: Pick<Report, "outcome"> & { values?: string } & Partial<Omit<Report, "values">>,
  ): void {
    run.phase = "reporting";
    close(run.outbox, () => lateEvent(run));
    stream.withhold(run);
    reporter.report(run, {
      outcome: end.outcome,
      values: Buffer.from(end.values ?? run.values),
      failure: end.failure,
      interrupts: end.interrupts ?? [],
      next: end.next ?? [],
    });
  }

  function acknowledged({ run: ref, verdict, stored, message }: Acknowledgement): void {
    const run = ref === undefined ? undefined : runs.get(keyOf(ref));
    if (run === undefined || run.phase === "over") return;
    switch (verdict) {
      case BatchVerdict.BATCH_VERDICT_STORED:
        if (run.outbox.acknowledged === 0) heartbeat.confirmed(run);
        acknowledge(run.outbox, stored);
        stream.acknowledged(run);
        break;
      case BatchVerdict.BATCH_VERDICT_OUT_OF_ORDER:
        disordered(run, stored);
        break;
      case BatchVerdict.BATCH_VERDICT_SUPERSEDED:
        supersede(run);
        return;
      case BatchVerdict.BATCH_VERDICT_INVALID:
        lose(run, `the plane refused its events: ${message || "no reason given"}`);
        return;
      default:
        return;
    }
    reporter.advance(run);
  }

  function disordered(run: HeldRun, stored: number): void {
    // The answer to a repetition of what is stored already.
    if (isDrained(run.outbox) && stored >= run.outbox.acknowledged) {
      acknowledge(run.outbox, stored);
      return;
    }
    if (!rewind(run.outbox, stored)) {
      lose(run, `the plane has only ${stored} of its events and had acknowledged ${run.outbox.acknowledged}`);
      return;
    }
    if (run.phase === "running" || run.report?.viaStream) stream.resend(run);
  }

  function controlled({ run: ref, kind }: Control): void {
    const run = ref === undefined ? undefined : runs.get(keyOf(ref));
    if (run === undefined) return;
    if (kind === ControlKind.CONTROL_KIND_CANCEL) cancel(run);
    else if (kind === ControlKind.CONTROL_KIND_SUPERSEDED) supersede(run);
  }

  function pulsed(pulse: Pulse, sentAt: number): void {
    const run = pulse.run === undefined ? undefined : runs.get(keyOf(pulse.run));
    if (run === undefined || run.phase === "over") return;
    // A report that is under way may have ended the run while the heartbeat was: its verdict tells.
    if (pulse.superseded) {
      if (run.report?.inFlight !== true) supersede(run);
      return;
    }
    renew(run.lease, sentAt, pulse.trustedMs);
    if (pulse.cancel) cancel(run);
  }

  function cancel(run: HeldRun): void {
    if (run.phase !== "running") return;
    stopWork(run, new RunnerError("cancelled", "The run was cancelled."));
  }

  function supersede(run: HeldRun): void {
    if (run.phase === "over") return;
    log.warn(`Run ${run.ref.runId} (generation ${run.ref.generation}) is held by another runner now; stopping it.`);
    giveUp(run, new RunnerError("superseded", "Another runner holds this run now."));
    forget(run);
  }

  function lose(run: HeldRun, why: string): void {
    if (run.phase === "over") return;
    log.error(`Giving up run ${run.ref.runId} (generation ${run.ref.generation}): ${why}.`);
    const over = !isTrusted(run.lease, performance.now());
    giveUp(run, new RunnerError(over ? "lease_over" : "superseded", `The run was given up: ${why}.`));
    forget(run);
  }

  function forget(run: HeldRun): void {
    run.phase = "over";
    stream.withhold(run);
    runs.delete(run.key);
    const name = nameOf(run.ref);
    if (newest.get(name) === run) newest.delete(name);
    options.onFree();
  }

  function refused(error: unknown): boolean {
    if (!isRefusal(error)) return false;
    options.onRefused(error);
    return true;
  }

  function abandon(why: RunnerError): void {
    for (const run of [...runs.values()]) {
      giveUp(run, why);
      forget(run);
    }
  }

  return {
    runnerId,
    heldCount: () => runs.size,
    accept,
    held: () => runs.values(),
    open: () => {
      stream.open();
      cancels.open();
    },
    release: () => {
      for (const run of [...runs.values()]) {
        if (run.phase !== "running") continue;
        stopWork(run, new RunnerError("released", "The runner is shutting down; another one continues the run."));
      }
    },
    handBack: () => {
      for (const run of [...runs.values()]) {
        if (run.phase === "running") finish(run, { outcome: Outcome.OUTCOME_RELEASED });
      }
    },
    abandon,
    close: () => {
      heartbeat.close();
      reporter.close();
      stream.close();
      cancels.close();
    },
  };
}

function lateEvent(run: HeldRun): RunnerError {
  const message = `Run ${run.ref.runId} has ended: events after the end of the agent function are refused. Await all work before returning.`;
  return new RunnerError("late_event", message);
}

function nameOf(ref: RunRef): string {
  return `${ref.tenantId}/${ref.runId}`;
}
