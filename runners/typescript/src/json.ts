import { RunnerError } from "./errors.js";
import { isMessage, messageDict } from "./message-json.js";

/**
 * JSON text on one line. LangChain messages become `{type, content, id, …}`, the form that clients of the Agent Protocol read, and not the
 * `{"lc": 1}` form of their own `toJSON`.
 */
export function toJson(value: unknown, what: string): string {
  const text = stringify(value, what);
  // The marker is looked for in the text because walking every value of every plain function costs more than this search.
  return text.includes('"lc":1') ? stringify(withMessageDicts(value), what) : text;
}

/**
 * The same for values that usually hold messages. Plain parts are left to JSON.stringify; text messages that were written before are not written
 * again, because a state of many messages is written with every step.
 */
export function messagesToJson(value: unknown, what: string): string {
  return holdsMessages(value, 0) ? write(value, what) : stringify(value, what);
}

function write(value: unknown, what: string): string {
  if (typeof value !== "object" || value === null || !holdsMessages(value, 0)) return stringify(value ?? null, what);
  if (isMessage(value)) return messageDict(value, (dict) => stringify(withMessageDicts(dict), what));
  if (Array.isArray(value)) return `[${value.map((item) => write(item, what)).join(",")}]`;
  const parts: string[] = [];
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined && typeof item !== "function") parts.push(`${JSON.stringify(key)}:${write(item, what)}`);
  }
  return `{${parts.join(",")}}`;
}

/** Cycles end the search; JSON.stringify says what is wrong with them. */
const MAX_DEPTH = 64;

function holdsMessages(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return false;
  if (isMessage(value)) return true;
  if (Array.isArray(value)) return value.some((item) => holdsMessages(item, depth + 1));
  if (!isPlain(value)) return false;
  for (const key in value) {
    if (holdsMessages((value as Record<string, unknown>)[key], depth + 1)) return true;
  }
  return false;
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function stringify(value: unknown, what: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new RunnerError(
      "not_json",
      `${what} cannot be written as JSON: ${reason}. Pass plain data (no BigInt, no cycles).`,
    );
  }
  if (text === undefined) {
    throw new RunnerError(
      "not_json",
      `${what} cannot be written as JSON: it is ${typeof value}. Pass plain data, or null.`,
    );
  }
  return text;
}

/** A copy in which every message is a dict. Parts without messages are shared, not copied. */
export function withMessageDicts(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (isMessage(value)) {
    const { type, data } = value.toDict();
    return withMessageDicts({ ...data, type });
  }
  if (Array.isArray(value)) {
    let copy: unknown[] | undefined;
    for (let i = 0; i < value.length; i += 1) {
      const item = withMessageDicts(value[i]);
      if (item !== value[i] && copy === undefined) copy = value.slice(0, i);
      if (copy !== undefined) copy[i] = item;
    }
    return copy ?? value;
  }
  if (!isPlain(value)) return value;
  let copy: Record<string, unknown> | undefined;
  for (const key of Object.keys(value)) {
    const before = (value as Record<string, unknown>)[key];
    const after = withMessageDicts(before);
    if (after !== before) {
      copy ??= { ...(value as Record<string, unknown>) };
      copy[key] = after;
    }
  }
  return copy ?? value;
}

/** Reads JSON text from the wire; empty bytes mean that the field is absent. */
export function fromJson(bytes: Uint8Array, what: string): unknown {
  if (bytes.length === 0) return undefined;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    throw new RunnerError(
      "unsupported",
      `The plane sent a ${what} that is not JSON. This is a fault of the plane: report it.`,
    );
  }
}
