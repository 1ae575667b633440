import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { RunnerError } from "./errors.js";
import type { Family } from "./generated/fairlead/runner/v1/runner.js";

// Events are encoded by hand, straight into the bytes of an EventList: a token is written once and never becomes an object. Decoding them
// with the generated EventList is a test.

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

/** A growing serialized EventList. */
export interface EventBytes {
  bytes: Buffer;
  length: number;
}

const FIRST_ALLOCATION = 512;

export function emptyEventBytes(): EventBytes {
  return { bytes: Buffer.allocUnsafe(FIRST_ALLOCATION), length: 0 };
}

/** Appends one event and returns how many bytes it took. `body` and `legacyBody` are JSON text, empty when the event has none. */
export function appendEvent(
  list: EventBytes,
  head: Uint8Array,
  body: string,
  legacyBody: string,
  timeMs: number,
): number {
  const bodyBytes = body === "" ? 0 : Buffer.byteLength(body);
  const legacyBytes = legacyBody === "" ? 0 : Buffer.byteLength(legacyBody);
  if (bodyBytes > MAX_EVENT_BYTES || legacyBytes > MAX_EVENT_BYTES) {
    const size = Math.max(bodyBytes, legacyBytes);
    throw new RunnerError(
      "event_too_large",
      `The event has ${size} bytes, the limit is ${MAX_EVENT_BYTES} (16 MiB). Keep large data outside the run's state and events.`,
    );
  }
  const eventBytes =
    head.length +
    (bodyBytes === 0 ? 0 : 1 + varintBytes(bodyBytes) + bodyBytes) +
    (legacyBytes === 0 ? 0 : 1 + varintBytes(legacyBytes) + legacyBytes) +
    1 +
    varintBytes(timeMs);
  const total = 1 + varintBytes(eventBytes) + eventBytes;
  const bytes = reserve(list, total);
  let at = list.length;
  bytes[at++] = 0x0a;
  at = writeVarint(bytes, at, eventBytes);
  bytes.set(head, at);
  at += head.length;
  if (bodyBytes > 0) at = writeText(bytes, at, 0x32, body, bodyBytes);
  if (legacyBytes > 0) at = writeText(bytes, at, 0x3a, legacyBody, legacyBytes);
  bytes[at++] = 0x40;
  at = writeVarint(bytes, at, timeMs);
  list.length = at;
  return total;
}

function reserve(list: EventBytes, more: number): Buffer {
  const needed = list.length + more;
  if (needed <= list.bytes.length) return list.bytes;
  const bigger = Buffer.allocUnsafe(Math.max(needed, list.bytes.length * 2));
  bigger.set(list.bytes.subarray(0, list.length));
  list.bytes = bigger;
  return bigger;
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
