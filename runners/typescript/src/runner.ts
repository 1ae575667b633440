import type { Agent } from "./agent.js";
import { announce } from "./announcement.js";
import { createBackoff, nextDelayMs, pause, succeeded } from "./backoff.js";
import { type AgentDefinition, createAgent } from "./definitions.js";
import { RunnerError } from "./errors.js";
import type { GetJobRequest, GetJobResponse } from "./generated/fairlead/runner/v1/runner.js";
import { type Logger, stderrLogger } from "./log.js";
import { createSession, type Session } from "./session.js";
import { type Connection, callUnary, connect, describeCallError, refusal, type TlsOptions } from "./transport.js";
import { VERSION } from "./version.js";

export interface RunnerOptions {
  /** The plane's gRPC address: host:port, grpc://host:port or grpcs://host:port. */
  readonly address: string;
  /** A runner token (`flr_…`). It is bound to one kind. */
  readonly token: string;
  readonly kind?: string;
  readonly tls?: TlsOptions;
  readonly agents: Readonly<Record<string, AgentDefinition>>;
  /** How many runs at once. */
  readonly capacity?: number;
  readonly logger?: Logger;
}

export interface Runner {
  /** Resolves when the plane has accepted this runner; rejects when it refuses it. An absent plane is waited for. */
  start(): Promise<void>;
  /** Takes no more work, lets runs end for `drainMs`, hands the rest back, and closes. */
  stop(options?: { drainMs?: number }): Promise<void>;
  /** Settles when the runner has ended: rejects when the plane refused it, resolves after `stop`. */
  readonly ended: Promise<void>;
  readonly runnerId: string;
}

const MAX_CAPACITY = 100;
const WAIT_MS = 50_000;
/** The plane caps the wait; what takes this much longer is a dead connection. */
const DEADLINE_MARGIN_MS = 10_000;
const DRAIN_MS = 10_000;
/** For code that was told to stop. */
const STOPPING_MS = 1_000;
const REPORTING_MS = 5_000;

export function createRunner(options: RunnerOptions): Runner {
  const { capacity = 10, kind = "typescript", logger: log = stderrLogger } = options;
  check(options, capacity);
  const stopping = new AbortController();
  const agents = new Map<string, Agent>();
  const connection: Connection = connect(options.address, options.token, options.tls);
  let accepted = false;
  let waitingForSlot: (() => void) | undefined;
  let started: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;
  let settle: { resolve: () => void; reject: (error: Error) => void };
  const ended = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  // Who does not listen to `ended` has the rejection of `start`, or the log.
  ended.catch(() => {});

  const session: Session = createSession({
    connection,
    kind,
    agents,
    log,
    onFree: () => waitingForSlot?.(),
    onRefused: (error) => fail(refusal(error, connection.address, kind)!),
  });

  async function start(): Promise<void> {
    for (const [graphId, definition] of Object.entries(options.agents)) {
      agents.set(graphId, await createAgent(graphId, definition));
    }
    // It may have been stopped while the agents were loaded.
    stopping.signal.throwIfAborted();
    const announcement = announce(agents.values());
    const backoff = createBackoff(100, 5_000);
    let announcing = true;
    await new Promise<void>((resolve, reject) => {
      const accept = (): void => {
        if (accepted) return;
        accepted = true;
        session.open();
        resolve();
      };
      stopping.signal.addEventListener("abort", () => reject(stopping.signal.reason), { once: true });
      void poll(accept);
    });

    async function poll(accept: () => void): Promise<void> {
      // The first poll does not wait, so that a wrong token is known at once.
      let waitMs = 0;
      while (!stopping.signal.aborted) {
        const freeSlots = capacity - session.heldCount();
        if (freeSlots <= 0) {
          await new Promise<void>((free) => {
            waitingForSlot = free;
          });
          waitingForSlot = undefined;
          continue;
        }
        try {
          const response = await getJob({
            runnerId: session.runnerId,
            kind,
            version: VERSION,
            freeSlots,
            capacity,
            waitMs,
            announcementDigest: announcement.digest,
            agents: announcing ? announcement.offers : [],
          });
          succeeded(backoff);
          announcing = response.announce;
          waitMs = announcing ? 0 : WAIT_MS;
          if (!announcing) accept();
          for (const assignment of response.assignments) session.accept(assignment);
          if (response.draining) await pause(nextDelayMs(backoff), stopping.signal);
        } catch (error) {
          if (stopping.signal.aborted) return;
          const refused = refusal(error, connection.address, kind);
          if (refused !== undefined) return fail(refused);
          // A plane that was away may have forgotten the announcement, or be another one: it will ask for it.
          if (backoff.failures === 0)
            log.warn(
              `The plane at ${connection.address} cannot be reached (${describeCallError(error)}); trying again.`,
            );
          await pause(nextDelayMs(backoff), stopping.signal);
        }
      }
    }
  }

  function getJob(request: GetJobRequest): Promise<GetJobResponse> {
    return callUnary(
      connection,
      connection.client.getJob,
      request,
      request.waitMs + DEADLINE_MARGIN_MS,
      stopping.signal,
    );
  }

  function fail(error: RunnerError): void {
    if (stopped !== undefined) return;
    // Before that, `start` tells it.
    if (accepted) log.error(error.message);
    stopped = Promise.resolve();
    stopping.abort(error);
    waitingForSlot?.();
    session.abandon(error);
    closeAll();
    settle.reject(error);
  }

  async function stop(drainMs: number): Promise<void> {
    stopping.abort(new RunnerError("released", "The runner was stopped before the plane accepted it."));
    waitingForSlot?.();
    await until(() => working(session) === 0, drainMs);
    if (working(session) > 0) {
      session.release();
      await until(() => working(session) === 0, STOPPING_MS);
      session.handBack();
    }
    await until(() => session.heldCount() === 0, REPORTING_MS);
    closeAll();
    settle.resolve();
  }

  function closeAll(): void {
    session.close();
    connection.client.close();
  }

  return {
    start: () => (started ??= start()),
    stop: ({ drainMs = DRAIN_MS } = {}) => (stopped ??= stop(drainMs)),
    ended,
    runnerId: session.runnerId,
  };
}

function working(session: Session): number {
  let count = 0;
  for (const run of session.held()) if (run.phase === "running") count += 1;
  return count;
}

/** Looks every few milliseconds, which only a runner that shuts down does. */
async function until(done: () => boolean, withinMs: number): Promise<void> {
  const end = performance.now() + withinMs;
  while (!done() && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
}

function check(options: RunnerOptions, capacity: number): void {
  if (typeof options.token !== "string" || options.token === "") {
    throw new RunnerError("config", "token: is missing. Create a runner token with the plane's CLI or dashboard.");
  }
  if (!Number.isInteger(capacity) || capacity < 1 || capacity > MAX_CAPACITY) {
    throw new RunnerError("config", `capacity: must be a whole number from 1 to ${MAX_CAPACITY}, it is ${capacity}.`);
  }
  if (options.kind !== undefined && (typeof options.kind !== "string" || options.kind === "")) {
    throw new RunnerError("config", "kind: must be a text. Use the kind for which the token was created.");
  }
  if (typeof options.agents !== "object" || options.agents === null || Object.keys(options.agents).length === 0) {
    throw new RunnerError(
      "config",
      "agents: is empty. Give at least one agent, for example { echo: async (run) => run.input }.",
    );
  }
}
