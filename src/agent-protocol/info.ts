import type { FastifyInstance } from "fastify";

/** Open routes that chat UIs probe before anything else. */
export function infoRoutes(app: FastifyInstance): void {
  app.get("/ok", (_request, reply) => reply.send({ ok: true }));
  app.get("/info", (_request, reply) =>
    reply.send({
      version: "0.1.0",
      product: "fairlead",
      flags: { assistants: true, crons: false, langsmith: false, langsmith_tracing_replicas: false },
    }),
  );
}
