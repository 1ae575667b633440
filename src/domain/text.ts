import { invalidInput } from "./errors.js";

// Text columns hold neither U+0000 nor halves of surrogate pairs, so whoever sends them is told so by name instead of being failed by the database.

/** Why a text cannot be stored, or null. */
export function whyNotText(text: string): string | null {
  if (text.includes("\u0000")) return "contains U+0000, which cannot be stored here; remove it";
  if (/\p{Surrogate}/u.test(text)) return "contains half of a surrogate pair; send valid Unicode";
  return null;
}

/** What people call a thing: a key, a token, an account. */
export function demandName(name: string): void {
  if (name.trim().length < 1 || name.length > 200) throw invalidInput("name", "1 to 200 characters");
}

export interface BadText {
  /** Names of members, joined by dots; elements of a list have the list's. */
  readonly path: string;
  readonly reason: string;
}

/** The first text in a value, names of members included, that cannot be stored. Bytes are no text. */
export function findBadText(value: unknown, path: string): BadText | null {
  if (typeof value === "string") {
    const reason = whyNotText(value);
    return reason === null ? null : { path, reason };
  }
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return null;
  if (Array.isArray(value)) {
    for (const element of value) {
      const bad = findBadText(element, path);
      if (bad) return bad;
    }
    return null;
  }
  for (const [name, member] of Object.entries(value)) {
    const reason = whyNotText(name);
    if (reason !== null) return { path, reason };
    const bad = findBadText(member, path === "" ? name : `${path}.${name}`);
    if (bad) return bad;
  }
  return null;
}
