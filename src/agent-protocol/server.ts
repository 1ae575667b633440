import cors from "@fastify/cors";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { DomainError } from "../domain/errors.js";
import { demand } from "../domain/permissions.js";
import type { Scope } from "../domain/scope.js";
import type { Authenticator } from "../governance/authenticate.js";
import type { Plane } from "../runs/plane.js";
import { assistantRoutes } from "./assistants.js";
import { cancelRunsRoute } from "./cancel-runs.js";
import { toErrorResponse } from "./errors.js";
import { credentialOf, type FrontDoor } from "./front-door.js";
import { infoRoutes } from "./info.js";
import { type JsonBody, parseJsonBody } from "./json-body.js";
import { runRoutes } from "./runs.js";
import { hideOtherAgents } from "./selected-agents.js";
import type { SseStreams } from "./sse.js";
import { threadStateRoutes } from "./thread-state.js";
import { threadRoutes } from "./threads.js";

export interface RegisteredRoute {
  readonly method: string;
  readonly url: string;
}

declare module "fastify" {
  interface FastifyInstance {
    /** Every route: what tests that go through all of them go by. */
    routeTable: readonly RegisteredRoute[];
  }
}

const exposedHeaders = [
  "content-location",
  "location",
  "x-pagination-next",
  "x-pagination-total",
  "x-request-id",
  "retry-after",
];
const openRoutes = ["/ok", "/info", "/livez", "/readyz", "/metrics"];
// They know their callers by themselves: there a browser's session counts too.
const othersRoutes = ["/graphql", "/auth/login", "/auth/callback", "/auth/logout"];
const withoutKey = new Set([...openRoutes, ...othersRoutes]);

/** The Agent Protocol on a fastify instance: body parsing, CORS, authentication, errors, routes. */
export async function registerAgentProtocol(
  app: FastifyInstance,
  plane: Plane,
  authenticator: Authenticator,
  streams: SseStreams,
  origins: readonly string[],
): Promise<void> {
  const scopes = new WeakMap<FastifyRequest, Scope>();

  await app.register(cors, {
    origin: origins.includes("*") ? true : [...origins],
    methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    exposedHeaders,
    maxAge: 600,
  });

  const routes: RegisteredRoute[] = [];
  app.decorate("routeTable", routes);
  app.addHook("onRoute", ({ method, url }) => {
    for (const one of [method].flat()) routes.push({ method: one, url });
  });

  app.removeAllContentTypeParsers();
  const parse = (
    _request: FastifyRequest,
    text: string,
    done: (error: Error | null, body?: JsonBody) => void,
  ): void => {
    try {
      done(null, parseJsonBody(text));
    } catch (error) {
      done(error as Error);
    }
  };
  app.addContentTypeParser("application/json", { parseAs: "string" }, parse as never);
  // Clients post without a body and without a type; others name none at all.
  app.addContentTypeParser("*", { parseAs: "string" }, parse as never);

  app.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
    const path = request.url.split("?")[0] as string;
    if (request.method === "OPTIONS" || withoutKey.has(path)) return;
    scopes.set(request, await authenticator.client(credentialOf(request)));
  });
  // After the body, so that a refusal does not tell of a thread what a malformed request would not.
  app.addHook("preHandler", async (request) => {
    const scope = scopes.get(request);
    if (scope?.agents) await hideOtherAgents(plane.stores, scope, request);
  });

  app.setErrorHandler((error, request, reply) => {
    const { status, body } = toErrorResponse(error);
    if (status >= 500) {
      plane.log.error(
        {
          err: (error as Error).cause ?? error,
          requestId: request.id,
          route: request.routeOptions.url,
          code: body.code,
        },
        "request failed",
      );
      if (status === 503) reply.header("retry-after", "1");
    }
    const scope = body.code === "FORBIDDEN" ? scopes.get(request) : undefined;
    if (scope) plane.denials.note(scope, `${request.method} ${request.routeOptions.url}`, body.message);
    reply.status(status).type("application/json").send(JSON.stringify(body));
  });
  app.setNotFoundHandler((request, reply) => {
    const { status, body } = toErrorResponse(
      new DomainError("NOT_FOUND", `There is no ${request.method} ${request.url.split("?")[0]}.`),
    );
    reply.status(status).type("application/json").send(JSON.stringify(body));
  });

  const door: FrontDoor = {
    plane,
    streams,
    scopeOf: (request, needs) => {
      const scope = scopes.get(request);
      if (!scope) throw new DomainError("UNAUTHENTICATED");
      demand(scope, needs);
      return scope;
    },
  };
  infoRoutes(app);
  assistantRoutes(app, door);
  threadRoutes(app, door);
  threadStateRoutes(app, door);
  runRoutes(app, door);
  cancelRunsRoute(app, door);
}
