import { GraphQLError } from "graphql";
import { DomainError, errorTable } from "../domain/errors.js";
import type { OnceKey } from "../governance/create-once.js";
import type { Log } from "../platform/log.js";
import { classifyFailure } from "../store/client.js";
import { builder } from "./builder.js";
import type { GraphqlContext } from "./context.js";

/** Why a mutation did nothing. */
export interface UserError {
  readonly code: string;
  readonly field: readonly string[] | null;
  readonly message: string;
}

export const ErrorCodeEnum = builder.enumType("ErrorCode", {
  description: "What went wrong, for programs.",
  values: Object.fromEntries(Object.entries(errorTable).map(([code, { title }]) => [code, { description: title }])),
});

export const UserErrorRef = builder.objectRef<UserError>("UserError").implement({
  description: "Why a mutation did nothing.",
  fields: (t) => ({
    code: t.field({ type: ErrorCodeEnum, resolve: (error) => error.code }),
    field: t.stringList({
      nullable: true,
      description: "Path of the input field at fault.",
      resolve: (error) => (error.field ? [...error.field] : null),
    }),
    message: t.string({
      description: "The field, the reason, and what to do.",
      resolve: (error) => error.message,
    }),
  }),
});

/** A create's idempotency key with the input that it stands for, or null when none was sent. */
export function onceOf(key: string | null | undefined, input: OnceKey["input"]): OnceKey | null {
  return key === null || key === undefined ? null : { key, input };
}

/** Codes that are the caller's to correct; all others are top-level errors. */
const callersFault = new Set([
  "INVALID_INPUT",
  "NOT_FOUND",
  "RUN_NOT_FOUND",
  "FORBIDDEN",
  "CREDENTIAL_ENDED",
  "ROTATION_OPEN",
  "IDEMPOTENCY_MISMATCH",
  "VERSION_CONFLICT",
  "MEMBER_EXISTS",
  "LAST_OWNER",
  "HALTED",
  "BUDGET_EXCEEDED",
  "SECRET_EXISTS",
]);

/** The outcome of a verb, or what the caller did wrong. The payload is read after the act, in a transaction that sees it. */
export async function outcomeOf<Result extends object>(
  context: Pick<GraphqlContext, "operation" | "plane" | "scope">,
  act: () => Promise<Result>,
): Promise<{ readonly done: Result | null; readonly userErrors: UserError[] }> {
  await context.operation.close();
  try {
    return { done: await act(), userErrors: [] };
  } catch (error) {
    if (!(error instanceof DomainError) || !callersFault.has(error.code)) throw error;
    if (error.code === "FORBIDDEN") context.plane.denials.note(context.scope, "GraphQL mutation", error.message);
    const field = typeof error.facts["field"] === "string" ? [error.facts["field"]] : null;
    return { done: null, userErrors: [{ code: error.code, field, message: error.message }] };
  }
}

/** What a client sees of an error: ours with code and field, the query's own as they are, everything else masked and logged. */
export function toPublicError(error: unknown, log: Log): GraphQLError {
  const cause = rootOf(error);
  if (cause instanceof DomainError) return publicError(cause, error);
  if (error instanceof GraphQLError && cause instanceof GraphQLError) {
    // A body that is no JSON stands there, whole.
    const { code, http, originalError: _body, ...rest } = error.extensions;
    const known = typeof code === "string" && code in errorTable ? code : "INVALID_INPUT";
    return rebuilt(withoutValues(error), error, { ...rest, code: known, ...(http ? { http } : {}) });
  }
  const away = classifyFailure(cause) === "unknown" && typeof (cause as { code?: unknown } | null)?.code === "string";
  log.error({ err: cause as Error }, "a GraphQL field failed");
  return publicError(new DomainError(away ? "UNAVAILABLE" : "INTERNAL"), error);
}

/** Errors of a request quote what was sent. Where that may be a secret's value, only what names a field is kept. */
export function hideValues(error: GraphQLError): GraphQLError {
  const message = withoutValues(error);
  return message === error.message ? error : rebuilt(message, error, { code: "INVALID_INPUT" });
}

function withoutValues({ message, path, source, nodes }: GraphQLError): string {
  const text = source?.body ?? nodes?.[0]?.loc?.source.body ?? "";
  if (path || !/secret(Create|PutVersion)/.test(text)) return message;
  const named = /Field "\w+" (?:of required type "[\w![\]]+" was not provided|is not defined by type "\w+")[.]$/.exec(
    message,
  );
  return named?.[0] ?? "The request is not valid where it gives a secret; check it against the schema.";
}

function publicError(error: DomainError, seen: unknown): GraphQLError {
  const { field } = error.facts;
  return rebuilt(error.message, seen, {
    code: error.code,
    ...(typeof field === "string" ? { field } : {}),
    // Of the whole request; a subscription that ends has a path.
    ...(error.code === "UNAUTHENTICATED" && !(seen instanceof GraphQLError && seen.path)
      ? { http: { status: 401 } }
      : {}),
  });
}

function rebuilt(message: string, seen: unknown, extensions: Record<string, unknown>): GraphQLError {
  if (!(seen instanceof GraphQLError)) return new GraphQLError(message, { extensions });
  const { nodes, source, positions, path } = seen;
  return new GraphQLError(message, {
    nodes: nodes ?? null,
    source: source ?? null,
    positions: positions ?? null,
    path: path ?? null,
    extensions,
  });
}

function rootOf(error: unknown): unknown {
  let root = error;
  while (root instanceof GraphQLError && root.originalError) root = root.originalError;
  return root;
}
