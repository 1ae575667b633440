import { DomainError } from "./errors.js";

// RFC 8785: one text for one value, so that whoever has the value can make the bytes that were hashed. Members stand in the order of their names'
// UTF-16 units, there is no white space, numbers are written as ECMAScript writes them, and text as it is, with the shortest escapes.

/** Refuses NaN, infinities, BigInt and objects that are more than their members: amounts are texts. Text that is no Unicode becomes what UTF-8 makes of it. */
export function canonicalJson(value: unknown): string {
  switch (typeof value) {
    case "string":
      return canonicalText(value);
    case "number":
      if (!Number.isFinite(value)) throw unfit(`the number ${value}`);
      return JSON.stringify(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      if (value === null) return "null";
      if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
      return canonicalObject(value);
    default:
      throw unfit(`a ${typeof value}`);
  }
}

function canonicalObject(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw unfit("an object of a class");
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => [wellFormed(name), member as unknown] as const)
    // By code unit, as JavaScript compares texts.
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  members.forEach(([name], at) => {
    if (at > 0 && members[at - 1]?.[0] === name) throw unfit(`two members "${name}"`);
  });
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(",")}}`;
}

export function canonicalText(text: string): string {
  return JSON.stringify(wellFormed(text));
}

function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

function unfit(what: string): DomainError {
  return new DomainError("INTERNAL", `Canonical JSON cannot hold ${what}.`);
}
