import { type FastifyInstance, fastify } from "fastify";
import { refuseConnection, refuseRequest } from "./agent-protocol/errors.js";
import { registerAgentProtocol } from "./agent-protocol/server.js";
import type { SseStreams } from "./agent-protocol/sse.js";
import type { Authenticator } from "./governance/authenticate.js";
import type { Config } from "./platform/config.js";
import type { JobQueues } from "./platform/job-queue.js";
import { registry } from "./platform/metrics.js";
import { createOidcProvider } from "./platform/oidc.js";
import { uuidv7 } from "./platform/random.js";
import type { Plane } from "./runs/plane.js";
import type { GraphqlDeps } from "./schema/context.js";
import { registerGraphql } from "./schema/server.js";
import { registerSignIn } from "./sign-in/server.js";
import { pingStores } from "./store/ping.js";

export interface HttpServer {
  readonly name: string;
  readonly url: string;
  readonly app: FastifyInstance;
  stop(): Promise<void>;
}

/** One listener for clients: Agent Protocol, GraphQL, health, metrics. */
export async function startHttp(
  config: Config,
  plane: Plane,
  authenticator: Authenticator,
  streams: SseStreams,
  queues: JobQueues | null,
  graphql: GraphqlDeps,
): Promise<HttpServer> {
  const app = fastify({
    bodyLimit: config.limits.bodyBytes,
    genReqId: () => uuidv7(),
    requestIdHeader: "x-request-id",
    logger: false,
    forceCloseConnections: true,
    keepAliveTimeout: 72_000,
    // A HEAD request must not open an event stream.
    exposeHeadRoutes: false,
    clientErrorHandler: refuseConnection,
    frameworkErrors: refuseRequest,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 300 },
  });
  // Before the Agent Protocol, whose list of routes is its own; its hooks hold for all.
  const stopGraphql = await registerGraphql(app, graphql, authenticator);
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret } = config;
  await registerSignIn(app, {
    ...{ office: graphql.office, site: graphql.site, authenticator, log: plane.log },
    provider: issuer && clientId ? createOidcProvider({ issuer, clientId, clientSecret }) : null,
    sessionMs: config.limits.sessionMs,
  });
  await registerAgentProtocol(app, plane, authenticator, streams, config.corsOrigins);

  app.get("/livez", (_request, reply) => reply.send({ ok: true }));
  app.get("/readyz", async (_request, reply) => {
    const postgres = await pingStores(plane.stores);
    const queue = queues ? await queues.isHealthy() : true;
    return reply.status(postgres && queue ? 200 : 503).send({ ok: postgres && queue, postgres, queue });
  });
  app.get("/metrics", async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));

  await app.listen({ host: config.host, port: config.port });
  const address = app.server.address();
  const port = typeof address === "object" && address ? address.port : config.port;
  graphql.site.origin ||= `http://${config.host}:${port}`;
  return {
    name: "http",
    url: `http://${config.host}:${port}`,
    app,
    stop: async () => {
      await stopGraphql();
      await app.close();
    },
  };
}
