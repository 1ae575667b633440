import type { CredentialId, TenantId } from "./ids.js";

/** Who acts. Only authentication and workers make one. */
export interface Actor {
  readonly kind: "api_key" | "runner_token" | "system" | "operator";
  readonly id: CredentialId | null;
}

/** What a client credential may do. `admin` includes everything else. */
export const apiScopes = ["runs:read", "runs:write", "admin:read", "admin:write"] as const;
export type ApiScope = (typeof apiScopes)[number];

export interface Scope {
  readonly tenantId: TenantId;
  readonly actor: Actor;
  readonly scopes: ReadonlySet<ApiScope>;
}

/** The runner side: bound to one kind and one pool. */
export interface RunnerScope {
  readonly poolId: TenantId;
  readonly kind: string;
  readonly tokenId: CredentialId;
}

export function systemScope(tenantId: TenantId): Scope {
  return { tenantId, actor: { kind: "system", id: null }, scopes: new Set(apiScopes) };
}

/** The operator at the command line, who may do everything in every tenant. */
export function operatorScope(tenantId: TenantId): Scope {
  return { tenantId, actor: { kind: "operator", id: null }, scopes: new Set(apiScopes) };
}
