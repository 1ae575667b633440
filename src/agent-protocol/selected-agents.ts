import type { FastifyRequest } from "fastify";
import { DomainError } from "../domain/errors.js";
import { isUuid, type RunId, type ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import type { Agent } from "../store/agents.js";
import type { Stores } from "../store/client.js";
import { withTenantReads } from "../store/reads.js";
import { isOfOtherAgents } from "../store/selected-agents.js";

// A key may be for some agents only. To it, other agents, their runs, and every thread that one of them has worked on do not exist. What a path names is
// judged here for all routes; what a body names, and lists, by those who read them.

export async function hideOtherAgents(stores: Stores, scope: Scope, request: FastifyRequest): Promise<void> {
  const { thread_id: threadId, run_id: runId } = request.params as { thread_id?: string; run_id?: string };
  if (isUuid(threadId)) {
    if (await isHidden(stores, scope, { threadId: threadId as ThreadId }))
      throw runId === undefined
        ? new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`)
        : new DomainError("RUN_NOT_FOUND", `There is no run ${runId} on thread ${threadId}.`);
  } else if (isUuid(runId) && (await isHidden(stores, scope, { runId: runId as RunId }))) {
    throw new DomainError("RUN_NOT_FOUND", `There is no run ${runId}.`);
  }
}

/** For threads that a body names. */
export async function hideThreadOfOthers(stores: Stores, scope: Scope, threadId: ThreadId | null): Promise<void> {
  if (threadId !== null && scope.agents && (await isHidden(stores, scope, { threadId })))
    throw new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`);
}

/** The agent, unless the key is for others. */
export function selected(scope: Scope, agent: Agent, named: string): Agent {
  if (scope.agents === null || scope.agents.has(agent.id)) return agent;
  throw new DomainError("ASSISTANT_NOT_FOUND", `There is no assistant ${JSON.stringify(named)}.`, {
    assistantId: named,
  });
}

function isHidden(stores: Stores, scope: Scope, place: Parameters<typeof isOfOtherAgents>[1]): Promise<boolean> {
  return withTenantReads(stores, scope, (tenant) => isOfOtherAgents(tenant, place));
}
