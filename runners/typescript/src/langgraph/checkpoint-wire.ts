import { hash } from "node:crypto";
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

export function channelBytes(type: string, data: Buffer): ChannelBytes {
  return { type, digest: digestOf(data), data };
}

/** Half of all channels hold `null`, `[]` and the like: markers of LangGraph's own. */
const SMALL_BYTES = 32;
const MAX_SMALL = 1_000;
const small = new Map<string, Buffer>();

function digestOf(data: Buffer): Buffer {
  if (data.length > SMALL_BYTES) return hash("sha256", data, "buffer");
  const text = data.toString("latin1");
  let digest = small.get(text);
  if (digest === undefined) {
    if (small.size >= MAX_SMALL) small.clear();
    digest = hash("sha256", data, "buffer");
    small.set(text, digest);
  }
  return digest;
}

export function blobParts({ digest, data }: ChannelBytes): Blob[] {
  if (data.length <= PART_BYTES) return [{ digest, part: 0, parts: 1, data }];
  const parts = Math.ceil(data.length / PART_BYTES);
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
  const { checkpoint, writes = [] } = cargo;
  const checkpoints = checkpoint === undefined ? [] : [checkpoint];
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
  events.push({ ...last, delta: false, blobs, checkpoints, writes });
  return events;
}

/** An event that only carries. */
export const bare = { head: plainHead, body: "", legacyBody: "" };
