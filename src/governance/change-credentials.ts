import { DomainError, invalidInput } from "../domain/errors.js";
import { type CredentialId, isUuid } from "../domain/ids.js";
import { demand, exceeding } from "../domain/permissions.js";
import type { Scope } from "../domain/scope.js";
import type { Clock } from "../platform/clock.js";
import type { Stores } from "../store/client.js";
import { type CredentialTable, lockCredential, writeRevocation, writeRotation } from "../store/credentials.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";
import { hashSecret, writeCredential } from "./credential-text.js";
import { recordAuditIn } from "./record-audit.js";

// A credential has two slots under one id. A rotation puts the new secret into the first and moves the old one to the second, where it works until its
// exact deadline: the overlap, but never beyond the credential's own expiry. Rights, usage and history belong to the id, so they stay.

/** What changing credentials takes. Made by compose, and by the operator's commands. */
export interface CredentialOffice {
  readonly stores: Stores;
  readonly rootKey: string;
  readonly clock: Clock;
  /** Called after the commit, so that no process goes on believing what it remembers of this credential. */
  readonly changed: (publicId: string) => void;
}

export const overlapDefaultMs = 24 * 3_600_000;
export const overlapMaxMs = 7 * 24 * 3_600_000;

export interface Rotation {
  readonly id: string;
  /** How long the old secret still works. */
  readonly overlapMs: number;
  /** Ends the overlap of an earlier rotation that is still open. */
  readonly endOverlap: boolean;
}

export interface Rotated {
  readonly id: CredentialId;
  /** The whole new text, returned once. */
  readonly text: string;
  readonly previousExpiresAt: Date | null;
}

const nouns: Record<CredentialTable, string> = { api_key: "API key", runner_token: "runner token" };

export async function rotateCredential(
  office: CredentialOffice,
  scope: Scope,
  table: CredentialTable,
  rotation: Rotation,
): Promise<Rotated> {
  const { overlapMs } = rotation;
  if (!Number.isInteger(overlapMs) || overlapMs < 0 || overlapMs > overlapMaxMs)
    throw invalidInput("overlapSeconds", "0 (the old secret ends now) to 604800 (7 days)");
  const rotated = await withTenantTx(office.stores, scope, async (tx) => {
    const { id, row } = await requireCredential(tx, table, rotation.id);
    refuseOthersKey(scope, table, row.ownerId);
    const now = office.clock.now();
    if (row.ownerId && !row.role) {
      throw new DomainError(
        "CREDENTIAL_ENDED",
        "id: this API key's owner was removed; create a new one for somebody else.",
        {
          field: "id",
        },
      );
    }
    if (row.revokedAt || (row.expiresAt && row.expiresAt.getTime() <= now)) {
      throw new DomainError(
        "CREDENTIAL_ENDED",
        `id: this ${nouns[table]} is ${row.revokedAt ? "revoked" : "expired"} and cannot be rotated; create a new one.`,
        { field: "id" },
      );
    }
    // Whoever rotates a credential holds it afterwards, so its rights must not go beyond the caller's.
    const missing = row.scopes.filter((name) => !scope.scopes.has(name));
    if (missing.length > 0) {
      throw new DomainError(
        "FORBIDDEN",
        `id: this ${nouns[table]} has the scopes ${missing.join(", ")}, which the caller lacks.`,
        { field: "id" },
      );
    }
    const more = table === "api_key" ? exceeding(scope, { scopes: new Set(row.scopes), role: row.role }) : [];
    if (more.length > 0 || (row.isMembers && row.ownerId !== scope.owner?.id && scope.role !== null)) {
      throw new DomainError(
        "FORBIDDEN",
        `id: whoever rotates this key holds it; ${more.length > 0 ? `it can do ${more.join(", ")}, which the caller may not` : "it is a member's, who must do it themselves"}.`,
        { field: "id" },
      );
    }
    if (row.previousExpiresAt && row.previousExpiresAt.getTime() > now && !rotation.endOverlap) {
      throw new DomainError(
        "ROTATION_OPEN",
        `endOverlap: the secret of before the last rotation works until ${row.previousExpiresAt.toISOString()}; set endOverlap to end it now.`,
        { field: "endOverlap" },
      );
    }
    const deadline = Math.min(now + overlapMs, row.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY);
    const previousExpiresAt = overlapMs === 0 ? null : new Date(deadline);
    const credential = writeCredential(table, "live", row.publicId);
    const secret = { hash: hashSecret(office.rootKey, credential.secret), last4: credential.last4 };
    await writeRotation(tx, table, id, secret, previousExpiresAt);
    await recordAuditIn(tx, {
      action: `${table}.rotate`,
      targetKind: table,
      targetId: id,
      detail: { previousExpiresAt: previousExpiresAt?.toISOString() ?? null },
    });
    return { id, publicId: row.publicId, text: credential.text, previousExpiresAt };
  });
  office.changed(rotated.publicId);
  return { id: rotated.id, text: rotated.text, previousExpiresAt: rotated.previousExpiresAt };
}

/** Ends a credential for good, on every process within five seconds. Revoking a revoked one changes nothing. */
export async function revokeCredential(
  office: CredentialOffice,
  scope: Scope,
  table: CredentialTable,
  credentialId: string,
): Promise<CredentialId> {
  const { id, publicId } = await withTenantTx(office.stores, scope, async (tx) => {
    const found = await requireCredential(tx, table, credentialId);
    refuseOthersKey(scope, table, found.row.ownerId);
    if (!found.row.revokedAt) {
      await writeRevocation(tx, table, found.id);
      await recordAuditIn(tx, { action: `${table}.revoke`, targetKind: table, targetId: found.id, detail: {} });
    }
    return { id: found.id, publicId: found.row.publicId };
  });
  office.changed(publicId);
  return id;
}

async function requireCredential(tx: TenantTx, table: CredentialTable, text: string) {
  const id = text.toLowerCase() as CredentialId;
  const row = isUuid(id) ? await lockCredential(tx, table, id) : null;
  if (!row) throw new DomainError("NOT_FOUND", `id: there is no such ${nouns[table]}.`, { field: "id" });
  return { id, row };
}

/** Who may change only keys of their own does not change others'. */
function refuseOthersKey(scope: Scope, table: CredentialTable, ownerId: string | null): void {
  if (table !== "api_key" || (ownerId !== null && ownerId === scope.owner?.id)) return;
  demand(scope, "api_keys:write");
}
