import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { RunnerError } from "./errors.js";
import type { Family } from "./generated/fairlead/runner/v1/runner.js";

// Events are encoded by hand, straight into the bytes of an EventList of known size. The generated encoder took twice as long, most of it for
// growing and joining its chunks. Decoding the bytes with the generated EventList is a test.

export const MAX_EVENT_BYTES = 16 * 1024 * 1024;

/** The fields that many events of a run have in common. */
export interface EventKind {
  readonly family: Family;
  readonly mode?: string;
  readonly name?: string;
  readonly namespace?: readonly string[];
  readonly node?: string;
}

/** Encodes them once; see the field numbers of `Event`. */
export function eventHead(kind: EventKind): Uint8Array {
  const writer = new BinaryWriter();
  writer.uint32(8).int32(kind.family);
  if (kind.mode) writer.uint32(18).string(kind.mode);
  if (kind.name) writer.uint32(26).string(kind.name);
  for (const part of kind.namespace ?? []) writer.uint32(34).string(part);
  if (kind.node) writer.uint32(42).string(kind.node);
  return writer.finish();
}

/** An event that waits to be encoded, with the sizes that were needed to accept it. */
export interface QueuedEvent {
  readonly head: Uint8Array;
  /** JSON text, empty when the event has none. */
  readonly body: string;
  readonly bodyBytes: number;
  readonly legacyBody: string;
  readonly legacyBytes: number;
  readonly timeMs: number;
  /** Of the encoded event, without tag and length. */
  readonly bytes: number;
}

export function queueEvent(head: Uint8Array, body: string, legacyBody: string, timeMs: number): QueuedEvent {
  const bodyBytes = body === "" ? 0 : Buffer.byteLength(body);
  const legacyBytes = legacyBody === "" ? 0 : Buffer.byteLength(legacyBody);
  if (bodyBytes > MAX_EVENT_BYTES || legacyBytes > MAX_EVENT_BYTES) {
    const size = Math.max(bodyBytes, legacyBytes);
    throw new RunnerError(
      "event_too_large",
      `The event has ${size} bytes, the limit is ${MAX_EVENT_BYTES} (16 MiB). Keep large data outside the run's state and events.`,
    );
  }
  const bytes =
    head.length +
    (bodyBytes === 0 ? 0 : 1 + varintBytes(bodyBytes) + bodyBytes) +
    (legacyBytes === 0 ? 0 : 1 + varintBytes(legacyBytes) + legacyBytes) +
    1 +
    varintBytes(timeMs);
  return { head, body, bodyBytes, legacyBody, legacyBytes, timeMs, bytes };
}

/** The bytes of an EventList: one allocation of the right size, written once. */
export function encodeEvents(events: readonly QueuedEvent[]): Buffer {
  let size = 0;
  for (const event of events) size += 1 + varintBytes(event.bytes) + event.bytes;
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const event of events) {
    bytes[at] = 0x0a;
    at = writeVarint(bytes, at + 1, event.bytes);
    bytes.set(event.head, at);
    at += event.head.length;
    if (event.bodyBytes > 0) at = writeText(bytes, at, 0x32, event.body, event.bodyBytes);
    if (event.legacyBytes > 0) at = writeText(bytes, at, 0x3a, event.legacyBody, event.legacyBytes);
    bytes[at] = 0x40;
    at = writeVarint(bytes, at + 1, event.timeMs);
  }
  return bytes;
}

function writeText(bytes: Buffer, at: number, tag: number, text: string, textBytes: number): number {
  bytes[at] = tag;
  const start = writeVarint(bytes, at + 1, textBytes);
  bytes.write(text, start, textBytes, "utf8");
  return start + textBytes;
}

// Plain arithmetic instead of shifts, because times in milliseconds do not fit 32 bits.
function varintBytes(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size += 1;
  return size;
}

function writeVarint(bytes: Buffer, at: number, value: number): number {
  let rest = value;
  let next = at;
  while (rest >= 128) {
    bytes[next++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  bytes[next++] = rest;
  return next;
}
