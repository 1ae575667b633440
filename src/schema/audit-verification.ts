import { invalidInput } from "../domain/errors.js";
import type { Permission } from "../domain/permissions.js";
import { type AuditVerification, verifyAudit } from "../governance/audit/verify-audit.js";
import { builder } from "./builder.js";
import { AuditVerdictEnum } from "./enums.js";

const sees = "audit:read" satisfies Permission;
// Of the twenty seconds that an operation may take.
const verifyMs = 10_000;
const verifyCost = 500;

const AuditVerificationRef = builder.objectRef<AuditVerification>("AuditVerification").implement({
  description: "What a walk along the tenant's audit chain has found.",
  fields: (t) => ({
    verdict: t.field({ type: AuditVerdictEnum, resolve: ({ verdict }) => verdict }),
    firstBadSeq: t.field({
      type: "BigInt",
      nullable: true,
      description: "The first number at which something is wrong.",
      resolve: ({ firstBadSeq }) => firstBadSeq,
    }),
    message: t.exposeString("message"),
    checkedTo: t.field({
      type: "BigInt",
      description: "Up to here every record is in its place.",
      resolve: ({ checkedTo }) => checkedTo.seq,
    }),
    signedTo: t.field({
      type: "BigInt",
      description: "Up to here it is what was signed. Later records can still be exchanged by who holds the database.",
      resolve: ({ signedTo }) => signedTo,
    }),
    complete: t.exposeBoolean("complete", {
      description: "False when the time was over before the end: ask again with after: checkedTo.",
    }),
  }),
});

const AuditKeyRef = builder.objectRef<{ readonly keyId: string; readonly publicKey: string }>("AuditKey").implement({
  description: "What signs the audit chains of this installation.",
  fields: (t) => ({
    keyId: t.exposeString("keyId"),
    publicKey: t.exposeString("publicKey", { description: "Ed25519, PEM. Keep it where the database is not." }),
  }),
});

builder.queryFields((t) => ({
  auditVerification: t.field({
    type: AuditVerificationRef,
    description:
      "Walks the audit chain and names the first record that is not what was written. `fairlead audit verify` does the same to an export.",
    authScopes: { may: sees },
    complexity: { field: verifyCost, multiplier: 1 },
    args: {
      after: t.arg({ type: "BigInt", description: "Begins behind this record, which an earlier walk has reached." }),
    },
    resolve: (_root, args, { plane, signer, scope }) => {
      const after = Number(args.after ?? 0);
      if (!Number.isSafeInteger(after) || after < 0) throw invalidInput("after", "the number of a record, or 0");
      const deadline = plane.clock.monotonic() + verifyMs;
      return verifyAudit(plane.stores, scope, signer.keys, { after, stop: () => plane.clock.monotonic() > deadline });
    },
  }),
  auditKey: t.field({
    type: AuditKeyRef,
    authScopes: { may: sees },
    resolve: (_root, _args, { signer }) => signer.key,
  }),
}));
