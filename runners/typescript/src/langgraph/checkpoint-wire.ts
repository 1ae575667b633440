import { createHash } from "node:crypto";
import { eventHead } from "../event-encoding.js";
import { type Blob, type Checkpoint, Family, type PendingWrite } from "../generated/fairlead/runner/v1/runner.js";
import type { OutgoingEvent } from "../outbox.js";

/** Who can read these bytes: LangGraph.js with its default serialiser. */
export const LINEAGE = "langgraph-js/json";
export const SCHEMA_VERSION = 4;
export const PART_BYTES = 1024 * 1024;

/** A channel's value as bytes, and the name that its content gives it. */
export interface ChannelBytes {
  readonly type: string;
  readonly digest: Buffer;
  readonly data: Buffer;
}

export function channelBytes(type: string, data: Uint8Array): ChannelBytes {
  const digest = createHash("sha256").update(data).digest();
  return { type, digest, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength) };
}

export function blobParts({ digest, data }: ChannelBytes): Blob[] {
  const parts = Math.max(1, Math.ceil(data.length / PART_BYTES));
  return Array.from({ length: parts }, (_, part) => {
    return { digest, part, parts, data: data.subarray(part * PART_BYTES, (part + 1) * PART_BYTES) };
  });
}

/** Puts the parts of blobs together again, by digest in hex. */
export function assembleBlobs(blobs: readonly Blob[]): Map<string, Buffer> {
  const parts = new Map<string, Buffer[]>();
  for (const { digest, part, data } of blobs) {
    const key = digest.toString("hex");
    const list = parts.get(key) ?? [];
    list[part] = data;
    parts.set(key, list);
  }
  return new Map([...parts].map(([key, list]) => [key, list.length === 1 ? list[0]! : Buffer.concat(list)]));
}

const plainHead = eventHead({ family: Family.FAMILY_CHECKPOINTS });

/** What is sent together: a checkpoint with its new blobs, or pending writes. */
export interface Cargo {
  readonly checkpoint?: Checkpoint | undefined;
  readonly blobs?: readonly Blob[];
  readonly writes?: readonly PendingWrite[];
}

/**
 * Events that carry a cargo, the last one with the given bodies. Large blobs go ahead in events of their own, so that no message holds more than
 * about 1 MiB.
 */
export function cargoEvents(
  cargo: Cargo,
  last: Pick<OutgoingEvent, "head" | "body" | "legacyBody"> = bare,
): OutgoingEvent[] {
  const events: OutgoingEvent[] = [];
  let blobs: Blob[] = [];
  let bytes = 0;
  for (const blob of cargo.blobs ?? []) {
    if (bytes > 0 && bytes + blob.data.length > PART_BYTES) {
      events.push({ ...bare, delta: false, blobs });
      blobs = [];
      bytes = 0;
    }
    blobs.push(blob);
    bytes += blob.data.length;
  }
  const checkpoints = cargo.checkpoint === undefined ? [] : [cargo.checkpoint];
  events.push({ ...last, delta: false, blobs, checkpoints, writes: cargo.writes ?? [] });
  return events;
}

const bare = { head: plainHead, body: "", legacyBody: "" };
