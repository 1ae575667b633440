import type pg from "pg";
import type { AgentId } from "../domain/ids.js";
import type { ToolPolicyContent } from "../domain/tool-rules.js";
import { actorName } from "./actor-name.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

export interface PolicyVersion {
  readonly id: string;
  /** Null: a draft. */
  readonly number: number | null;
  readonly name: string;
  readonly digest: Buffer;
  readonly content: ToolPolicyContent;
}

type VersionRow = Omit<PolicyVersion, "content"> & { readonly content: string } & pg.QueryResultRow;

export async function findVersion(tenant: TenantReads, id: string): Promise<PolicyVersion | null> {
  const [row] = await tenant.query<VersionRow>(
    "select id, number, name, digest, content from tool_policy_version where tenant_id = $1 and id = $2",
    [tenant.scope.tenantId, id],
  );
  return row ? { ...row, content: JSON.parse(row.content) as ToolPolicyContent } : null;
}

export async function insertDraft(
  tx: TenantTx,
  draft: { readonly id: string; readonly name: string; readonly content: string; readonly digest: Buffer },
): Promise<void> {
  await tx.query(
    "insert into tool_policy_version (tenant_id, id, name, content, digest, created_by) values ($1, $2, $3, $4, $5, $6)",
    [tx.scope.tenantId, draft.id, draft.name, draft.content, draft.digest, actorName(tx)],
  );
}

/** The number of the version in force, 0 for none. Whoever changes it waits here for whoever is changing it. */
export async function lockPolicyNumber(tx: TenantTx): Promise<number> {
  await tx.query("select id from tenant where id = $1 for no key update", [tx.scope.tenantId]);
  return policyNumber(tx);
}

export async function policyNumber(tenant: TenantReads): Promise<number> {
  const [row] = await tenant.query<{ number: number }>("select number from tool_policy where tenant_id = $1", [
    tenant.scope.tenantId,
  ]);
  return row?.number ?? 0;
}

/** A draft comes into force. False when it is published already. */
export async function writePublished(
  tx: TenantTx,
  id: string,
  number: number,
  restores: number | null,
): Promise<boolean> {
  const rows = await tx.query(
    `update tool_policy_version set number = $3, published_by = $4, published_at = clock_timestamp(), restores = $5
     where tenant_id = $1 and id = $2 and number is null returning id`,
    [tx.scope.tenantId, id, number, actorName(tx), restores],
  );
  if (rows.length === 0) return false;
  await tx.query(
    `insert into tool_policy (tenant_id, number, version_id) values ($1, $2, $3)
     on conflict (tenant_id) do update set number = excluded.number, version_id = excluded.version_id`,
    [tx.scope.tenantId, number, id],
  );
  return true;
}

export interface KnownTool {
  readonly id: string;
  readonly schemaDigest: Buffer;
  readonly version: number;
}

export async function lockTool(
  tx: TenantTx,
  agentId: AgentId,
  server: string,
  name: string,
): Promise<KnownTool | null> {
  const [row] = await tx.query<KnownTool & pg.QueryResultRow>(
    `select id, schema_digest as "schemaDigest", version from tool
     where tenant_id = $1 and agent_id = $2 and server = $3 and lower(name) = lower($4) and name = $4 for update`,
    [tx.scope.tenantId, agentId, server, name],
  );
  return row ?? null;
}

/** False when a tool of this name, or of one that differs by case only, is known. */
export async function insertTool(
  tx: TenantTx,
  tool: {
    readonly id: string;
    readonly agentId: AgentId;
    readonly server: string;
    readonly name: string;
    readonly schemaDigest: Buffer;
  },
): Promise<boolean> {
  const rows = await tx.query(
    `insert into tool (tenant_id, id, server, agent_id, name, schema_digest, created_by) values ($1, $2, $3, $4, $5, $6, $7)
     on conflict do nothing returning id`,
    [tx.scope.tenantId, tool.id, tool.server, tool.agentId, tool.name, tool.schemaDigest, actorName(tx)],
  );
  return rows.length > 0;
}

export async function writeToolDigest(tx: TenantTx, id: string, digest: Buffer): Promise<void> {
  await tx.query("update tool set schema_digest = $3, version = version + 1 where tenant_id = $1 and id = $2", [
    tx.scope.tenantId,
    id,
    digest,
  ]);
}

export async function agentExists(tx: TenantTx, id: AgentId): Promise<boolean> {
  const rows = await tx.query("select id from agent where tenant_id = $1 and id = $2", [tx.scope.tenantId, id]);
  return rows.length > 0;
}
