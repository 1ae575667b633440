import type { FastifyReply } from "fastify";
import { runKey } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { cancelRun } from "../runs/cancel-run.js";
import { type FollowTarget, followRun } from "../runs/follow-run.js";
import { frameFilter } from "./frames.js";
import type { FrontDoor } from "./front-door.js";

// A reader whose connection drops may be on its way back: a cancel on disconnect waits this long for it.
const returnMs = 2_000;

export interface StreamRun {
  readonly run: FollowTarget;
  /** The last number that the reader has. */
  readonly after: number;
  readonly modes: readonly string[];
  readonly subgraphs: boolean;
  /** Root-relative path of the run. */
  readonly location: string;
  readonly cancelOnDisconnect: boolean;
}

/** Answers with the run's events as SSE, until the end. */
export function streamRun(door: FrontDoor, scope: Scope, reply: FastifyReply, stream: StreamRun): void {
  reply.hijack();
  const headers: Record<string, string> = {
    "content-location": stream.location,
    location: `${stream.location}/stream`,
  };
  // Headers that hooks have set (CORS, request id) go out with the hijacked answer too.
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) headers[name] = String(value);
  const sink = door.streams.open(reply.raw, headers, frameFilter(stream.modes, stream.subgraphs), (why) => {
    following.close();
    if (why === "left" && stream.cancelOnDisconnect) cancelUnlessRejoined(door, scope, stream.run);
  });
  const following = followRun(door.plane, scope, stream.run, stream.after, sink);
  sink.onDrain(following.resume);
}

export function cancelUnlessRejoined(door: FrontDoor, scope: Scope, run: { id: FollowTarget["id"] }): void {
  const { plane } = door;
  setTimeout(() => {
    const key = runKey(scope.tenantId, run.id);
    if (plane.feeds.isFollowed(key) || plane.signals.isFollowedElsewhere(key)) return;
    cancelRun(plane, scope, run.id, "interrupt").catch((error: unknown) => {
      plane.log.warn(
        { err: (error as Error).message, runId: run.id },
        "a run could not be cancelled after its reader left",
      );
    });
  }, returnMs).unref();
}
