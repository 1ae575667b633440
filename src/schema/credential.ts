import { overlapDefaultMs, type Rotation } from "../governance/change-credentials.js";
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

type PayloadFields = PothosSchemaTypes.ObjectFieldBuilder<typeof builder.$inferSchemaTypes, CredentialPayload>;

/** The fields of a payload that shows a secret. `noun`: what the secret is the whole of. */
export const secretFields = (t: PayloadFields, noun: string) => ({
  secret: t.string({
    nullable: true,
    description: `The whole ${noun}. It is in this answer and never again.`,
    resolve: ({ done }) => done?.text ?? null,
  }),
  alreadyShown: t.boolean({
    description: "The idempotency key was used before: the object is the one that was made then, without its secret.",
    resolve: ({ done }) => done?.text === null,
  }),
});

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

/** A rotation as it was asked for. */
export function rotationOf(id: string, { overlapSeconds, endOverlap }: typeof RotateInput.$inferInput): Rotation {
  return { id, overlapMs: (overlapSeconds ?? overlapDefaultMs / 1_000) * 1_000, endOverlap: endOverlap ?? false };
}

export const RevokeInput = builder.inputType("CredentialRevokeInput", {
  fields: (t) => ({ id: t.id({ required: true }) }),
});
