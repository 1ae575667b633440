import { DomainError } from "../domain/errors.js";
import type { Scope } from "../domain/scope.js";
import type { Clock } from "../platform/clock.js";
import { type Agent, findAgent } from "../store/agents.js";
import type { Stores } from "../store/client.js";
import { withTenantReads } from "../store/reads.js";

/** Finds the agent that a run names, by id or graph id. Runs ask for the same few again and again, so answers are kept for a few seconds. */
export interface AgentResolver {
  resolve(scope: Scope, idOrGraph: string): Promise<Agent>;
  /** Agents were announced or edited in this process. */
  forget(): void;
}

const keepMs = 4_000;
const maxKept = 10_000;

export function createAgentResolver(stores: Stores, clock: Clock): AgentResolver {
  const kept = new Map<string, { agent: Agent; until: number }>();
  return {
    resolve: async (scope, idOrGraph) => {
      const key = `${scope.tenantId}:${idOrGraph}`;
      const hit = kept.get(key);
      if (hit && hit.until > clock.monotonic()) return hit.agent;
      const agent = await withTenantReads(stores, scope, (tenant) => findAgent(tenant, idOrGraph));
      if (!agent)
        throw new DomainError("ASSISTANT_NOT_FOUND", `There is no assistant ${JSON.stringify(idOrGraph)}.`, {
          assistantId: idOrGraph,
        });
      if (kept.size >= maxKept) kept.clear();
      kept.set(key, { agent, until: clock.monotonic() + keepMs });
      return agent;
    },
    forget: () => kept.clear(),
  };
}
