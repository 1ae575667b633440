import { hash } from "node:crypto";

/** A function that an agent calls only when the tenant's policy allows it. */
export interface Tool<Args = unknown, Result = unknown> {
  readonly name: string;
  readonly schemaDigest: Buffer;
  readonly call: (args: Args, signal: AbortSignal) => Result | Promise<Result>;
}

/** What comes back instead of a result: data for the model, no error. */
export interface ToolDenied {
  readonly denied: true;
  readonly message: string;
}

/**
 * Names a function as a tool. The schema is part of what it is known by: when it changes, an admin has to accept it. The function gets the arguments that
 * were judged, not the object that it was called with.
 */
export function tool<Args, Result>(
  name: string,
  schema: object,
  call: (args: Args, signal: AbortSignal) => Result | Promise<Result>,
): Tool<Args, Result> {
  if (!/^[A-Za-z0-9_.:/-]{1,128}$/.test(name))
    throw new TypeError(`tool: ${JSON.stringify(name)} is no name. Use 1 to 128 characters of A-Z a-z 0-9 _ . : / -`);
  return { name, schemaDigest: Buffer.from(hash("sha256", sorted(schema), "hex"), "hex"), call };
}

export function isDenied(result: unknown): result is ToolDenied {
  return typeof result === "object" && result !== null && (result as { denied?: unknown }).denied === true;
}

/** The same text for the same schema, in whatever order its members stand. */
function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined && typeof member !== "function")
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${sorted(member)}`).join(",")}}`;
}
