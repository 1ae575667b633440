import type { RunnerError } from "./errors.js";
import type { Assignment, Report, RunRef } from "./generated/fairlead/runner/v1/runner.js";
import { type Lease, wake } from "./lease.js";
import { discard, type Outbox } from "./outbox.js";

/**
 * A run that this process holds, from its assignment to the verdict on its report.
 *
 *   running ──the agent's function ended──► reporting ──verdict──► over
 *      └────────── superseded, or its lease is over ──────────────► over
 */
export interface HeldRun {
  readonly key: string;
  readonly ref: RunRef;
  readonly assignment: Assignment;
  readonly outbox: Outbox;
  readonly lease: Lease;
  phase: "running" | "reporting" | "over";
  /** Made when somebody asks for the signal: most short runs never do. */
  controller: AbortController | undefined;
  /** Why the run must stop; set once. */
  stopped: RunnerError | undefined;
  /** When the next heartbeat must name this run; on the monotone clock. */
  heartbeatDueAt: number;
  /** The newest state, as JSON text: what the thread keeps even when the run fails. */
  values: string;
  report: PendingReport | undefined;
}

export interface PendingReport {
  readonly fields: Omit<Report, "run" | "events" | "tail">;
  /** Until then the report waits for the acknowledgement of batches that are under way on the stream. */
  waitUntil: number;
  /** The unacknowledged events are too large for the report: they go over the stream first. */
  viaStream: boolean;
  /** What the plane answered last; 0 when it did not miss anything yet. */
  missingFrom: number;
  /** What the plane had acknowledged of the run's events when the report went out. */
  acknowledged: number;
  inFlight: boolean;
  /** When it went out last; on the monotone clock. */
  sentAt: number;
  /** The plane refused the first report as invalid; the second one only says so. */
  reduced: boolean;
}

/** Equal run ids may exist in several tenants. */
export function keyOf(ref: RunRef): string {
  return `${ref.tenantId}/${ref.runId}/${ref.generation}`;
}

export function signalOf(run: HeldRun): AbortSignal {
  if (run.controller === undefined) {
    run.controller = new AbortController();
    if (run.stopped !== undefined) run.controller.abort(run.stopped);
  }
  return run.controller.signal;
}

/** Tells the agent's code to stop. The first reason stands. */
export function stopWork(run: HeldRun, why: RunnerError): void {
  if (run.stopped !== undefined) return;
  run.stopped = why;
  run.controller?.abort(why);
  wake(run.lease);
}

/** Ends the run here without another word to the plane. */
export function giveUp(run: HeldRun, why: RunnerError): void {
  if (run.phase === "over") return;
  run.phase = "over";
  discard(run.outbox, why);
  stopWork(run, why);
  wake(run.lease);
}
