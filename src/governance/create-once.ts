import { createHash } from "node:crypto";
import { DomainError, invalidInput } from "../domain/errors.js";
import { noteCreate } from "../store/create-requests.js";
import type { TenantTx } from "../store/tx.js";

/** A create that the caller may repeat: same key and same input find what the first one made. */
export interface OnceKey {
  readonly key: string;
  /** The input as it was given, defaults not filled in. */
  readonly input: Readonly<Record<string, unknown>>;
}

/** What an earlier request under this key made, or null when this is the first one. */
export async function madeBefore<Id extends string>(
  tx: TenantTx,
  operation: string,
  once: OnceKey | null,
  targetId: Id,
): Promise<Id | null> {
  if (!once) return null;
  if (once.key.length < 1 || once.key.length > 255) throw invalidInput("idempotencyKey", "1 to 255 characters");
  const names = Object.keys(once.input).sort();
  const hash = createHash("sha256")
    .update(JSON.stringify(names.map((name) => [name, once.input[name] ?? null])))
    .digest();
  const prior = await noteCreate(tx, { operation, key: once.key, hash, targetId });
  if (!prior) return null;
  if (!prior.same) {
    throw new DomainError(
      "IDEMPOTENCY_MISMATCH",
      "idempotencyKey: it was used with another input before; send that input again, or choose a new key.",
      { field: "idempotencyKey" },
    );
  }
  return prior.targetId as Id;
}
