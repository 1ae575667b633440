import { randomUUID } from "node:crypto";
import type { MemberId, TenantId } from "../../src/domain/ids.js";
import { type Permission, permissionTable } from "../../src/domain/permissions.js";
import type { Role } from "../../src/domain/roles.js";
import { type ApiScope, apiScopes, systemScope } from "../../src/domain/scope.js";
import type { CredentialOffice } from "../../src/governance/change-credentials.js";
import { createApiKey } from "../../src/governance/edit-api-keys.js";
import { inviteMember } from "../../src/governance/edit-members.js";
import { systemClock } from "../../src/platform/clock.js";
import { writeJoined } from "../../src/store/members.js";
import { withTenantTx } from "../../src/store/tx.js";
import { testRootKey, type World } from "./world.js";

export interface TestMember {
  readonly id: MemberId;
  readonly email: string;
  /** A key of theirs with every scope. */
  readonly key: string;
}

export function officeOf(world: World): CredentialOffice {
  const { stores } = world.plane;
  return { stores, rootKey: testRootKey, clock: systemClock, changed: () => {} };
}

/** Somebody who was invited and has signed in. */
export async function makeMember(world: World, tenantId: TenantId, role: Role): Promise<TestMember> {
  const email = `${randomUUID()}@example.com`;
  const scope = systemScope(tenantId);
  const id = await inviteMember(officeOf(world), scope, { email, role }, null);
  await withTenantTx(world.plane.stores, scope, (tx) =>
    writeJoined(tx, id, { issuer: "https://id.example.com", subject: email, name: null }),
  );
  return { id, email, key: await keyOf(world, tenantId, id) };
}

/** A key of a member or service account. */
export async function keyOf(
  world: World,
  tenantId: TenantId,
  ownerId: string,
  scopes: readonly ApiScope[] = apiScopes,
): Promise<string> {
  const input = { name: "test", scopes, expiresAt: null, ownerId };
  return (await createApiKey(world.plane.stores, testRootKey, systemScope(tenantId), input)).text;
}

export function rolesOf(permission: Permission): readonly Role[] {
  return permissionTable[permission].roles;
}
