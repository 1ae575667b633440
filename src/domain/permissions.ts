import { DomainError } from "./errors.js";
import { type Role, roles, roleTitles } from "./roles.js";
import type { ApiScope, Scope } from "./scope.js";

// Who may do what, once. docs/permissions.md is printed from this table, every field and route names one of its rows, and `refusal` is the only judge.

interface Row {
  readonly resource: string;
  readonly action: string;
  /** For people. */
  readonly does: string;
  /** What an API key needs for it besides its owner's role; null: every key. */
  readonly scope: ApiScope | null;
  readonly roles: readonly Role[];
}

const everybody = roles;
const content: readonly Role[] = ["owner", "admin", "security_admin", "developer", "approver", "auditor", "viewer"];
const builders: readonly Role[] = ["owner", "admin", "developer"];
const security: readonly Role[] = ["owner", "admin", "security_admin"];
const governors: readonly Role[] = [...security, "auditor"];
const set = [...security, "developer", "auditor"] as const;

export const permissionTable = {
  "tenant:read": row("Tenant", "see", "See the tenant's name and who one is oneself", null, everybody),
  "agents:read": row("Agents", "see", "See the agents and what they take and give", "runs:read", everybody),
  "threads:read": row("Threads", "see", "Read threads, their state and history", "runs:read", content),
  "threads:write": row("Threads", "change", "Make, change and delete threads and their state", "runs:write", builders),
  "runs:read": row("Runs", "see", "Read runs, their steps and events, live or later", "runs:read", content),
  "runs:write": row("Runs", "start", "Start runs, answer their questions, delete them", "runs:write", builders),
  "runs:cancel": row("Runs", "cancel", "Stop runs", "runs:write", [...security, "developer"]),
  "runners:read": row("Runners", "see", "See the runners of the tenant's own pool", "admin:read", set),
  "runner_tokens:read": row("Runner tokens", "see", "See runner tokens, never their secrets", "admin:read", set),
  "runner_tokens:write": row("Runner tokens", "change", "Make, rotate and revoke them", "admin:write", security),
  "api_keys:read": row("API keys", "see", "See API keys, never their secrets", "admin:read", set),
  "own_keys:write": row("API keys", "change one's own", "Make, rotate and revoke keys of one's own", "admin:write", [
    ...security,
    "developer",
  ]),
  "api_keys:write": row(
    "API keys",
    "change all",
    "The same with everybody's and the tenant's",
    "admin:write",
    security,
  ),
  "members:read": row("Members", "see", "See who is a member and what they are", "admin:read", governors),
  "members:write": row("Members", "change", "Invite and remove members, set their roles", "admin:write", [
    "owner",
    "admin",
  ]),
  "owners:write": row("Members", "change Owners", "Make and unmake Owners", "admin:write", ["owner"]),
  "service_accounts:read": row("Service accounts", "see", "See service accounts", "admin:read", set),
  "service_accounts:write": row("Service accounts", "change", "Make, change and remove them", "admin:write", [
    "owner",
    "admin",
  ]),
  "budgets:read": row("Budgets", "see", "See budgets and prices, what is used and what is left", "admin:read", [
    ...governors,
    "billing_admin",
    "developer",
  ]),
  "budgets:write": row("Budgets", "change", "Set budgets and the prices of models", "admin:write", [
    "owner",
    "admin",
    "billing_admin",
  ]),
  "halts:read": row("Halts", "see", "See what is stopped, by whom and why", "admin:read", set),
  "halts:write": row("Halts", "set", "Stop a tenant, an agent or a kind of program at once", "admin:write", [
    ...security,
    "developer",
  ]),
  "halts:lift": row("Halts", "lift", "Let what was stopped go on", "admin:write", security),
  "policies:read": row("Tool policies", "see", "See tool policies and the tools that are known", "admin:read", set),
  "policies:write": row(
    "Tool policies",
    "change",
    "Draft, publish and restore them, register tools",
    "admin:write",
    security,
  ),
  "decisions:read": row("Tool decisions", "see", "See which tool calls were allowed and why", "admin:read", governors),
  "secrets:read": row("Secrets", "see", "See the names and versions of secrets, never a value", "admin:read", set),
  "secrets:write": row(
    "Secrets",
    "change",
    "Give values, choose the active one, destroy them",
    "admin:write",
    security,
  ),
  "audit:read": row("Audit", "see", "Read the record of what was done", "admin:read", governors),
  "schema:read": row("GraphQL schema", "see", "Ask the API for its schema", "admin:read", set),
} as const satisfies Record<string, Row>;

export type Permission = keyof typeof permissionTable;
export const permissions = Object.keys(permissionTable) as Permission[];

function row(resource: string, action: string, does: string, scope: ApiScope | null, may: readonly Role[]): Row {
  return { resource, action, does, scope, roles: may };
}

/** What rights follow from: scopes, and the owner's role where there is an owner. */
export type Rights = Pick<Scope, "scopes" | "role">;

export function allows(rights: Rights, permission: Permission): boolean {
  return refusal(rights, permission) === null;
}

/** Why somebody may not do this, or null when they may. */
export function refusal({ scopes, role }: Rights, permission: Permission): DomainError | null {
  const { scope, roles: may }: Row = permissionTable[permission];
  if (scope !== null && !scopes.has(scope))
    return new DomainError("FORBIDDEN", `The API key lacks the scope "${scope}".`);
  if (role !== null && !may.includes(role))
    return new DomainError(
      "FORBIDDEN",
      `The role ${roleTitles[role]} does not include "${permission}"; ask an Owner or Admin of the tenant.`,
    );
  return null;
}

export function demand(rights: Rights, permission: Permission): void {
  const refused = refusal(rights, permission);
  if (refused) throw refused;
}

/** What the rights hold that the giver lacks: whoever gives rights away, gives none that are not their own. */
export function exceeding(giver: Rights, rights: Rights): Permission[] {
  return permissions.filter((permission) => allows(rights, permission) && !allows(giver, permission));
}
