import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Scope } from "../domain/scope.js";
import { type Agent, agentSchemas, searchAgents } from "../store/agents.js";
import { withTenantReads } from "../store/reads.js";
import { type FrontDoor, sendJson } from "./front-door.js";
import { checkText, readBody, storableJson } from "./json-body.js";
import { selectMembers } from "./select.js";
import { selected } from "./selected-agents.js";
import { assistantMembers, toWireAssistant, toWireSchemas } from "./wire.js";

const searchSchema = z.object({
  graph_id: z.string().max(200).nullish(),
  name: z.string().max(200).nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
  limit: z.number().int().min(1).max(1000).nullish(),
  offset: z.number().int().min(0).max(1_000_000_000).nullish(),
  sort_by: z.enum(["assistant_id", "graph_id", "name", "created_at", "updated_at"]).nullish(),
  sort_order: z.enum(["asc", "desc"]).nullish(),
  select: z.array(z.string()).nullish(),
});

export function assistantRoutes(app: FastifyInstance, door: FrontDoor): void {
  const { plane } = door;
  const find = async (request: FastifyRequest, scope: Scope): Promise<Agent> => {
    const { assistant_id: assistant } = request.params as { assistant_id: string };
    return selected(scope, await plane.agents.resolve(scope, checkText("assistant_id", assistant)), assistant);
  };

  app.post("/assistants/search", async (request, reply) => {
    const scope = door.scopeOf(request, "agents:read");
    const { given, slice } = readBody(request, searchSchema);
    const select = selectMembers(given.select ?? undefined, assistantMembers);
    const limit = given.limit ?? 10;
    const offset = given.offset ?? 0;
    const metadata = slice("metadata");
    const agents = await withTenantReads(plane.stores, scope, (tenant) =>
      searchAgents(tenant, {
        graphId: given.graph_id || null,
        name: given.name || null,
        metadata: metadata === null ? null : storableJson("metadata", metadata),
        sortBy: given.sort_by ?? "created_at",
        descending: (given.sort_order ?? "desc") === "desc",
        limit: limit + 1,
        offset,
      }),
    );
    if (agents.length > limit) reply.header("x-pagination-next", String(offset + limit));
    const page = agents.slice(0, limit).map((agent) => select(toWireAssistant(agent)));
    return sendJson(reply, `[${page.join(",")}]`);
  });

  app.get("/assistants/:assistant_id", async (request, reply) => {
    const scope = door.scopeOf(request, "agents:read");
    return sendJson(reply, toWireAssistant(await find(request, scope)));
  });

  app.get("/assistants/:assistant_id/schemas", async (request, reply) => {
    const scope = door.scopeOf(request, "agents:read");
    const agent = await find(request, scope);
    const schemas = await withTenantReads(plane.stores, scope, (tenant) => agentSchemas(tenant, agent));
    return sendJson(reply, toWireSchemas(agent, schemas));
  });
}
