import type { AgentId, CredentialId, MemberId, ServiceAccountId, TenantId } from "./ids.js";
import type { Role } from "./roles.js";

/** Who acts: a credential, or a signed-in member. Only authentication and workers make one. */
export interface Actor {
  readonly kind: "api_key" | "runner_token" | "system" | "operator" | "member";
  readonly id: CredentialId | null;
}

/** What a client credential may do. `admin` includes everything else. */
export const apiScopes = ["runs:read", "runs:write", "admin:read", "admin:write"] as const;
export type ApiScope = (typeof apiScopes)[number];

/** Whose a credential is: a person's, or that of a program which the tenant runs. */
export type Owner =
  | { readonly kind: "member"; readonly id: MemberId }
  | { readonly kind: "service_account"; readonly id: ServiceAccountId };

export interface Scope {
  readonly tenantId: TenantId;
  readonly actor: Actor;
  readonly scopes: ReadonlySet<ApiScope>;
  /** What the owner is now. Null where there is no owner: keys of the tenant itself, the operator, the plane. */
  readonly role: Role | null;
  readonly owner: Owner | null;
  /** The agents that the credential is for; null for all of them. */
  readonly agents: ReadonlySet<AgentId> | null;
}

/** The runner side: bound to one kind and one pool. */
export interface RunnerScope {
  readonly poolId: TenantId;
  readonly kind: string;
  readonly tokenId: CredentialId;
}

const everything = { scopes: new Set(apiScopes), role: null, owner: null, agents: null };

export function systemScope(tenantId: TenantId): Scope {
  return { tenantId, actor: { kind: "system", id: null }, ...everything };
}

/** The operator at the command line, who may do everything in every tenant. */
export function operatorScope(tenantId: TenantId): Scope {
  return { tenantId, actor: { kind: "operator", id: null }, ...everything };
}
