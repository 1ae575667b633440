import { DomainError, invalidInput } from "../domain/errors.js";
import { isUuid, type MemberId } from "../domain/ids.js";
import { demand, exceeding } from "../domain/permissions.js";
import { type Role, roleTitles } from "../domain/roles.js";
import { apiScopes, type Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import {
  insertMember,
  keysOf,
  lockMember,
  lockOwners,
  type Member,
  writeRemoval,
  writeRole,
} from "../store/members.js";
import { endSessionsOf, sessionsOf } from "../store/sessions.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";
import type { CredentialOffice } from "./change-credentials.js";
import { madeBefore, type OnceKey } from "./create-once.js";
import { recordAuditIn } from "./record-audit.js";

// A member's rights are read wherever one of their credentials is used, so a change here holds for their keys and sessions too, everywhere within five
// seconds; `office.changed` makes it hold at once where the live channel works.

/** Rights are given and taken only by those who have them. */
export function demandGiving(scope: Scope, field: string, ...given: readonly Role[]): void {
  if (given.includes("owner")) demand(scope, "owners:write");
  for (const role of given) {
    const more = exceeding(scope, { scopes: new Set(apiScopes), role });
    if (more.length > 0) {
      throw new DomainError(
        "FORBIDDEN",
        `${field}: the role ${roleTitles[role]} includes ${more.join(", ")}, which the caller may not; choose another role, or ask an Owner.`,
        { field },
      );
    }
  }
}

/** Makes a place for whoever signs in with this address, verified by their provider. */
export async function inviteMember(
  office: CredentialOffice,
  scope: Scope,
  input: { readonly email: string; readonly role: Role },
  once: OnceKey | null,
): Promise<MemberId> {
  const id = uuidv7() as MemberId;
  return withTenantTx(office.stores, scope, async (tx) => {
    const before = await madeBefore(tx, "memberInvite", once, id);
    if (before) return before;
    const email = readEmail(input.email);
    demandGiving(scope, "role", input.role);
    if (!(await insertMember(tx, { id, email, role: input.role }))) {
      throw new DomainError("MEMBER_EXISTS", "email: somebody with this address is invited or a member already.", {
        field: "email",
      });
    }
    await recordAuditIn(tx, {
      action: "member.invite",
      targetKind: "member",
      targetId: id,
      detail: { email, role: input.role },
    });
    return id;
  });
}

/** ASCII only: two addresses that look alike must not be two people, nor one address two spellings. */
function readEmail(text: string): string {
  const email = text.trim().toLowerCase();
  if (!/^[\x21-\x3f\x41-\x7e]{1,64}@[a-z0-9.-]{1,190}$/.test(email))
    throw invalidInput("email", "an address such as ada@example.com, in ASCII");
  return email;
}

export interface RoleChange {
  readonly id: string;
  readonly role: Role;
  /** The version that the caller has seen, if they have. */
  readonly expectedVersion: number | null;
}

export async function changeMemberRole(office: CredentialOffice, scope: Scope, change: RoleChange): Promise<MemberId> {
  const { id, told } = await withTenantTx(office.stores, scope, async (tx) => {
    const { member, owners } = await requireMember(tx, change.id);
    if (member.status === "removed") throw invalidInput("id", "this member was removed; invite them again");
    demandVersion(change.expectedVersion, member.version);
    if (member.role === change.role) return { id: member.id, told: [] };
    demandGiving(scope, "role", change.role, ...(member.role === "owner" ? (["owner"] as const) : []));
    keepAnOwner(member, owners);
    await writeRole(tx, member.id, change.role);
    const keys = await keysOf(tx, { kind: "member", id: member.id });
    const sessions = await sessionsOf(tx, member.id);
    await recordAuditIn(tx, {
      action: "member.role",
      targetKind: "member",
      targetId: member.id,
      detail: { from: member.role, to: change.role },
    });
    return { id: member.id, told: [...sessions, ...keys] };
  });
  tell(office, told);
  return id;
}

/** Takes somebody's place away: their sessions end, their keys are refused. Removing a removed one changes nothing. */
export async function removeMember(
  office: CredentialOffice,
  scope: Scope,
  removal: { readonly id: string; readonly expectedVersion: number | null },
): Promise<MemberId> {
  const { id, told } = await withTenantTx(office.stores, scope, async (tx) => {
    const { member, owners } = await requireMember(tx, removal.id);
    if (member.status === "removed") return { id: member.id, told: [] };
    demandVersion(removal.expectedVersion, member.version);
    if (member.role === "owner") demand(scope, "owners:write");
    keepAnOwner(member, owners);
    await writeRemoval(tx, member.id);
    const sessions = await endSessionsOf(tx, member.id);
    const keys = await keysOf(tx, { kind: "member", id: member.id });
    await recordAuditIn(tx, {
      action: "member.remove",
      targetKind: "member",
      targetId: member.id,
      detail: { role: member.role, keys: keys.length, sessions: sessions.length },
    });
    return { id: member.id, told: [...sessions, ...keys] };
  });
  tell(office, told);
  return id;
}

export function tell(office: CredentialOffice, publicIds: readonly string[]): void {
  for (const publicId of publicIds) office.changed(publicId);
}

/** Null: whoever asks has not looked before. */
export function demandVersion(expected: number | null, version: number): void {
  if (expected === null || expected === version) return;
  throw new DomainError(
    "VERSION_CONFLICT",
    `expectedVersion: it changed since it was read and is at version ${version} now; read it again.`,
    { field: "expectedVersion" },
  );
}

function keepAnOwner(member: Member, owners: readonly MemberId[]): void {
  if (owners.length > 1 || !owners.includes(member.id)) return;
  throw new DomainError("LAST_OWNER", "id: this is the tenant's last Owner; make somebody else an Owner first.", {
    field: "id",
  });
}

async function requireMember(tx: TenantTx, text: string): Promise<{ member: Member; owners: MemberId[] }> {
  const id = text.toLowerCase() as MemberId;
  const owners = await lockOwners(tx);
  const member = isUuid(id) ? await lockMember(tx, id) : null;
  if (!member) throw new DomainError("NOT_FOUND", "id: there is no such member.", { field: "id" });
  return { member, owners };
}
