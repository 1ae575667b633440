import { invalidInput } from "../domain/errors.js";
import type { CredentialId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { demandName } from "../domain/text.js";
import { systemClock } from "../platform/clock.js";
import { uuidv7 } from "../platform/random.js";
import type { Stores } from "../store/client.js";
import { insertRunnerToken } from "../store/runner-tokens.js";
import { withTenantTx } from "../store/tx.js";
import { madeBefore, type OnceKey } from "./create-once.js";
import { hashSecret, makeCredential } from "./credential-text.js";
import { recordAuditIn } from "./record-audit.js";

export interface CreateRunnerToken {
  readonly name: string;
  /** The only kind of runner that may use it. */
  readonly kind: string;
  /** Null is a token without an end: runners are restarted more often than their configuration is read. */
  readonly expiresAt: Date | null;
}

/** Makes a token for runners of one kind in the pool of the scope's tenant. The text is returned once and cannot be read again. */
export async function createRunnerToken(
  stores: Stores,
  rootKey: string,
  scope: Scope,
  input: CreateRunnerToken,
): Promise<{ id: CredentialId; text: string }> {
  const { id, text } = await createRunnerTokenOnce(stores, rootKey, scope, input, null);
  return { id, text: text as string };
}

/** Makes a token, or finds the one that an equal request under the same idempotency key made; then its text is null: it was shown already. */
export async function createRunnerTokenOnce(
  stores: Stores,
  rootKey: string,
  scope: Scope,
  input: CreateRunnerToken,
  once: OnceKey | null,
): Promise<{ id: CredentialId; text: string | null }> {
  const credential = makeCredential("runner_token");
  const id = uuidv7() as CredentialId;
  const prior = await withTenantTx(stores, scope, async (tx) => {
    const before = await madeBefore(tx, "runnerTokenCreate", once, id);
    if (before) return before;
    refuseBadToken(input);
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
      detail: { name: input.name, kind: input.kind, expiresAt: input.expiresAt?.toISOString() ?? null },
    });
    return null;
  });
  return prior ? { id: prior, text: null } : { id, text: credential.text };
}

function refuseBadToken(input: CreateRunnerToken): void {
  demandName(input.name);
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(input.kind)) throw invalidInput("kind", "1 to 64 characters of A-Z a-z 0-9 _ . -");
  if (input.expiresAt && !(input.expiresAt.getTime() > systemClock.now()))
    throw invalidInput("expiresAt", "a time in the future");
}
