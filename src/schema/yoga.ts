import type { IncomingHttpHeaders } from "node:http";
import { createYoga, type Plugin } from "graphql-yoga";
import { DomainError } from "../domain/errors.js";
import type { Authenticator } from "../governance/authenticate.js";
import type { GraphqlContext, GraphqlDeps } from "./context.js";
import { toPublicError } from "./errors.js";
import { graphqlSchema } from "./index.js";
import { executionLimits, shapeLimits } from "./limits.js";

/** What a transport knows of a caller. */
export interface Caller {
  readonly headers: IncomingHttpHeaders;
  /** The key of a WebSocket connection, where browsers cannot set headers. */
  readonly apiKey?: unknown;
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
      const credential = credentialOf(caller);
      const scope = await authenticator.client(credential);
      return { ...deps, scope, credential, operation: deps.reads.open(scope) };
    },
    maskedErrors: { maskError: (error) => toPublicError(error, log) },
    plugins: [shapeLimits, executionLimits, endTransaction] as Plugin<GraphqlContext>[],
  });
}

/** An operation's transaction ends with it, whatever its outcome. A subscription opens none. */
const endTransaction: Plugin<GraphqlContext> = {
  onExecute: ({ args }) => ({
    onExecuteDone: async () => {
      await (args.contextValue as GraphqlContext).operation.close().catch(() => {});
    },
  }),
};

export function credentialOf({ headers, apiKey }: Caller): string {
  if (typeof apiKey === "string" && apiKey !== "") return apiKey;
  const key = headers["x-api-key"];
  if (typeof key === "string" && key !== "") return key;
  const match = /^bearer +(\S+)$/i.exec(headers.authorization ?? "");
  if (match) return match[1] as string;
  throw new DomainError("UNAUTHENTICATED", "Send an API key as x-api-key, or as Authorization: Bearer.");
}
