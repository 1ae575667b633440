import type { FastifyInstance } from "fastify";
import { DomainError, type ErrorCode, errorTable } from "../domain/errors.js";
import type { Authenticator } from "../governance/authenticate.js";
import type { GraphqlDeps } from "./context.js";
import { graphqlLimits } from "./limits.js";
import { serveWebSockets } from "./websocket.js";
import { callerOf, createGraphqlYoga } from "./yoga.js";

/** GraphQL on the one port: requests and SSE at /graphql, graphql-ws at the same path. Returns how to end what is open. */
export async function registerGraphql(
  app: FastifyInstance,
  deps: GraphqlDeps,
  authenticator: Authenticator,
): Promise<() => Promise<void>> {
  const yoga = createGraphqlYoga(deps, authenticator);
  await app.register(async (scoped) => {
    scoped.removeAllContentTypeParsers();
    // Yoga reads the text: it refuses what is not JSON, and arrays, in the words of GraphQL over HTTP.
    scoped.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => done(null, body));
    // Before anything is parsed: to a stranger the schema says nothing, not even by its complaints.
    scoped.addHook("onRequest", async ({ method, headers }) => {
      if (method !== "OPTIONS") await callerOf({ headers, transport: "http" }, deps.site, authenticator);
    });
    scoped.setErrorHandler((error, _request, reply) => {
      const code = error instanceof DomainError ? error.code : codeOf(error);
      const known = error instanceof DomainError ? error : new DomainError(code, messageOf(code));
      if (code === "INTERNAL") deps.plane.log.error({ err: error }, "a GraphQL request failed");
      reply
        .status(errorTable[code].http)
        .type("application/json")
        .send(JSON.stringify({ errors: [{ message: known.message, extensions: { code } }] }));
    });
    scoped.route({
      url: "/graphql",
      method: ["GET", "POST"],
      bodyLimit: graphqlLimits.bodyBytes,
      handler: async (request, reply) => {
        const response = await yoga.handleNodeRequestAndResponse(request, reply, {
          caller: { headers: request.headers, transport: "http" },
        });
        for (const [name, value] of response.headers) reply.header(name, value);
        reply.status(response.status);
        return reply.send(response.body);
      },
    });
  });
  const sockets = serveWebSockets(app.server, yoga, deps.plane.log);
  return sockets.stop;
}

function messageOf(code: ErrorCode): string | undefined {
  return code === "BODY_TOO_LARGE" ? `The body is larger than ${graphqlLimits.bodyBytes} bytes.` : undefined;
}

function codeOf(error: unknown): ErrorCode {
  const { statusCode, code } = error as { statusCode?: number; code?: string };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE" || statusCode === 413) return "BODY_TOO_LARGE";
  return statusCode !== undefined && statusCode >= 400 && statusCode < 500 ? "INVALID_INPUT" : "INTERNAL";
}
