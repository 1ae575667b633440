import type { IncomingHttpHeaders } from "node:http";
import { type ExecutionResult, GraphQLError } from "graphql";
import { createYoga, type Plugin } from "graphql-yoga";
import { DomainError } from "../domain/errors.js";
import type { Authenticator } from "../governance/authenticate.js";
import { type Site, sessionOf } from "../governance/session-cookie.js";
import type { GraphqlContext, GraphqlDeps } from "./context.js";
import { hideValues, toPublicError } from "./errors.js";
import { graphqlSchema } from "./index.js";
import { executionLimits, shapeLimits } from "./limits.js";

/** What a transport knows of a caller. */
export interface Caller {
  readonly headers: IncomingHttpHeaders;
  /** The key of a WebSocket connection, where browsers cannot set headers. */
  readonly apiKey?: unknown;
  readonly transport: "http" | "websocket";
}

export type GraphqlYoga = ReturnType<typeof createGraphqlYoga>;

export function createGraphqlYoga(deps: GraphqlDeps, authenticator: Authenticator) {
  const { log } = deps.plane;
  return createYoga<{ caller: Caller }, GraphqlContext>({
    schema: graphqlSchema,
    graphqlEndpoint: "/graphql",
    graphiql: false,
    landingPage: false,
    cors: false,
    multipart: false,
    batching: false,
    logging: false,
    context: async ({ caller }) => {
      const { scope, credential } = await callerOf(caller, deps.site, authenticator);
      return { ...deps, scope, credential, operation: deps.reads.open(scope) };
    },
    maskedErrors: { maskError: (error) => toPublicError(error, log) },
    plugins: [hideSentValues, shapeLimits, executionLimits, recordDenials, endTransaction] as Plugin<GraphqlContext>[],
  });
}

/** What does not fit is refused before a field runs, as text, by the schema and as variables, each time with errors that quote it. */
const hideSentValues: Plugin<GraphqlContext> = {
  onParse:
    () =>
    ({ result, replaceParseResult }) => {
      if (result instanceof GraphQLError) replaceParseResult(hideValues(result));
    },
  onValidate:
    () =>
    ({ result, setResult }) => {
      if (result.length > 0) setResult((result as readonly GraphQLError[]).map(hideValues));
    },
  onExecute: () => ({
    onExecuteDone: ({ result, setResult }) => {
      const { errors, ...rest } = result as ExecutionResult;
      if (errors) setResult({ ...rest, errors: errors.map(hideValues) });
    },
  }),
};

/** What a caller was not allowed to do is recorded, field by field. */
const recordDenials: Plugin<GraphqlContext> = {
  onExecute: ({ args }) => ({
    onExecuteDone: ({ result }) => {
      const { plane, scope } = args.contextValue as GraphqlContext;
      for (const error of (result as ExecutionResult).errors ?? []) {
        const isDenied = error.extensions["code"] === "FORBIDDEN" || isForbidden(error.originalError);
        if (isDenied) plane.denials.note(scope, `GraphQL ${fieldOf(error.path)}`, error.message);
      }
    },
  }),
};

function isForbidden(error: unknown): boolean {
  return error instanceof GraphQLError
    ? isForbidden(error.originalError)
    : error instanceof DomainError && error.code === "FORBIDDEN";
}

/** Names alone: where in a list it was does not matter. */
function fieldOf(path: readonly (string | number)[] | undefined): string {
  return path?.filter((part) => typeof part === "string").join(".") || "query";
}

/** An operation's transaction ends with it, whatever its outcome. A subscription opens none. */
const endTransaction: Plugin<GraphqlContext> = {
  onExecute: ({ args }) => ({
    onExecuteDone: async () => {
      await (args.contextValue as GraphqlContext).operation.close().catch(() => {});
    },
  }),
};

/** A key that was sent on purpose comes before the cookie that browsers send by themselves. */
export async function callerOf(
  { headers, apiKey, transport }: Caller,
  site: Site,
  authenticator: Authenticator,
): Promise<Pick<GraphqlContext, "scope" | "credential">> {
  const key = keyOf(headers, apiKey);
  if (key !== null) {
    const scope = await authenticator.client(key);
    if (scope.agents)
      throw new DomainError("UNAUTHENTICATED", "This API key is for some agents; use the Agent Protocol.");
    return { scope, credential: key };
  }
  const session = sessionOf(headers, site, transport);
  if (session === null)
    throw new DomainError("UNAUTHENTICATED", "Send an API key as x-api-key, or as Authorization: Bearer.");
  return { scope: await authenticator.session(session), credential: session };
}

function keyOf(headers: IncomingHttpHeaders, apiKey: unknown): string | null {
  if (typeof apiKey === "string" && apiKey !== "") return apiKey;
  const key = headers["x-api-key"];
  if (typeof key === "string" && key !== "") return key;
  return headers.authorization === undefined ? null : (/^bearer +(\S+)$/i.exec(headers.authorization)?.[1] ?? "");
}
