import type { ServerDuplexStream, ServerWritableStream } from "@grpc/grpc-js";
import type { QueueName, RunId, RunKey, RunnerId, TenantId, ThreadId } from "../domain/ids.js";
import { queueKey, runKey } from "../domain/ids.js";
import {
  ControlKind,
  type StreamEventsRequest,
  type StreamEventsResponse,
  type WatchCancelsRequest,
  type WatchCancelsResponse,
} from "../generated/proto/fairlead/runner/v1/runner.js";
import type { Plane, StopOrder } from "../runs/plane.js";
import type { HeldRun } from "../store/run-path/append.js";
import { cutLeases } from "../store/run-path/append.js";
import { toWireRun } from "./wire.js";

// One runner process as this plane process sees it: its open streams, and the runs that were assigned through here. Nothing in it decides anything:
// the fences in the store do. It serves to push cancels at once, and to cut the leases of a runner whose connections are all closed.

export type EventStream = ServerDuplexStream<StreamEventsRequest, StreamEventsResponse>;
export type CancelStream = ServerWritableStream<WatchCancelsRequest, WatchCancelsResponse>;

export interface AssignedRun {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly threadId: ThreadId;
  readonly fence: number;
  readonly attempt: number;
  readonly purpose: "run" | "update_state";
}

export interface Session {
  readonly runnerId: RunnerId;
  readonly queue: QueueName;
  readonly held: Map<RunKey, AssignedRun>;
  readonly eventStreams: Set<EventStream>;
  readonly cancelStreams: Set<CancelStream>;
  parkedCalls: number;
  /** When it was last heard of, monotonic. */
  heardAt: number;
  announcedDigest: string;
  /** What it executes, as it announced: it is given nothing else. */
  graphIds: ReadonlySet<string>;
  unlisten: () => void;
}

export interface Sessions {
  /** The session of a runner in its queue. */
  of(runnerId: RunnerId, queue: QueueName): Session;
  all(): IterableIterator<Session>;
  /** The runner has this run, as far as is known here. */
  hold(session: Session, run: AssignedRun): void;
  /** A stream of the runner was closed. */
  closed(session: Session): void;
  stop(): void;
}

// A runner holds a hundred runs at most. What it reports through another process is not struck off here, so the names that were not heard of for longest
// go: all that a lost name costs is that a lease is not cut.
const maxHeld = 200;
// Sessions without streams are forgotten after this silence.
const forgetMs = 120_000;

export function createSessions(plane: Plane): Sessions {
  // Runner ids are chosen by runners: who names another pool's gets a session of its own, and takes nothing from the other.
  const sessions = new Map<string, Session>();
  const keyOf = (runnerId: RunnerId, queue: QueueName): string => `${queueKey(queue)}:${runnerId}`;

  const create = (runnerId: RunnerId, queue: QueueName): Session => {
    const session: Session = {
      runnerId,
      queue,
      held: new Map(),
      eventStreams: new Set(),
      cancelStreams: new Set(),
      parkedCalls: 0,
      heardAt: plane.clock.monotonic(),
      announcedDigest: "",
      graphIds: new Set(),
      unlisten: () => {},
    };
    session.unlisten = plane.stops.listen({ runnerId, queue }, (order) => pushStop(session, order));
    sessions.set(keyOf(runnerId, queue), session);
    return session;
  };

  const forget = (session: Session): void => {
    session.unlisten();
    sessions.delete(keyOf(session.runnerId, session.queue));
  };

  const timer = setInterval(() => {
    const now = plane.clock.monotonic();
    for (const session of sessions.values()) {
      if (
        session.eventStreams.size + session.cancelStreams.size + session.parkedCalls === 0 &&
        now - session.heardAt > forgetMs
      )
        forget(session);
    }
  }, 30_000);
  timer.unref();

  return {
    of: (runnerId, queue) => {
      const session = sessions.get(keyOf(runnerId, queue)) ?? create(runnerId, queue);
      session.heardAt = plane.clock.monotonic();
      return session;
    },
    all: () => sessions.values(),
    hold: ({ held }, run) => {
      const key = runKey(run.tenantId, run.runId);
      // The map is in the order in which the runs were last heard of.
      held.delete(key);
      held.set(key, run);
      if (held.size > maxHeld) held.delete(held.keys().next().value as RunKey);
    },
    closed: (session) => {
      // A plane that shuts down closes the streams of runners that live: they come back, to it or to another.
      if (plane.parked.isDraining()) return;
      if (session.eventStreams.size + session.cancelStreams.size > 0 || session.held.size === 0) return;
      const items: HeldRun[] = [...session.held.values()].map((run) => ({ ...run, queue: session.queue }));
      // Never shorter than a heartbeat takes to come round: a runner that lives is not robbed because a proxy closed its streams.
      const ms = Math.max(plane.limits.closedLeaseMs, plane.limits.heartbeatMs * 1.5);
      cutLeases(plane.stores.app, items, Math.min(ms, plane.limits.leaseMs)).catch((error: unknown) => {
        plane.log.warn({ err: (error as Error).message }, "leases of a closed connection could not be cut");
      });
    },
    stop: () => clearInterval(timer),
  };
}

/** Pushed down every open stream; heartbeats repeat it. */
function pushStop(session: Session, order: StopOrder): void {
  const run = toWireRun(order);
  const kind = order.kind === "cancel" ? ControlKind.CONTROL_KIND_CANCEL : ControlKind.CONTROL_KIND_SUPERSEDED;
  for (const stream of session.eventStreams) {
    stream.write({ message: { $case: "control", value: { run, kind } } });
  }
  if (order.kind === "cancel") for (const stream of session.cancelStreams) stream.write({ runs: [run] });
  if (order.kind === "superseded") {
    const key = runKey(order.tenantId, order.runId);
    if (session.held.get(key)?.fence === order.fence) session.held.delete(key);
  }
}
