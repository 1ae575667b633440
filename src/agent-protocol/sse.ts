import type { ServerResponse } from "node:http";
import type { FollowerSink, LogChunk } from "../runs/feeds.js";
import { encodeFrames, type FrameFilter, gapFrame } from "./frames.js";

// Open streams. A socket is written at most once a tick; what it has not taken counts as buffered, and the feed pauses above the limit. A reader that
// takes nothing for too long is cut off: its last id is a usable cursor. One timer serves all streams.

const heartbeat = Buffer.from(": heartbeat\n\n");
const stalledMs = 30_000;

export interface SseStream extends FollowerSink {
  /** Called when the socket took what was buffered. */
  onDrain(resume: () => void): void;
}

/** ended: the end was sent. left: the client has gone. stopped: this process is going away. */
export type StreamClosed = "ended" | "left" | "stopped";

export interface SseStreams {
  /** Answers with an open event stream. `onClose` tells why the connection closed. */
  open(
    response: ServerResponse,
    headers: Record<string, string>,
    filter: FrameFilter,
    onClose: (why: StreamClosed) => void,
  ): SseStream;
  /** The plane is going away: connections that close now were not closed by their clients. */
  readonly isStopping: () => boolean;
  readonly count: () => number;
  /** Closes every stream without `end`: the clients come back with their last ids. */
  stop(): void;
}

interface OpenStream {
  readonly response: ServerResponse;
  stalledSince: number | null;
}

export function createSseStreams(keepAliveMs: number): SseStreams {
  const open = new Set<OpenStream>();
  let stopping = false;

  const timer = setInterval(() => {
    const now = performance.now();
    for (const stream of open) {
      if (stream.response.writableLength === 0) {
        stream.stalledSince = null;
        stream.response.write(heartbeat);
      } else {
        stream.stalledSince ??= now;
        if (now - stream.stalledSince > stalledMs) stream.response.destroy();
      }
    }
  }, keepAliveMs);
  timer.unref();

  return {
    open: (response, headers, filter, onClose) => {
      response.writeHead(200, {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        ...headers,
      });
      // Something travels right behind the headers, so that proxies start to stream.
      response.write(heartbeat);
      const stream: OpenStream = { response, stalledSince: null };
      open.add(stream);
      let ended = false;
      let resume = (): void => {};
      let closed = false;
      const close = (): void => {
        if (closed) return;
        closed = true;
        open.delete(stream);
        onClose(ended ? "ended" : stopping ? "stopped" : "left");
      };
      response.on("drain", () => {
        stream.stalledSince = null;
        resume();
      });
      response.once("close", close);
      // The client may have gone while its run was made: then nothing is going to say so.
      if (response.destroyed || response.socket?.destroyed) setImmediate(close);
      return {
        deliver: (chunks, from) => {
          if (response.destroyed) return;
          const first = chunks[0];
          if (first && first.firstSeq > from) response.write(gapFrame(first.firstSeq));
          const frames =
            chunks.length === 1 && chunks[0] ? encodeFrames(chunks[0], from, filter) : concat(chunks, from, filter);
          if (frames.length > 0) response.write(frames);
        },
        ended: () => {
          ended = true;
          open.delete(stream);
          response.end();
        },
        // Closed without `end`: the client knows that the run is not over.
        failed: () => response.destroy(),
        buffered: () => response.writableLength,
        onDrain: (listener) => {
          resume = listener;
        },
      };
    },
    isStopping: () => stopping,
    count: () => open.size,
    stop: () => {
      stopping = true;
      clearInterval(timer);
      for (const stream of open) stream.response.destroy();
    },
  };
}

function concat(chunks: readonly LogChunk[], from: number, filter: FrameFilter): Buffer {
  return Buffer.concat(chunks.map((chunk) => encodeFrames(chunk, from, filter)));
}
