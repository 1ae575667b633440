import type { AgentId, RunId, ThreadId } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";

/** The agents that the caller is bound to, for a query; null when they are bound to none. */
export function agentsOf({ scope }: Pick<TenantReads, "scope">): AgentId[] | null {
  return scope.agents && [...scope.agents];
}

/** Whether an agent that the caller is not bound to made this run, or has ever worked on this thread. */
export async function isOfOtherAgents(
  tenant: TenantReads,
  place: { readonly threadId: ThreadId } | { readonly runId: RunId },
): Promise<boolean> {
  const values = [tenant.scope.tenantId, "threadId" in place ? place.threadId : place.runId, agentsOf(tenant) ?? []];
  const rows = await tenant.query<{ others: boolean }>(
    "threadId" in place
      ? `select exists (select from run r where r.tenant_id = $1 and r.thread_id = $2 and r.agent_id <> all ($3::uuid[]))
           or exists (select from thread t where t.tenant_id = $1 and t.id = $2 and t.agent_id <> all ($3::uuid[])) as others`
      : `select exists (select from run r where r.tenant_id = $1 and r.id = $2 and r.agent_id <> all ($3::uuid[])) as others`,
    values,
  );
  return rows[0]?.others === true;
}

/** A condition on threads `t` for lists; `place` is the parameter with the agents. */
export function noOtherAgents(place: string): string {
  return `(${place}::uuid[] is null or ((t.agent_id is null or t.agent_id = any (${place}))
    and not exists (select from run o where o.tenant_id = t.tenant_id and o.thread_id = t.id and o.agent_id <> all (${place}))))`;
}
