import { overlapDefaultMs } from "../governance/change-credentials.js";
import { builder } from "./builder.js";
import type { UserError } from "./errors.js";

// What API keys and runner tokens have in common.

export interface CredentialTimes {
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
}

type Status = "active" | "expired" | "revoked" | "blocked";

export function credentialStatus(row: CredentialTimes, now: number, isOwnerGone = false): Status {
  if (row.revokedAt) return "revoked";
  if (isOwnerGone) return "blocked";
  return row.expiresAt && row.expiresAt.getTime() <= now ? "expired" : "active";
}

export interface CredentialPayload {
  readonly done: {
    readonly id: string;
    readonly text?: string | null;
    readonly previousExpiresAt?: Date | null;
  } | null;
  readonly userErrors: readonly UserError[];
}

export const RotateInput = builder.inputType("CredentialRotateInput", {
  fields: (t) => ({
    id: t.id({ required: true }),
    overlapSeconds: t.int({
      defaultValue: overlapDefaultMs / 1000,
      description:
        "How long the old secret still works: 0 to 604800 (7 days), and never beyond the credential's expiry.",
    }),
    endOverlap: t.boolean({
      defaultValue: false,
      description: "Ends the overlap of an earlier rotation that is still open.",
    }),
  }),
});

export const RevokeInput = builder.inputType("CredentialRevokeInput", {
  fields: (t) => ({ id: t.id({ required: true }) }),
});
