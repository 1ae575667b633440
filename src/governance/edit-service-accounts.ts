import { DomainError, invalidInput } from "../domain/errors.js";
import { isUuid, type ServiceAccountId } from "../domain/ids.js";
import type { Role } from "../domain/roles.js";
import type { Scope } from "../domain/scope.js";
import { demandName } from "../domain/text.js";
import { uuidv7 } from "../platform/random.js";
import {
  insertServiceAccount,
  keysOf,
  lockServiceAccount,
  type ServiceAccount,
  writeServiceAccount,
  writeServiceAccountRemoval,
} from "../store/members.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";
import type { CredentialOffice } from "./change-credentials.js";
import { madeBefore, type OnceKey } from "./create-once.js";
import { demandGiving, demandVersion, tell } from "./edit-members.js";
import { recordAuditIn } from "./record-audit.js";

export async function createServiceAccount(
  office: CredentialOffice,
  scope: Scope,
  input: { readonly name: string; readonly role: Role },
  once: OnceKey | null,
): Promise<ServiceAccountId> {
  const id = uuidv7() as ServiceAccountId;
  return withTenantTx(office.stores, scope, async (tx) => {
    const before = await madeBefore(tx, "serviceAccountCreate", once, id);
    if (before) return before;
    refuseBadAccount(scope, input);
    await insertServiceAccount(tx, { id, ...input });
    await recordAuditIn(tx, {
      action: "service_account.create",
      targetKind: "service_account",
      targetId: id,
      detail: { name: input.name, role: input.role },
    });
    return id;
  });
}

export interface ServiceAccountChange {
  readonly id: string;
  /** Null leaves it. */
  readonly name: string | null;
  readonly role: Role | null;
  readonly expectedVersion: number;
}

export async function changeServiceAccount(
  office: CredentialOffice,
  scope: Scope,
  change: ServiceAccountChange,
): Promise<ServiceAccountId> {
  const { id, told } = await withTenantTx(office.stores, scope, async (tx) => {
    const account = await requireServiceAccount(tx, change.id);
    if (account.removedAt) throw invalidInput("id", "this service account was removed; create a new one");
    demandVersion(change.expectedVersion, account.version);
    const next = { name: change.name ?? account.name, role: change.role ?? account.role };
    if (next.name === account.name && next.role === account.role) return { id: account.id, told: [] };
    refuseBadAccount(scope, next);
    await writeServiceAccount(tx, account.id, next);
    const keys = await keysOf(tx, { kind: "service_account", id: account.id });
    await recordAuditIn(tx, {
      action: "service_account.change",
      targetKind: "service_account",
      targetId: account.id,
      detail: { from: { name: account.name, role: account.role }, to: next },
    });
    return { id: account.id, told: keys };
  });
  tell(office, told);
  return id;
}

/** Its keys are refused from then on. Removing a removed one changes nothing. */
export async function removeServiceAccount(
  office: CredentialOffice,
  scope: Scope,
  removal: { readonly id: string; readonly expectedVersion: number | null },
): Promise<ServiceAccountId> {
  const { id, told } = await withTenantTx(office.stores, scope, async (tx) => {
    const account = await requireServiceAccount(tx, removal.id);
    if (account.removedAt) return { id: account.id, told: [] };
    demandVersion(removal.expectedVersion, account.version);
    await writeServiceAccountRemoval(tx, account.id);
    const keys = await keysOf(tx, { kind: "service_account", id: account.id });
    await recordAuditIn(tx, {
      action: "service_account.remove",
      targetKind: "service_account",
      targetId: account.id,
      detail: { name: account.name, keys: keys.length },
    });
    return { id: account.id, told: keys };
  });
  tell(office, told);
  return id;
}

function refuseBadAccount(scope: Scope, account: { readonly name: string; readonly role: Role }): void {
  demandName(account.name);
  if (account.role === "owner") throw invalidInput("role", "a tenant is owned by people; choose another role");
  demandGiving(scope, "role", account.role);
}

async function requireServiceAccount(tx: TenantTx, text: string): Promise<ServiceAccount> {
  const id = text.toLowerCase() as ServiceAccountId;
  const account = isUuid(id) ? await lockServiceAccount(tx, id) : null;
  if (!account) throw new DomainError("NOT_FOUND", "id: there is no such service account.", { field: "id" });
  return account;
}
