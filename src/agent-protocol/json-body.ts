import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import { DomainError, invalidInput } from "../domain/errors.js";
import { isDeeperThan, topLevelSlices } from "../domain/raw-json.js";
import { whyNotText } from "../domain/text.js";

// Request bodies: the text as received, whose members are kept byte for byte, and what it says.

const maxDepth = 1_000;

export interface JsonBody {
  readonly text: string;
  readonly json: unknown;
}

/** The text of a body as JSON; an empty one counts as an empty object, because clients post without a body. */
export function parseJsonBody(text: string): JsonBody {
  if (isDeeperThan(text, maxDepth))
    throw new DomainError("INVALID_INPUT", `body: is nested deeper than ${maxDepth} levels; send it flatter`, {
      field: "body",
    });
  try {
    return text.trim() === "" ? { text: "{}", json: {} } : { text, json: JSON.parse(text) };
  } catch (error) {
    throw new DomainError("MALFORMED_JSON", `The body is not valid JSON: ${(error as Error).message}`);
  }
}

export function bodyOf(request: FastifyRequest): JsonBody {
  return (request.body as JsonBody | undefined) ?? { text: "{}", json: {} };
}

export interface ReadBody<Given> {
  readonly given: Given;
  /** A member as it was written; null when it is absent or null. */
  slice(name: string): string | null;
}

/** Checks a body against its schema. */
export function readBody<Schema extends z.ZodType>(request: FastifyRequest, schema: Schema): ReadBody<z.infer<Schema>> {
  const body = bodyOf(request);
  const given = parseWith(schema, body.json);
  let slices: Map<string, string> | undefined;
  return {
    given,
    slice: (name) => {
      slices ??= topLevelSlices(body.text);
      const value = slices.get(name);
      return value === undefined || value === "null" ? null : value;
    },
  };
}

/** What JSON says, by its schema. Every string that the schema names is text; what the schema leaves open is kept as bytes and may be anything. */
export function parseWith<Schema extends z.ZodType>(schema: Schema, json: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(json);
  if (!parsed.success) throw fromZod(parsed.error);
  checkTexts(schema, parsed.data, "");
  return parsed.data;
}

function checkTexts(schema: z.core.$ZodType, value: unknown, field: string): void {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (value === undefined || value === null) return;
  if (def.type === "string" && typeof value === "string") checkText(field, value);
  else if (def.type === "optional" || def.type === "nullable") checkTexts(def.innerType, value, field);
  else if (def.type === "union") for (const option of def.options) checkTexts(option, value, field);
  else if (def.type === "array" && Array.isArray(value)) for (const one of value) checkTexts(def.element, one, field);
  else if (def.type === "object" && typeof value === "object")
    for (const [name, member] of Object.entries(def.shape))
      checkTexts(member, (value as Record<string, unknown>)[name], field === "" ? name : `${field}.${name}`);
}

function fromZod(error: z.ZodError): DomainError {
  const issue = error.issues[0];
  const field = issue && issue.path.length > 0 ? issue.path.join(".") : "body";
  return invalidInput(field, (issue?.message ?? "is not valid").slice(0, 500));
}

const maxSearchedBytes = 256 * 1024;

/** JSON that the database searches later: what it could not read there is refused here. */
export function storableJson(field: string, text: string): string {
  if (text.length > maxSearchedBytes) throw invalidInput(field, `is larger than ${maxSearchedBytes} characters`);
  const bare = text.replace(/"(?:[^"\\]|\\.)*"/g, (string) => {
    checkText(field, JSON.parse(string) as string);
    return '""';
  });
  if (/[eE][+-]?\d{4}|\d{1000}/.test(bare))
    throw invalidInput(field, "contains a number with too many digits; send it as a string");
  return text;
}

/** Text that travels to the database. */
export function checkText(field: string, text: string): string {
  const reason = whyNotText(text);
  if (reason !== null) throw invalidInput(field, reason);
  return text;
}
