import { controlFamily, type EventView, walkEvents } from "../domain/event-list.js";
import type { FinalRunState } from "../domain/moves/run.js";

// The frames that the plane itself writes into a run's log. They are events like any other (family control), so that every frame has a number.

export interface Frames {
  /** An EventList. */
  readonly bytes: Buffer;
  readonly count: number;
}

/** What clients are told a final state is: a run that waits for a person succeeded, `interrupted` means cancelled. */
export function clientStatus(status: FinalRunState): "success" | "error" | "timeout" | "interrupted" {
  if (status === "cancelled") return "interrupted";
  return status === "waiting" ? "success" : status;
}

export interface RunFailure {
  readonly error: string;
  readonly message: string;
}

/** The last frames of a run: an error if it failed, and the end. Nothing follows them. */
export function endFrames(status: FinalRunState, failure: RunFailure | null, nowMs: number): Frames {
  const end = controlEvent("end", JSON.stringify({ status: clientStatus(status) }), nowMs);
  if (!failure) return { bytes: end, count: 1 };
  const error = controlEvent("error", JSON.stringify({ error: failure.error, message: failure.message }), nowMs);
  return { bytes: Buffer.concat([error, end]), count: 2 };
}

/** The first frame of every run: number 1, a function of the run, never stored. */
export function metadataFrame(runId: string, threadId: string, createdMs: number): Frames {
  return {
    bytes: controlEvent("metadata", JSON.stringify({ run_id: runId, thread_id: threadId, attempt: 1 }), createdMs),
    count: 1,
  };
}

/** A new attempt begins: full values follow. */
export function attemptFrame(runId: string, threadId: string, attempt: number, nowMs: number): Frames {
  return {
    bytes: controlEvent("metadata", JSON.stringify({ run_id: runId, thread_id: threadId, attempt }), nowMs),
    count: 1,
  };
}

function controlEvent(name: string, json: string, timeMs: number): Buffer {
  const body = Buffer.from(json);
  const inner = Buffer.concat([
    Buffer.from([0x08, 13, 0x1a, name.length]),
    Buffer.from(name),
    Buffer.from([0x32, ...varint(body.length)]),
    body,
    Buffer.from([0x40, ...varint(Math.floor(timeMs))]),
  ]);
  return Buffer.concat([Buffer.from([0x0a, ...varint(inner.length)]), inner]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return bytes;
}

// Frames of these names tell clients about the run itself: a runner that sent one would end a stream that goes on.
const planeNames = new Set(["metadata", "end", "error"]);

/** Checks received bytes: an EventList of `count` events, none of them the plane's own, none larger than `maxBytes`, none that would break out of its
 *  frame on a text stream. Null when fine, else why not. */
export function complainAboutEvents(bytes: Uint8Array, count: number, maxBytes: number): string | null {
  let complaint: string | null = null;
  const check = (event: EventView): void => {
    if (event.family === controlFamily) complaint ??= "family CONTROL belongs to the plane";
    if (event.family < 1 || event.family > controlFamily) complaint ??= `family ${event.family} is unknown`;
    if (planeNames.has(event.name) || planeNames.has(event.mode))
      complaint ??= `the name "${event.name || event.mode}" belongs to the plane`;
    if (hasLineBreak(event.name) || hasLineBreak(event.mode) || event.namespace.some(hasLineBreak)) {
      complaint ??= "mode, name and namespace are single lines";
    }
    if (
      isSeveralLines(bytes, event.bodyStart, event.bodyEnd) ||
      isSeveralLines(bytes, event.legacyStart, event.legacyEnd)
    ) {
      complaint ??= "a body is JSON on one line";
    }
    if (event.bodyEnd - event.bodyStart > maxBytes || event.legacyEnd - event.legacyStart > maxBytes) {
      complaint ??= `an event is larger than ${maxBytes} bytes`;
    }
  };
  try {
    const found = walkEvents(bytes, check);
    if (found !== count) complaint ??= `count says ${count}, the list holds ${found}`;
  } catch (error) {
    complaint ??= (error as Error).message;
  }
  return complaint;
}

function hasLineBreak(text: string): boolean {
  return /[\r\n]/.test(text);
}

function isSeveralLines(bytes: Uint8Array, start: number, end: number): boolean {
  const body = bytes.subarray(start, end);
  return body.includes(10) || body.includes(13);
}
