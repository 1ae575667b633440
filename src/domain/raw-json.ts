/** Finds where each top-level member's value stands in the text of a JSON object, so that client JSON is stored and forwarded byte for byte: numbers
 *  beyond 2^53, key order and spacing survive. The text must be valid JSON (it was parsed before); the last of equal keys wins, as in JSON.parse. */
export function topLevelSlices(text: string): Map<string, string> {
  const slices = new Map<string, string>();
  let at = skipSpace(text, 0) + 1;
  for (;;) {
    at = skipSpace(text, at);
    if (text[at] !== '"') return slices;
    const keyEnd = skipString(text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = skipValue(text, start);
    slices.set(key, text.slice(start, end));
    at = skipSpace(text, end);
    if (text[at] !== ",") return slices;
    at += 1;
  }
}

/** The elements of the text of a JSON array, each as it was written. */
export function elementSlices(text: string): string[] {
  const slices: string[] = [];
  let at = skipSpace(text, 0) + 1;
  for (;;) {
    at = skipSpace(text, at);
    if (at >= text.length || text[at] === "]") return slices;
    const end = skipValue(text, at);
    slices.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] !== ",") return slices;
    at += 1;
  }
}

/** The members of the text of a JSON object whose names are wanted, in the object's own order. */
export function pickMembers(text: string, names: ReadonlySet<string>): string {
  const members: string[] = [];
  for (const [name, value] of topLevelSlices(text)) {
    if (names.has(name)) members.push(`${JSON.stringify(name)}:${value}`);
  }
  return `{${members.join(",")}}`;
}

/** Are arrays and objects nested deeper than `levels`? Works on any text, also before it is known to be JSON. */
export function isDeeperThan(text: string, levels: number): boolean {
  if (text.length <= levels * 2) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const c = text.charCodeAt(at);
    if (c === 34) at = skipString(text, at) - 1;
    else if (c === 123 || c === 91) {
      if (++depth > levels) return true;
    } else if (c === 125 || c === 93) depth--;
  }
  return false;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const c = text.charCodeAt(at);
    if (c !== 32 && c !== 10 && c !== 13 && c !== 9) break;
  }
  return at;
}

function skipString(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === 92) slashes++;
    at = quote + 1;
    if (slashes % 2 === 0) return at;
  }
}

function skipValue(text: string, from: number): number {
  const first = text[from];
  if (first === '"') return skipString(text, from);
  if (first === "{" || first === "[") {
    let depth = 0;
    let at = from;
    while (at < text.length) {
      const c = text.charCodeAt(at);
      if (c === 34) {
        at = skipString(text, at);
        continue;
      }
      if (c === 123 || c === 91) depth++;
      if (c === 125 || c === 93) depth--;
      at++;
      if (depth === 0) return at;
    }
    return at;
  }
  let at = from;
  while (at < text.length) {
    const c = text.charCodeAt(at);
    if (c === 44 || c === 125 || c === 93 || c === 32 || c === 10 || c === 13 || c === 9) break;
    at++;
  }
  return at;
}
