import { controlFamily, type EventView, walkEvents } from "../domain/event-list.js";
import type { LogChunk } from "../runs/feeds.js";

// Legacy SSE frames: `event`, `data` on one line, `id`. The id is the event's number in the run. Bodies are spliced in as the bytes that were received.

/** Which frames a reader gets. Two readers with equal filters share their frames. */
export interface FrameFilter {
  readonly modes: ReadonlySet<string>;
  readonly subgraphs: boolean;
  /** Equal for equal filters. */
  readonly key: string;
}

export function frameFilter(modes: readonly string[], subgraphs: boolean): FrameFilter {
  const sorted = [...new Set(modes)].sort();
  return { modes: new Set(sorted), subgraphs, key: `${subgraphs ? "s" : ""}:${sorted.join(",")}` };
}

const eventWord = Buffer.from("event: ");
const dataWord = Buffer.from("\ndata: ");
const idWord = Buffer.from("\nid: ");
const frameEnd = Buffer.from("\n\n");
const nothing = Buffer.alloc(0);

/** Says that events are no longer kept, up to the one named: never a quiet jump. */
export function gapFrame(firstAvailable: number): Buffer {
  return Buffer.from(`event: gap\ndata: {"first_available":${firstAvailable}}\nid: ${firstAvailable - 1}\n\n`);
}

/** The frames of a chunk's events from number `from` on that pass the filter. Whole chunks are encoded once for all readers. */
export function encodeFrames(chunk: LogChunk, from: number, filter: FrameFilter): Buffer {
  if (from > chunk.firstSeq) return encode(chunk, from, filter);
  let frames = chunk.frames.get(filter.key);
  if (!frames) {
    frames = encode(chunk, from, filter);
    chunk.frames.set(filter.key, frames);
  }
  return frames;
}

function encode(chunk: LogChunk, from: number, filter: FrameFilter): Buffer {
  const parts: Uint8Array[] = [];
  let seq = chunk.firstSeq;
  walkEvents(chunk.body, (event) => {
    const id = seq++;
    if (id < from) return;
    const name = frameName(event, filter);
    if (name === null) return;
    const useLegacy = event.legacyEnd > event.legacyStart;
    const start = useLegacy ? event.legacyStart : event.bodyStart;
    const end = useLegacy ? event.legacyEnd : event.bodyEnd;
    if (end === start) return;
    parts.push(
      eventWord,
      Buffer.from(name),
      dataWord,
      chunk.body.subarray(start, end),
      idWord,
      Buffer.from(String(id)),
      frameEnd,
    );
  });
  return parts.length === 0 ? nothing : Buffer.concat(parts);
}

/** The event name, or null for an event that this reader does not get. Control frames reach everybody. */
function frameName(event: EventView, filter: FrameFilter): string | null {
  if (event.family === controlFamily) return event.name;
  if (event.mode === "" || !filter.modes.has(event.mode)) return null;
  const name = event.name === "" ? event.mode : event.name;
  if (event.namespace.length === 0) return name;
  return filter.subgraphs ? `${name}|${event.namespace.join("|")}` : null;
}
