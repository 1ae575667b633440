import type pg from "pg";
import type { AgentId, TenantId } from "../domain/ids.js";
import { isUuid } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";
import { agentsOf } from "./selected-agents.js";

/** An agent with the version that a new run would use. JSON columns are text. */
export interface Agent {
  readonly id: AgentId;
  readonly graphId: string;
  readonly poolId: TenantId;
  readonly kind: string;
  readonly createdBy: "system" | "user";
  readonly name: string;
  readonly description: string | null;
  readonly version: number;
  readonly config: string;
  readonly context: string;
  readonly metadata: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly recovery: "restart" | "checkpoint" | "fail";
  readonly maxAttempts: number;
  readonly queueTimeoutMs: number;
  readonly runTimeoutMs: number | null;
}

export interface AgentSchemas {
  readonly input: string | null;
  readonly output: string | null;
  readonly state: string | null;
  readonly config: string | null;
  readonly context: string | null;
}

const columns = `a.id, a.graph_id as "graphId", a.pool_id as "poolId", a.kind, a.created_by as "createdBy", a.name, a.description, a.version, a.config, a.context,
  a.metadata, a.created_at as "createdAt", a.updated_at as "updatedAt", v.recovery, v.max_attempts as "maxAttempts", v.queue_timeout_ms as "queueTimeoutMs",
  v.run_timeout_ms as "runTimeoutMs"`;
const joined =
  "agent a join agent_version v on v.tenant_id = a.tenant_id and v.agent_id = a.id and v.version = a.version";

/** By id, or by graph id, which names the system agent of that graph. */
export async function findAgent(tenant: TenantReads, idOrGraph: string): Promise<Agent | null> {
  const condition = isUuid(idOrGraph) ? "a.id = $2" : "a.graph_id = $2 and a.created_by = 'system'";
  const rows = await tenant.query<Agent & pg.QueryResultRow>(
    `select ${columns} from ${joined} where a.tenant_id = $1 and ${condition}`,
    [tenant.scope.tenantId, idOrGraph],
  );
  return rows[0] ?? null;
}

export interface AgentFilter {
  readonly graphId: string | null;
  readonly name: string | null;
  /** JSON text of an object that the metadata must contain. */
  readonly metadata: string | null;
  readonly sortBy: "assistant_id" | "graph_id" | "name" | "created_at" | "updated_at";
  readonly descending: boolean;
  readonly limit: number;
  readonly offset: number;
}

const sortColumns = {
  assistant_id: "a.id",
  graph_id: "a.graph_id",
  name: "a.name",
  created_at: "a.created_at",
  updated_at: "a.updated_at",
};

export function searchAgents(tenant: TenantReads, filter: AgentFilter): Promise<Agent[]> {
  const direction = filter.descending ? "desc" : "asc";
  return tenant.query<Agent & pg.QueryResultRow>(
    `select ${columns} from ${joined} where a.tenant_id = $1 and ($2::text is null or a.graph_id = $2)
       and ($3::text is null or position(lower($3) in lower(a.name)) > 0) and ($4::jsonb is null or a.metadata::jsonb @> $4::jsonb)
       and ($7::uuid[] is null or a.id = any ($7))
     order by ${sortColumns[filter.sortBy]} ${direction}, a.id ${direction} limit $5 offset $6`,
    [
      tenant.scope.tenantId,
      filter.graphId,
      filter.name,
      filter.metadata,
      filter.limit,
      filter.offset,
      agentsOf(tenant),
    ],
  );
}

export async function agentSchemas(tenant: TenantReads, agent: Agent): Promise<AgentSchemas> {
  const rows = await tenant.query<AgentSchemas & pg.QueryResultRow>(
    `select input_schema as input, output_schema as output, state_schema as state, config_schema as config, context_schema as context
     from agent_version where tenant_id = $1 and agent_id = $2 and version = $3`,
    [tenant.scope.tenantId, agent.id, agent.version],
  );
  return rows[0] ?? { input: null, output: null, state: null, config: null, context: null };
}

/** One agent of an announcement, ready for the store. Schemas are JSON text. */
export interface AgentOffer {
  readonly id: string;
  readonly graphId: string;
  readonly name: string;
  readonly description: string;
  /** Hex. */
  readonly digest: string;
  readonly schemas: AgentSchemas;
  readonly recovery: "restart" | "checkpoint" | "fail";
  readonly maxAttempts: number;
  readonly queueTimeoutMs: number;
  readonly runTimeoutMs: number | null;
}

export type AnnounceOutcome = "created" | "changed" | "same" | "taken";

/** Makes or renews the system agents of an announcement, in every tenant that the pool serves. */
export async function announceAgents(
  pool: pg.Pool,
  poolId: TenantId,
  kind: string,
  offers: readonly AgentOffer[],
): Promise<{ graphId: string; outcome: AnnounceOutcome }[]> {
  const rows = offers.map((offer) => {
    const head = JSON.stringify({
      id: offer.id,
      graph_id: offer.graphId,
      name: offer.name,
      description: offer.description,
      digest: offer.digest,
      recovery: offer.recovery,
      max_attempts: offer.maxAttempts,
      queue_timeout_ms: offer.queueTimeoutMs,
      run_timeout_ms: offer.runTimeoutMs,
    }).slice(0, -1);
    const schemas = Object.entries(offer.schemas)
      .filter(([, text]) => text !== null)
      .map(([name, text]) => `,"${name}_schema":${text}`);
    return `${head}${schemas.join("")}}`;
  });
  const result = await pool.query<{ graph_id: string; outcome: AnnounceOutcome }>(
    "select graph_id, outcome from agent_announce_v1($1, $2, $3)",
    [poolId, kind, `[${rows.join(",")}]`],
  );
  return result.rows.map((row) => ({ graphId: row.graph_id, outcome: row.outcome }));
}
