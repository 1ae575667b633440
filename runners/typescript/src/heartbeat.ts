import { createBackoff, nextDelayMs, succeeded } from "./backoff.js";
import type { HeartbeatRequest, HeartbeatResponse, Pulse } from "./generated/fairlead/runner/v1/runner.js";
import type { HeldRun } from "./held-run.js";
import { holdOn, isTrusted, leaseEnd } from "./lease.js";
import type { Logger } from "./log.js";
import { describeCallError, saysStoreIsAway } from "./transport.js";

// One timer and one call for all runs. A run of a few milliseconds is over before either concerns it.

/** Soon after an offer, because it lapses after five seconds; late enough that a short run never needs it. */
export const FIRST_HEARTBEAT_MS = 500;
const MIN_DEADLINE_MS = 500;
const MIN_PERIOD_MS = 20;
const MIN_RETRY_MS = 50;

export interface Heartbeat {
  watch(run: HeldRun, now: number): void;
  /** The plane has heard of the run in another way, so its first heartbeat may take its time. */
  confirmed(run: HeldRun): void;
  /** Somebody waits for the next renewal. */
  hurry(run: HeldRun): void;
  close(): void;
}

export interface HeartbeatOptions {
  readonly runnerId: string;
  readonly log: Logger;
  readonly runs: ReadonlyMap<string, HeldRun>;
  readonly call: (request: HeartbeatRequest, deadlineMs: number) => Promise<HeartbeatResponse>;
  readonly onPulse: (pulse: Pulse, sentAt: number) => void;
  readonly onLeaseOver: (run: HeldRun) => void;
  readonly onTick: (now: number) => void;
  /** Does the error mean that the runner ends? */
  readonly onError: (error: unknown) => boolean;
}

export function createHeartbeat(options: HeartbeatOptions): Heartbeat {
  const backoff = createBackoff(100, 1_000);
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;
  let inFlight = false;
  let notBefore = 0;
  let closed = false;

  function arm(at: number, now: number): void {
    if (closed || timerAt <= at) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(tick, Math.max(1, at - now));
  }

  function tick(): void {
    timerAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    for (const run of options.runs.values()) if (!isTrusted(run.lease, now)) options.onLeaseOver(run);
    options.onTick(now);
    if (!inFlight && now >= notBefore && anyDue(now)) void beat(now);
    rearm(performance.now());
  }

  function anyDue(now: number): boolean {
    for (const run of options.runs.values()) if (beatAt(run) <= now) return true;
    return false;
  }

  function rearm(now: number): void {
    let next = Number.POSITIVE_INFINITY;
    for (const run of options.runs.values()) {
      // While a call is under way its answer sets the next heartbeat; leases end meanwhile all the same.
      const at = inFlight ? Number.POSITIVE_INFINITY : Math.max(beatAt(run), notBefore);
      next = Math.min(next, at, leaseEnd(run.lease));
    }
    if (next !== Number.POSITIVE_INFINITY) arm(next, now);
  }

  async function beat(sentAt: number): Promise<void> {
    const named = [...options.runs.values()].filter((run) => !isBeingReported(run, sentAt));
    if (named.length === 0) return;
    inFlight = true;
    const shortest = Math.min(...named.map(periodOf));
    try {
      const request = { runnerId: options.runnerId, runs: named.map((run) => run.ref) };
      const { pulses } = await options.call(request, Math.max(MIN_DEADLINE_MS, shortest));
      succeeded(backoff);
      notBefore = 0;
      for (const run of named) run.heartbeatDueAt = sentAt + periodOf(run);
      for (const pulse of pulses) options.onPulse(pulse, sentAt);
    } catch (error) {
      if (options.onError(error)) return;
      if (saysStoreIsAway(error)) {
        const now = performance.now();
        for (const run of named) holdOn(run.lease, now, run.assignment.leaseMs);
      }
      // A lease must not end between two tries.
      const delayMs = Math.min(nextDelayMs(backoff), Math.max(MIN_RETRY_MS, shortest / 3));
      notBefore = performance.now() + delayMs;
      options.log.debug(`Heartbeat failed (${describeCallError(error)}); again in ${Math.round(delayMs)} ms.`);
    } finally {
      inFlight = false;
      rearm(performance.now());
    }
  }

  return {
    watch: (run, now) => arm(Math.min(run.heartbeatDueAt, leaseEnd(run.lease)), now),
    confirmed: (run) => {
      const { trustedSince } = run.lease;
      run.heartbeatDueAt = Math.max(run.heartbeatDueAt, trustedSince + periodOf(run));
    },
    hurry: (run) => {
      const now = performance.now();
      run.heartbeatDueAt = Math.min(run.heartbeatDueAt, now);
      if (!inFlight) arm(Math.max(now, notBefore), now);
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
}

/** A report that is under way says all that a heartbeat could. One that is not answered soon says nothing: the plane may wait for its store, and only a
 *  heartbeat is told so in time. */
function beatAt(run: HeldRun): number {
  const { report } = run;
  return report?.inFlight ? Math.max(run.heartbeatDueAt, report.sentAt + periodOf(run)) : run.heartbeatDueAt;
}

function isBeingReported(run: HeldRun, now: number): boolean {
  return run.report?.inFlight === true && now < run.report.sentAt + periodOf(run);
}

function periodOf(run: HeldRun): number {
  return Math.max(MIN_PERIOD_MS, run.assignment.heartbeatMs);
}
