import { createHash } from "node:crypto";
import { DomainError } from "../domain/errors.js";
import type { CredentialId, SessionId, TenantId } from "../domain/ids.js";
import { type Scope, systemScope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import { findMemberships, lockMember, type Membership, writeJoined } from "../store/members.js";
import { endSession, insertSession } from "../store/sessions.js";
import { withTenantTx } from "../store/tx.js";
import type { CredentialOffice } from "./change-credentials.js";
import { hashSecret, makeCredential, parseCredential } from "./credential-text.js";
import { recordAuditIn } from "./record-audit.js";

// Issuer and subject are who somebody is. An address is looked at once, to find the invitation of somebody who joins, and only when the provider has
// verified it. Everything is refused before anything is written.

export interface SignedIn {
  readonly issuer: string;
  readonly subject: string;
  readonly verifiedEmail: string | null;
  readonly name: string | null;
}

export interface SessionRequest {
  readonly identity: SignedIn;
  /** The slug of the tenant that was asked for; null when none was. */
  readonly tenant: string | null;
  /** What the sign-in began with: it makes one session. */
  readonly state: string;
  readonly lifeMs: number;
}

/** Starts a session. The text goes into a cookie and is stored as a keyed hash only. */
export async function startSession(
  office: CredentialOffice,
  request: SessionRequest,
): Promise<{ text: string; expiresAt: Date }> {
  const { identity } = request;
  const { issuer, subject } = identity;
  const found = await findMemberships(office.stores.app, issuer, subject, identity.verifiedEmail);
  const { tenantId, memberId } = choose(found, request.tenant);
  const credential = makeCredential("session");
  const expiresAt = new Date(office.clock.now() + request.lifeMs);
  await withTenantTx(office.stores, memberScope(tenantId, memberId), async (tx) => {
    const joins = await writeJoined(tx, memberId, identity);
    const member = await lockMember(tx, memberId);
    if (member?.status !== "active") throw notInvited();
    const id = uuidv7() as SessionId;
    const isFirst = await insertSession(tx, {
      id,
      memberId,
      publicId: credential.publicId,
      secretHash: hashSecret(office.rootKey, credential.secret),
      signInHash: createHash("sha256").update(request.state).digest(),
      expiresAt,
    });
    if (!isFirst) throw new DomainError("UNAUTHENTICATED", "This sign-in was used already; sign in again.");
    await recordAuditIn(tx, {
      action: joins ? "member.join" : "session.start",
      targetKind: "member",
      targetId: memberId,
      detail: { issuer, session: id, ...(joins ? { subject, email: member.email } : {}) },
    });
  });
  return { text: credential.text, expiresAt };
}

/** Ends a session, on every process within five seconds. One that is over already stays over. */
export async function finishSession(office: CredentialOffice, scope: Scope, text: string): Promise<void> {
  const publicId = parseCredential(text)?.publicId;
  if (publicId === undefined) return;
  await withTenantTx(office.stores, scope, async (tx) => {
    const id = await endSession(tx, publicId);
    if (id && scope.owner)
      await recordAuditIn(tx, {
        action: "session.end",
        targetKind: "member",
        targetId: scope.owner.id,
        detail: { session: id },
      });
  });
  office.changed(publicId);
}

/** The place that is meant: where somebody is a member comes before where they are only invited. */
function choose(found: readonly Membership[], tenant: string | null): Membership {
  const meant = tenant === null ? found : found.filter(({ tenantSlug }) => tenantSlug === tenant);
  const active = meant.filter(({ status }) => status === "active");
  const [first, ...others] = active.length > 0 ? active : meant;
  if (!first) throw notInvited();
  if (others.some(({ tenantSlug }) => tenantSlug !== first.tenantSlug)) {
    const slugs = [first, ...others].map(({ tenantSlug }) => tenantSlug).join(", ");
    throw new DomainError(
      "INVALID_INPUT",
      `tenant: name one of ${slugs}, as in /auth/login?tenant=${first.tenantSlug}`,
      {
        field: "tenant",
      },
    );
  }
  return first;
}

function notInvited(): DomainError {
  return new DomainError(
    "FORBIDDEN",
    "You are not a member here: ask an Owner or Admin for an invitation to the address that your provider has verified.",
  );
}

function memberScope(tenantId: TenantId, memberId: string): Scope {
  return { ...systemScope(tenantId), actor: { kind: "member", id: memberId as CredentialId } };
}
