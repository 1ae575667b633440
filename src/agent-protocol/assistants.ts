import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { searchAgents } from "../store/agents.js";
import { withTenantReads } from "../store/reads.js";
import { type FrontDoor, type JsonBody, sendJson } from "./front-door.js";
import { fromZod } from "./run-request.js";
import { toWireAssistant } from "./wire.js";

const searchSchema = z.object({
  graph_id: z.string().nullish(),
  name: z.string().nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
  limit: z.number().int().min(1).max(1000).nullish(),
  offset: z.number().int().min(0).nullish(),
  sort_by: z.enum(["assistant_id", "graph_id", "name", "created_at", "updated_at"]).nullish(),
  sort_order: z.enum(["asc", "desc"]).nullish(),
});

export function assistantRoutes(app: FastifyInstance, door: FrontDoor): void {
  app.post("/assistants/search", async (request, reply) => {
    const scope = door.scopeOf(request, "runs:read");
    const parsed = searchSchema.safeParse((request.body as JsonBody | undefined)?.json ?? {});
    if (!parsed.success) throw fromZod(parsed.error);
    const given = parsed.data;
    const limit = given.limit ?? 10;
    const offset = given.offset ?? 0;
    const agents = await withTenantReads(door.plane.stores, scope, (tenant) =>
      searchAgents(tenant, {
        graphId: given.graph_id ?? null,
        name: given.name ?? null,
        metadata: given.metadata ? JSON.stringify(given.metadata) : null,
        sortBy: given.sort_by ?? "created_at",
        descending: (given.sort_order ?? "desc") === "desc",
        limit: limit + 1,
        offset,
      }),
    );
    if (agents.length > limit) reply.header("x-pagination-next", String(offset + limit));
    return sendJson(reply, `[${agents.slice(0, limit).map(toWireAssistant).join(",")}]`);
  });

  app.get("/assistants/:assistant_id", async (request, reply) => {
    const scope = door.scopeOf(request, "runs:read");
    const agent = await door.plane.agents.resolve(scope, (request.params as { assistant_id: string }).assistant_id);
    return sendJson(reply, toWireAssistant(agent));
  });
}
