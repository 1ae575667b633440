import type pg from "pg";
import type { MemberId, ServiceAccountId, TenantId } from "../domain/ids.js";
import type { Role } from "../domain/roles.js";
import type { Owner } from "../domain/scope.js";
import { actorName } from "./actor-name.js";
import type { TenantReads } from "./reads.js";
import type { TenantTx } from "./tx.js";

export const memberStatuses = ["invited", "active", "removed"] as const;
export type MemberStatus = (typeof memberStatuses)[number];

export interface Member {
  readonly id: MemberId;
  readonly email: string;
  readonly name: string | null;
  readonly role: Role;
  readonly status: MemberStatus;
  readonly version: number;
  readonly createdAt: Date;
  readonly joinedAt: Date | null;
}

const columns = `id, email, name, role, status, version, created_at as "createdAt", joined_at as "joinedAt"`;

/** False when the address has a member already. */
export async function insertMember(
  tx: TenantTx,
  member: { readonly id: MemberId; readonly email: string; readonly role: Role },
): Promise<boolean> {
  const rows = await tx.query(
    `insert into member (tenant_id, id, email, role, created_by) values ($1, $2, $3, $4, $5)
     on conflict (tenant_id, email) where status <> 'removed' do nothing returning id`,
    [tx.scope.tenantId, member.id, member.email, member.role, actorName(tx)],
  );
  return rows.length > 0;
}

/** Locks the tenant's active Owners, always before any other member and in one order: whoever takes one away sees how many are left. */
export async function lockOwners(tx: TenantTx): Promise<MemberId[]> {
  const rows = await tx.query<{ id: MemberId }>(
    "select id from member where tenant_id = $1 and role = 'owner' and status = 'active' order by id for update",
    [tx.scope.tenantId],
  );
  return rows.map(({ id }) => id);
}

/** Null when unknown or foreign. */
export async function lockMember(tx: TenantTx, id: MemberId): Promise<Member | null> {
  const rows = await tx.query<Member & pg.QueryResultRow>(
    `select ${columns} from member where tenant_id = $1 and id = $2 for update`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

export async function writeRole(tx: TenantTx, id: MemberId, role: Role): Promise<void> {
  await tx.query("update member set role = $3, version = version + 1 where tenant_id = $1 and id = $2", [
    tx.scope.tenantId,
    id,
    role,
  ]);
}

export async function writeRemoval(tx: TenantTx, id: MemberId): Promise<void> {
  await tx.query(
    "update member set status = 'removed', removed_at = clock_timestamp(), version = version + 1 where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id],
  );
}

/** Who signed in, as their provider says it. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  readonly name: string | null;
}

/** An invited member joins. False when somebody was faster, or this person has a place here already. */
export async function writeJoined(tx: TenantTx, id: MemberId, identity: Identity): Promise<boolean> {
  const rows = await tx.query(
    `update member m set status = 'active', issuer = $3, subject = $4, name = $5, joined_at = clock_timestamp(), version = version + 1
     where m.tenant_id = $1 and m.id = $2 and m.status = 'invited' and not exists (
       select from member o where o.tenant_id = $1 and o.issuer = $3 and o.subject = $4 and o.status <> 'removed')
     returning m.id`,
    [tx.scope.tenantId, id, identity.issuer, identity.subject, identity.name],
  );
  return rows.length > 0;
}

export interface Membership {
  readonly tenantId: TenantId;
  readonly tenantSlug: string;
  readonly memberId: MemberId;
  readonly status: MemberStatus;
}

/** The places of somebody who signed in, in all tenants: nobody is known yet. The address is given only when the provider has verified it. */
export async function findMemberships(
  pool: pg.Pool,
  issuer: string,
  subject: string,
  verifiedEmail: string | null,
): Promise<Membership[]> {
  const { rows } = await pool.query<Membership & pg.QueryResultRow>(
    `select tenant_id as "tenantId", tenant_slug as "tenantSlug", member_id as "memberId", status from member_find_v1($1, $2, $3)`,
    [issuer, subject, verifiedEmail],
  );
  return rows;
}

export async function listMembers(tenant: TenantReads): Promise<Member[]> {
  return tenant.query<Member & pg.QueryResultRow>(
    `select ${columns} from member where tenant_id = $1 order by created_at desc, id desc`,
    [tenant.scope.tenantId],
  );
}

export interface ServiceAccount {
  readonly id: ServiceAccountId;
  readonly name: string;
  readonly role: Role;
  readonly version: number;
  readonly removedAt: Date | null;
}

export async function insertServiceAccount(
  tx: TenantTx,
  account: { readonly id: ServiceAccountId; readonly name: string; readonly role: Role },
): Promise<void> {
  await tx.query("insert into service_account (tenant_id, id, name, role, created_by) values ($1, $2, $3, $4, $5)", [
    tx.scope.tenantId,
    account.id,
    account.name,
    account.role,
    actorName(tx),
  ]);
}

/** Null when unknown or foreign. */
export async function lockServiceAccount(tx: TenantTx, id: ServiceAccountId): Promise<ServiceAccount | null> {
  const rows = await tx.query<ServiceAccount & pg.QueryResultRow>(
    `select id, name, role, version, removed_at as "removedAt" from service_account where tenant_id = $1 and id = $2 for update`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

export async function writeServiceAccount(
  tx: TenantTx,
  id: ServiceAccountId,
  change: { readonly name: string; readonly role: Role },
): Promise<void> {
  await tx.query(
    "update service_account set name = $3, role = $4, version = version + 1 where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id, change.name, change.role],
  );
}

export async function writeServiceAccountRemoval(tx: TenantTx, id: ServiceAccountId): Promise<void> {
  await tx.query(
    "update service_account set removed_at = clock_timestamp(), version = version + 1 where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id],
  );
}

/** An owner that a key can have, locked against being removed meanwhile. */
export async function lockOwner(tx: TenantTx, id: string): Promise<{ owner: Owner; role: Role } | null> {
  for (const [kind, works] of [
    ["member", "status = 'active'"],
    ["service_account", "removed_at is null"],
  ] as const) {
    const [row] = await tx.query<{ role: Role }>(
      `select role from ${kind} where tenant_id = $1 and id = $2 and ${works} for share`,
      [tx.scope.tenantId, id],
    );
    if (row) return { owner: { kind, id } as Owner, role: row.role };
  }
  return null;
}

/** The public ids of an owner's keys that could still work. */
export async function keysOf(tx: TenantTx, owner: Owner): Promise<string[]> {
  const rows = await tx.query<{ publicId: string }>(
    `select public_id as "publicId" from api_key where tenant_id = $1 and ${owner.kind}_id = $2 and revoked_at is null`,
    [tx.scope.tenantId, owner.id],
  );
  return rows.map(({ publicId }) => publicId);
}
