// Reads the serialized EventList of the Runner Protocol without decoding it: offsets into the received bytes, which are stored and forwarded as they
// are. Field numbers as in proto/fairlead/runner/v1/runner.proto; unknown fields are skipped.

/** Families, by their number on the wire. */
export const eventFamilies = [
  "unspecified",
  "lifecycle",
  "values",
  "updates",
  "messages",
  "tools",
  "steps",
  "checkpoints",
  "input",
  "custom",
  "tasks",
  "debug",
  "error",
  "control",
] as const;
export type EventFamily = (typeof eventFamilies)[number];
export const controlFamily = eventFamilies.indexOf("control");

export interface EventView {
  family: number;
  mode: string;
  name: string;
  namespace: string[];
  node: string;
  /** Byte range of the body in the thread stream's grammar; empty when start = end. */
  bodyStart: number;
  bodyEnd: number;
  /** Byte range of the legacy body; empty means that `body` serves for both. */
  legacyStart: number;
  legacyEnd: number;
  timeMs: number;
}

const decoder = new TextDecoder();

class MalformedEvents extends Error {
  override readonly name = "MalformedEvents";
}

/** Calls `visit` for each event in order; the view is reused between calls. Returns their number. Throws on bytes that are not an EventList. */
export function walkEvents(bytes: Uint8Array, visit: (event: EventView) => void): number {
  let at = 0;
  let count = 0;
  const view: EventView = {
    family: 0,
    mode: "",
    name: "",
    namespace: [],
    node: "",
    bodyStart: 0,
    bodyEnd: 0,
    legacyStart: 0,
    legacyEnd: 0,
    timeMs: 0,
  };

  const varint = (): number => {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 10; i++) {
      const byte = bytes[at++];
      if (byte === undefined) throw new MalformedEvents("an event ends in the middle of a number");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw new MalformedEvents("a number has more than ten bytes");
  };
  const skip = (wireType: number): void => {
    if (wireType === 0) varint();
    else if (wireType === 1) at += 8;
    else if (wireType === 2) {
      const length = varint();
      at += length;
    } else if (wireType === 5) at += 4;
    else throw new MalformedEvents(`wire type ${wireType} is unknown`);
  };

  while (at < bytes.length) {
    const tag = varint();
    if (tag !== 10) {
      skip(tag & 7);
      if (at > bytes.length) throw new MalformedEvents("a field is longer than its message");
      continue;
    }
    const length = varint();
    const end = at + length;
    if (end > bytes.length) throw new MalformedEvents("an event is longer than its list");
    view.family = 0;
    view.mode = view.name = view.node = "";
    view.namespace = [];
    view.bodyStart = view.bodyEnd = view.legacyStart = view.legacyEnd = view.timeMs = 0;
    while (at < end) {
      const field = varint();
      const number = field >>> 3;
      if (number === 1 && (field & 7) === 0) view.family = varint();
      else if (number === 8 && (field & 7) === 0) view.timeMs = varint();
      else if ((field & 7) === 2) {
        const size = varint();
        const start = at;
        at += size;
        if (at > end) throw new MalformedEvents("a field is longer than its event");
        if (number === 2) view.mode = shortText(bytes, start, at);
        else if (number === 3) view.name = shortText(bytes, start, at);
        else if (number === 4) view.namespace.push(decoder.decode(bytes.subarray(start, at)));
        else if (number === 5) view.node = decoder.decode(bytes.subarray(start, at));
        else if (number === 6) {
          view.bodyStart = start;
          view.bodyEnd = at;
        } else if (number === 7) {
          view.legacyStart = start;
          view.legacyEnd = at;
        }
      } else skip(field & 7);
    }
    if (at !== end) throw new MalformedEvents("a field is longer than its event");
    visit(view);
    count++;
  }
  if (at !== bytes.length) throw new MalformedEvents("a field is longer than its message");
  return count;
}

/** Mode and event names are a few ASCII words: cheaper by hand than through a decoder. */
function shortText(bytes: Uint8Array, start: number, end: number): string {
  if (end - start > 32) return decoder.decode(bytes.subarray(start, end));
  let text = "";
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte > 127) return decoder.decode(bytes.subarray(start, end));
    text += String.fromCharCode(byte);
  }
  return text;
}
