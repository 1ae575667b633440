import { invalidInput } from "../domain/errors.js";
import type { CredentialId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import type { Stores } from "../store/client.js";
import { insertRunnerToken } from "../store/runner-tokens.js";
import { withTenantTx } from "../store/tx.js";
import { hashSecret, makeCredential } from "./credential-text.js";
import { recordAuditIn } from "./record-audit.js";

export interface CreateRunnerToken {
  readonly name: string;
  /** The only kind of runner that may use it. */
  readonly kind: string;
  readonly expiresAt: Date | null;
}

/** Makes a token for runners of one kind in the pool of the scope's tenant. The text is returned once and cannot be read again. */
export async function createRunnerToken(
  stores: Stores,
  rootKey: string,
  scope: Scope,
  input: CreateRunnerToken,
): Promise<{ id: CredentialId; text: string }> {
  if (input.name.length < 1 || input.name.length > 200) throw invalidInput("name", "1 to 200 characters");
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(input.kind)) throw invalidInput("kind", "1 to 64 characters of A-Z a-z 0-9 _ . -");
  const credential = makeCredential("runner_token");
  const id = uuidv7() as CredentialId;
  await withTenantTx(stores, scope, async (tx) => {
    await insertRunnerToken(tx, {
      id,
      publicId: credential.publicId,
      name: input.name,
      kind: input.kind,
      secretHash: hashSecret(rootKey, credential.secret),
      last4: credential.last4,
      expiresAt: input.expiresAt,
    });
    await recordAuditIn(tx, {
      action: "runner_token.create",
      targetKind: "runner_token",
      targetId: id,
      detail: { name: input.name, kind: input.kind },
    });
  });
  return { id, text: credential.text };
}
