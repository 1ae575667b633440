import { DomainError, invalidInput } from "../domain/errors.js";
import type { CredentialId } from "../domain/ids.js";
import { type ApiScope, apiScopes, type Scope } from "../domain/scope.js";
import { systemClock } from "../platform/clock.js";
import { uuidv7 } from "../platform/random.js";
import { insertApiKey } from "../store/api-keys.js";
import type { Stores } from "../store/client.js";
import { withTenantTx } from "../store/tx.js";
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
}

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
    refuseBadKey(scope, input);
    await insertApiKey(tx, {
      id,
      publicId: credential.publicId,
      name: input.name,
      secretHash: hashSecret(rootKey, credential.secret),
      last4: credential.last4,
      scopes: apiScopes.filter((name) => input.scopes.includes(name)),
      expiresAt: input.expiresAt,
    });
    await recordAuditIn(tx, {
      action: "api_key.create",
      targetKind: "api_key",
      targetId: id,
      detail: { name: input.name, scopes: input.scopes, expiresAt: input.expiresAt?.toISOString() ?? null },
    });
    return null;
  });
  return prior ? { id: prior, text: null } : { id, text: credential.text };
}

function refuseBadKey(scope: Scope, input: CreateApiKey): void {
  if (input.name.trim().length < 1 || input.name.length > 200) throw invalidInput("name", "1 to 200 characters");
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
  const now = systemClock.now();
  if (input.expiresAt === null) {
    if (scope.actor.kind === "api_key") throw invalidInput("expiresAt", "a key needs an end");
  } else if (!(input.expiresAt.getTime() > now && input.expiresAt.getTime() <= now + keyLifeMaxMs)) {
    throw invalidInput("expiresAt", "a time in the future, at most 366 days away");
  }
}
