import { canonicalJson } from "./canonical-json.js";

// Arguments are judged by one program and used by another. Whatever two parsers could read differently (a name twice, digits that a double loses, a half of
// a surrogate pair) is refused, so that both see the same; what is judged is the canonical text, and that text is what the tool gets.

export const argumentBytesMax = 262_144;
const depthMax = 32;
const poison = new Set(["__proto__", "constructor", "prototype"]);

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

export type StrictArguments =
  | { readonly ok: true; readonly value: JsonObject; readonly canonical: string }
  | { readonly ok: false; readonly complaint: string };

class Complaint extends Error {}

/** Reads the arguments of a tool call; what is wrong with them is a sentence. */
export function readArguments(bytes: Uint8Array): StrictArguments {
  if (bytes.length > argumentBytesMax) return refused(`larger than ${argumentBytesMax} bytes`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value = readWhole(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return refused("not an object");
    return { ok: true, value, canonical: canonicalJson(value) };
  } catch (error) {
    if (error instanceof Complaint) return refused(error.message);
    // The decoder's own error.
    if (error instanceof TypeError) return refused("not UTF-8");
    throw error;
  }
}

function refused(complaint: string): StrictArguments {
  return { ok: false, complaint };
}

function readWhole(text: string): JsonValue {
  const end = { at: 0 };
  const value = readValue(text, end, 1);
  skipSpace(text, end);
  if (end.at < text.length) throw new Complaint("more than one JSON value");
  return value;
}

interface Cursor {
  at: number;
}

function skipSpace(text: string, cursor: Cursor): void {
  while (/[ \n\r\t]/.test(text[cursor.at] ?? "")) cursor.at++;
}

function readValue(text: string, cursor: Cursor, depth: number): JsonValue {
  if (depth > depthMax) throw new Complaint(`nested deeper than ${depthMax} levels`);
  skipSpace(text, cursor);
  const first = text[cursor.at];
  if (first === "{") return readObject(text, cursor, depth);
  if (first === "[") return readArray(text, cursor, depth);
  if (first === '"') return readText(text, cursor);
  for (const [word, value] of [
    ["true", true],
    ["false", false],
    ["null", null],
  ] as const) {
    if (text.startsWith(word, cursor.at)) {
      cursor.at += word.length;
      return value;
    }
  }
  return readNumber(text, cursor);
}

function readObject(text: string, cursor: Cursor, depth: number): JsonObject {
  const object: JsonObject = Object.create(null) as JsonObject;
  cursor.at++;
  skipSpace(text, cursor);
  if (text[cursor.at] === "}") {
    cursor.at++;
    return object;
  }
  for (;;) {
    skipSpace(text, cursor);
    if (text[cursor.at] !== '"') throw new Complaint("not JSON");
    const name = readText(text, cursor);
    if (poison.has(name)) throw new Complaint(`the name "${name}"`);
    if (Object.hasOwn(object, name)) throw new Complaint(`the name ${JSON.stringify(name)} twice`);
    skipSpace(text, cursor);
    if (text[cursor.at++] !== ":") throw new Complaint("not JSON");
    object[name] = readValue(text, cursor, depth + 1);
    skipSpace(text, cursor);
    const next = text[cursor.at++];
    if (next === "}") return object;
    if (next !== ",") throw new Complaint("not JSON");
  }
}

function readArray(text: string, cursor: Cursor, depth: number): JsonValue[] {
  const array: JsonValue[] = [];
  cursor.at++;
  skipSpace(text, cursor);
  if (text[cursor.at] === "]") {
    cursor.at++;
    return array;
  }
  for (;;) {
    array.push(readValue(text, cursor, depth + 1));
    skipSpace(text, cursor);
    const next = text[cursor.at++];
    if (next === "]") return array;
    if (next !== ",") throw new Complaint("not JSON");
  }
}

function readText(text: string, cursor: Cursor): string {
  const from = cursor.at;
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  cursor.at = at + 1;
  let value: string;
  try {
    value = JSON.parse(text.slice(from, at + 1)) as string;
  } catch {
    throw new Complaint("not JSON");
  }
  if (/\p{Surrogate}/u.test(value)) throw new Complaint("text with half a character");
  return value;
}

const numberPattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

function readNumber(text: string, cursor: Cursor): number {
  numberPattern.lastIndex = cursor.at;
  const token = numberPattern.exec(text)?.[0];
  if (token === undefined) throw new Complaint("not JSON");
  cursor.at += token.length;
  const value = Number(token);
  const digits = token
    .replace(/[eE].*$/, "")
    .replace(/^-/, "")
    .replace(".", "")
    .replace(/^0+/, "");
  // Below 16 significant digits a double keeps what was written; whole numbers are kept up to 2^53.
  const isKept = Number.isSafeInteger(value) || digits.replace(/0+$/, "").length <= 15;
  const vanished = value === 0 && digits !== "";
  if (!Number.isFinite(value) || vanished || !isKept || Math.abs(value) > Number.MAX_SAFE_INTEGER)
    throw new Complaint(`the number ${token.slice(0, 40)}, which loses digits: send it as text`);
  return value;
}
