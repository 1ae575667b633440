import { DomainError, invalidInput } from "../domain/errors.js";
import { type AgentId, type CredentialId, isUuid } from "../domain/ids.js";
import { demand, exceeding } from "../domain/permissions.js";
import type { Role } from "../domain/roles.js";
import { type ApiScope, apiScopes, type Owner, type Scope } from "../domain/scope.js";
import { demandName } from "../domain/text.js";
import { systemClock } from "../platform/clock.js";
import { uuidv7 } from "../platform/random.js";
import { insertApiKey, knownAgents } from "../store/api-keys.js";
import type { Stores } from "../store/client.js";
import { lockOwner } from "../store/members.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";
import { madeBefore, type OnceKey } from "./create-once.js";
import { hashSecret, makeCredential } from "./credential-text.js";
import { recordAuditIn } from "./record-audit.js";

export const keyLifeDefaultMs = 90 * 24 * 3_600_000;
export const keyLifeMaxMs = 366 * 24 * 3_600_000;

export interface CreateApiKey {
  readonly name: string;
  readonly scopes: readonly ApiScope[];
  /** Null is a key without an end, which only the operator can make. */
  readonly expiresAt: Date | null;
  /** A member or a service account. Default: whoever makes the key, where that is somebody; else the tenant itself. */
  readonly ownerId?: string | null;
  /** The agents that it is for. Default: all. */
  readonly agentIds?: readonly string[];
}

const agentsMax = 100;

/** Makes a key. The text is returned once and cannot be read again. */
export async function createApiKey(
  stores: Stores,
  rootKey: string,
  scope: Scope,
  input: CreateApiKey,
): Promise<{ id: CredentialId; text: string }> {
  const { id, text } = await createApiKeyOnce(stores, rootKey, scope, input, null);
  return { id, text: text as string };
}

/** Makes a key, or finds the one that an equal request under the same idempotency key made; then its text is null: it was shown already. */
export async function createApiKeyOnce(
  stores: Stores,
  rootKey: string,
  scope: Scope,
  input: CreateApiKey,
  once: OnceKey | null,
): Promise<{ id: CredentialId; text: string | null }> {
  const credential = makeCredential("api_key");
  const id = uuidv7() as CredentialId;
  const prior = await withTenantTx(stores, scope, async (tx) => {
    const before = await madeBefore(tx, "apiKeyCreate", once, id);
    if (before) return before;
    const { owner, role } = await ownerOf(tx, input.ownerId ?? null);
    refuseBadKey(scope, input, role);
    const agents = await agentsOf(tx, input);
    await insertApiKey(tx, {
      id,
      publicId: credential.publicId,
      name: input.name,
      secretHash: hashSecret(rootKey, credential.secret),
      last4: credential.last4,
      scopes: apiScopes.filter((name) => input.scopes.includes(name)),
      expiresAt: input.expiresAt,
      owner,
      agents,
    });
    await recordAuditIn(tx, {
      action: "api_key.create",
      targetKind: "api_key",
      targetId: id,
      detail: {
        name: input.name,
        scopes: input.scopes,
        expiresAt: input.expiresAt?.toISOString() ?? null,
        owner: owner && `${owner.kind}:${owner.id}`,
        agents,
      },
    });
    return null;
  });
  return prior ? { id: prior, text: null } : { id, text: credential.text };
}

/** Whoever makes a key sees its secret, so nobody makes one for another person: only for themselves, and for service accounts. */
async function ownerOf(tx: TenantTx, ownerId: string | null): Promise<{ owner: Owner | null; role: Role | null }> {
  const { scope } = tx;
  const id = ownerId?.toLowerCase() ?? scope.owner?.id ?? null;
  if (id === null) return { owner: null, role: scope.role };
  const found = isUuid(id) ? await lockOwner(tx, id) : null;
  if (!found)
    throw new DomainError("NOT_FOUND", "ownerId: there is no such member or service account.", { field: "ownerId" });
  if (found.owner.id === scope.owner?.id) return found;
  demand(scope, "api_keys:write");
  if (found.owner.kind === "member" && scope.role !== null)
    throw new DomainError(
      "FORBIDDEN",
      "ownerId: a member makes their keys themselves; use a service account instead.",
      {
        field: "ownerId",
      },
    );
  return found;
}

async function agentsOf(tx: TenantTx, { agentIds = [], scopes }: CreateApiKey): Promise<AgentId[]> {
  if (agentIds.length === 0) return [];
  if (agentIds.length > agentsMax) throw invalidInput("agentIds", `at most ${agentsMax}`);
  const wide = scopes.filter((name) => name.startsWith("admin:"));
  if (wide.length > 0)
    throw invalidInput("agentIds", `${wide.join(", ")} are not about single agents; leave them out of the scopes`);
  const ids = [...new Set(agentIds.map((id) => id.toLowerCase()))];
  const known = await knownAgents(tx, ids.filter(isUuid));
  if (ids.some((id) => !known.has(id)))
    throw new DomainError("NOT_FOUND", "agentIds: one of them is no agent of this tenant.", { field: "agentIds" });
  return ids as AgentId[];
}

function refuseBadKey(scope: Scope, input: CreateApiKey, role: Role | null): void {
  demandName(input.name);
  const unknown = input.scopes.filter((name) => !apiScopes.includes(name));
  if (input.scopes.length === 0 || unknown.length > 0)
    throw invalidInput("scopes", `at least one of ${apiScopes.join(", ")}, and nothing else`);
  const missing = input.scopes.filter((name) => !scope.scopes.has(name));
  if (missing.length > 0) {
    throw new DomainError(
      "FORBIDDEN",
      `scopes: a key cannot have ${missing.join(", ")}, which its creator lacks; leave them out, or ask someone who has them.`,
      { field: "scopes" },
    );
  }
  const more = exceeding(scope, { scopes: new Set(input.scopes), role });
  if (more.length > 0) {
    throw new DomainError(
      "FORBIDDEN",
      `ownerId: a key of this owner could do ${more.join(", ")}, which its creator may not; choose fewer scopes or another owner.`,
      { field: "ownerId" },
    );
  }
  const now = systemClock.now();
  if (input.expiresAt === null) {
    if (scope.actor.kind === "api_key" || scope.actor.kind === "member")
      throw invalidInput("expiresAt", "a key needs an end");
  } else if (!(input.expiresAt.getTime() > now && input.expiresAt.getTime() <= now + keyLifeMaxMs)) {
    throw invalidInput("expiresAt", "a time in the future, at most 366 days away");
  }
}
