import { RunnerError } from "./errors.js";

/**
 * JSON text on one line. LangChain messages become `{type, content, id, …}`, the form that clients of the Agent Protocol read, and not the
 * `{"lc": 1}` form of their own `toJSON`.
 */
export function toJson(value: unknown, what: string): string {
  const text = stringify(value, what);
  // The marker is looked for in the text because walking every value of every plain function costs more than this search.
  return text.includes('"lc":1') ? stringify(withMessageDicts(value), what) : text;
}

/** The same for values that usually hold messages: one walk instead of a wasted first attempt. */
export function messagesToJson(value: unknown, what: string): string {
  return stringify(withMessageDicts(value), what);
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

interface DictLike {
  toDict(): { type: string; data: Record<string, unknown> };
}

function hasToDict(value: object): value is DictLike {
  return typeof (value as Partial<DictLike>).toDict === "function";
}

/** A copy in which every message is a dict. Parts without messages are shared, not copied. */
export function withMessageDicts(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (hasToDict(value)) {
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
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
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
