import { invalidInput } from "../domain/errors.js";
import type { CredentialId } from "../domain/ids.js";
import { type ApiScope, apiScopes, type Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import { insertApiKey } from "../store/api-keys.js";
import type { Stores } from "../store/client.js";
import { withTenantTx } from "../store/tx.js";
import { hashSecret, makeCredential } from "./credential-text.js";
import { recordAuditIn } from "./record-audit.js";

export interface CreateApiKey {
  readonly name: string;
  readonly scopes: readonly ApiScope[];
  readonly expiresAt: Date | null;
}

/** Makes a key. The text is returned once and cannot be read again. */
export async function createApiKey(
  stores: Stores,
  rootKey: string,
  scope: Scope,
  input: CreateApiKey,
): Promise<{ id: CredentialId; text: string }> {
  if (input.name.length < 1 || input.name.length > 200) throw invalidInput("name", "1 to 200 characters");
  if (input.scopes.length === 0) throw invalidInput("scopes", `at least one of ${apiScopes.join(", ")}`);
  const credential = makeCredential("api_key");
  const id = uuidv7() as CredentialId;
  await withTenantTx(stores, scope, async (tx) => {
    await insertApiKey(tx, {
      id,
      publicId: credential.publicId,
      name: input.name,
      secretHash: hashSecret(rootKey, credential.secret),
      last4: credential.last4,
      scopes: input.scopes,
      expiresAt: input.expiresAt,
    });
    await recordAuditIn(tx, {
      action: "api_key.create",
      targetKind: "api_key",
      targetId: id,
      detail: { name: input.name, scopes: input.scopes },
    });
  });
  return { id, text: credential.text };
}
