import type { BaseCheckpointSaver } from "@langchain/langgraph";
import { isMessage, storedMessage } from "../message-json.js";

// LangGraph's serialiser looks for cycles before it writes, in a walk that costs more than the writing. This one writes at once, the same bytes,
// and leaves to LangGraph what only LangGraph can write: sets, maps, errors, bytes, sends, snapshots and cycles.

type Serializer = BaseCheckpointSaver["serde"];

const needsOriginal = new Error("This value has a form of its own in checkpoints.");

/** JSON text as LangGraph's serialiser writes it; undefined when only that one can. */
export function dumpsAtOnce(value: unknown): string | undefined {
  if (value instanceof Uint8Array) return undefined;
  try {
    if (Array.isArray(value) && value.length > 0 && value.every(isText)) {
      return `[${value.map((message) => storedMessage(message, replacer)).join(",")}]`;
    }
    return JSON.stringify(value, replacer);
  } catch {
    // A cycle, or one of the special forms.
    return undefined;
  }
}

export async function dumps(original: Serializer, value: unknown): Promise<[type: string, data: Buffer]> {
  const text = dumpsAtOnce(value);
  if (text !== undefined) return ["json", Buffer.from(text)];
  const [type, data] = await original.dumpsTyped(value);
  return [type, Buffer.from(data.buffer, data.byteOffset, data.byteLength)];
}

function isText(value: unknown): value is Parameters<typeof storedMessage>[0] {
  return (
    typeof value === "object" &&
    value !== null &&
    isMessage(value) &&
    typeof (value as { content?: unknown }).content === "string"
  );
}

function replacer(_key: string, value: unknown): unknown {
  if (value === undefined) return { lc: 2, type: "undefined" };
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw needsOriginal;
  if ((value as { lg_name?: unknown }).lg_name !== undefined) throw needsOriginal;
  return value;
}
