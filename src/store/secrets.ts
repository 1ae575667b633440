import type pg from "pg";
import type { DataKeyId, SecretId, TenantId } from "../domain/ids.js";
import type { SecretVersionState } from "../domain/moves/secret-version.js";
import { actorName } from "./actor-name.js";
import type { Stores } from "./client.js";
import type { TenantTx } from "./tx.js";

export interface Secret {
  readonly id: SecretId;
  readonly name: string;
  readonly version: number;
  readonly lastNumber: number;
}

export interface SealedVersion {
  readonly secretId: SecretId;
  readonly number: number;
  readonly state: SecretVersionState;
  readonly sealed: Buffer | null;
  readonly dataKeyId: DataKeyId | null;
}

export interface WrappedKey {
  readonly id: DataKeyId;
  readonly rootKeyId: string;
  readonly wrapped: Buffer;
}

const keyColumns = `id, root_key_id as "rootKeyId", wrapped`;
const versionColumns = `secret_id as "secretId", number, state, sealed, data_key_id as "dataKeyId"`;

/** The key that seals new values, kept from being retired until the commit. Null before the tenant's first secret. */
export async function shareActiveKey(tx: TenantTx): Promise<WrappedKey | null> {
  const rows = await tx.query<WrappedKey & pg.QueryResultRow>(
    `select ${keyColumns} from data_key where tenant_id = $1 and state = 'active' for share`,
    [tx.scope.tenantId],
  );
  return rows[0] ?? null;
}

/** The same, for whoever retires it: waits until nobody seals with it any more. */
export async function lockActiveKey(tx: TenantTx): Promise<WrappedKey | null> {
  const rows = await tx.query<WrappedKey & pg.QueryResultRow>(
    `select ${keyColumns} from data_key where tenant_id = $1 and state = 'active' for no key update`,
    [tx.scope.tenantId],
  );
  return rows[0] ?? null;
}

/** False when somebody else made the tenant's active key first. */
export async function insertDataKey(tx: TenantTx, { id, rootKeyId, wrapped }: WrappedKey): Promise<boolean> {
  const rows = await tx.query(
    `insert into data_key (tenant_id, id, root_key_id, wrapped) values ($1, $2, $3, $4)
     on conflict (tenant_id) where state = 'active' do nothing returning id`,
    [tx.scope.tenantId, id, rootKeyId, wrapped],
  );
  return rows.length > 0;
}

export async function findDataKey(tx: TenantTx, id: DataKeyId): Promise<WrappedKey | null> {
  const rows = await tx.query<WrappedKey & pg.QueryResultRow>(
    `select ${keyColumns} from data_key where tenant_id = $1 and id = $2`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

export async function lockDataKey(tx: TenantTx, id: DataKeyId): Promise<WrappedKey | null> {
  const rows = await tx.query<WrappedKey & pg.QueryResultRow>(
    `select ${keyColumns} from data_key where tenant_id = $1 and id = $2 for no key update`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

export async function writeWrapped(tx: TenantTx, { id, rootKeyId, wrapped }: WrappedKey): Promise<void> {
  await tx.query(
    "update data_key set root_key_id = $3, wrapped = $4, rewrapped_at = clock_timestamp() where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id, rootKeyId, wrapped],
  );
}

export async function retireActiveKey(tx: TenantTx): Promise<void> {
  await tx.query("update data_key set state = 'retired' where tenant_id = $1 and state = 'active'", [
    tx.scope.tenantId,
  ]);
}

/** Retired keys that no value needs any more. */
export async function deleteUnusedKeys(tx: TenantTx): Promise<number> {
  const rows = await tx.query(
    `delete from data_key k where k.tenant_id = $1 and k.state = 'retired'
       and not exists (select from secret_version v where v.tenant_id = k.tenant_id and v.data_key_id = k.id) returning k.id`,
    [tx.scope.tenantId],
  );
  return rows.length;
}

/** Values that another key than the active one has sealed, locked; those that somebody else is at are left out. */
export async function lockOldVersions(tx: TenantTx, activeId: DataKeyId, limit: number): Promise<SealedVersion[]> {
  return tx.query<SealedVersion & pg.QueryResultRow>(
    `select ${versionColumns} from secret_version where tenant_id = $1 and data_key_id <> $2
     order by secret_id, number limit $3 for update skip locked`,
    [tx.scope.tenantId, activeId, limit],
  );
}

export async function countOldVersions(tx: TenantTx, activeId: DataKeyId): Promise<number> {
  const rows = await tx.query<{ count: number }>(
    "select count(*)::int as count from secret_version where tenant_id = $1 and data_key_id <> $2",
    [tx.scope.tenantId, activeId],
  );
  return rows[0]?.count ?? 0;
}

export async function writeSealed(
  tx: TenantTx,
  { secretId, number }: SealedVersion,
  dataKeyId: DataKeyId,
  sealed: Buffer,
): Promise<void> {
  await tx.query(
    "update secret_version set sealed = $4, data_key_id = $5 where tenant_id = $1 and secret_id = $2 and number = $3",
    [tx.scope.tenantId, secretId, number, sealed, dataKeyId],
  );
}

/** False when the name is taken. */
export async function insertSecret(tx: TenantTx, id: SecretId, name: string): Promise<boolean> {
  const rows = await tx.query(
    `insert into secret (tenant_id, id, name, created_by) values ($1, $2, $3, $4)
     on conflict (tenant_id, name) where deleted_at is null do nothing returning id`,
    [tx.scope.tenantId, id, name, actorName(tx)],
  );
  return rows.length > 0;
}

/** Null when unknown, foreign or deleted. */
export async function lockSecret(tx: TenantTx, id: SecretId): Promise<Secret | null> {
  const rows = await tx.query<Secret & pg.QueryResultRow>(
    `select id, name, version, last_number as "lastNumber" from secret where tenant_id = $1 and id = $2 and deleted_at is null for no key update`,
    [tx.scope.tenantId, id],
  );
  return rows[0] ?? null;
}

/** Every change of a secret raises its version. */
export async function touchSecret(tx: TenantTx, id: SecretId, lastNumber: number): Promise<void> {
  await tx.query("update secret set version = version + 1, last_number = $3 where tenant_id = $1 and id = $2", [
    tx.scope.tenantId,
    id,
    lastNumber,
  ]);
}

export async function insertVersion(
  tx: TenantTx,
  version: {
    readonly secretId: SecretId;
    readonly number: number;
    readonly sealed: Buffer;
    readonly dataKeyId: DataKeyId;
  },
): Promise<void> {
  await tx.query(
    "insert into secret_version (tenant_id, secret_id, number, sealed, data_key_id, created_by) values ($1, $2, $3, $4, $5, $6)",
    [tx.scope.tenantId, version.secretId, version.number, version.sealed, version.dataKeyId, actorName(tx)],
  );
}

export async function lockVersion(tx: TenantTx, secretId: SecretId, number: number): Promise<SealedVersion | null> {
  const rows = await tx.query<SealedVersion & pg.QueryResultRow>(
    `select ${versionColumns} from secret_version where tenant_id = $1 and secret_id = $2 and number = $3 for update`,
    [tx.scope.tenantId, secretId, number],
  );
  return rows[0] ?? null;
}

/** The version of before, if there was one, is deprecated first: there is never more than one active. */
export async function writeActive(tx: TenantTx, secretId: SecretId, number: number): Promise<number | null> {
  const { tenantId } = tx.scope;
  const before = await tx.query<{ number: number }>(
    "update secret_version set state = 'deprecated' where tenant_id = $1 and secret_id = $2 and state = 'active' returning number",
    [tenantId, secretId],
  );
  await tx.query(
    "update secret_version set state = 'active', activated_at = clock_timestamp() where tenant_id = $1 and secret_id = $2 and number = $3",
    [tenantId, secretId, number],
  );
  return before[0]?.number ?? null;
}

export async function writeDeprecated(tx: TenantTx, secretId: SecretId, number: number): Promise<void> {
  await tx.query(
    "update secret_version set state = 'deprecated' where tenant_id = $1 and secret_id = $2 and number = $3",
    [tx.scope.tenantId, secretId, number],
  );
}

/** The sealed value goes with the state. Null: all versions of the secret. */
export async function writeDestroyed(tx: TenantTx, secretId: SecretId, number: number | null): Promise<number> {
  const rows = await tx.query(
    `update secret_version set state = 'destroyed', sealed = null, data_key_id = null, destroyed_at = clock_timestamp()
     where tenant_id = $1 and secret_id = $2 and ($3::int is null or number = $3) and state <> 'destroyed' returning number`,
    [tx.scope.tenantId, secretId, number],
  );
  return rows.length;
}

export async function writeSecretDeleted(tx: TenantTx, id: SecretId): Promise<void> {
  await tx.query(
    "update secret set deleted_at = clock_timestamp(), version = version + 1 where tenant_id = $1 and id = $2",
    [tx.scope.tenantId, id],
  );
}

export interface KeyName {
  readonly tenantId: TenantId;
  readonly id: DataKeyId;
}

/** Data keys of all tenants that another root key has wrapped, after a place in their order. */
export async function findKeysToRewrap(
  stores: Stores,
  currentRootKeyId: string,
  after: KeyName | null,
  limit: number,
): Promise<KeyName[]> {
  const { rows } = await stores.sweep.query<KeyName & pg.QueryResultRow>(
    `select tenant_id as "tenantId", id from data_key where root_key_id <> $1
       and ($2::uuid is null or (tenant_id, id) > ($2, $3::uuid)) order by tenant_id, id limit $4`,
    [currentRootKeyId, after?.tenantId ?? null, after?.id ?? null, limit],
  );
  return rows;
}

/** How many data keys each root key has wrapped. */
export async function countByRootKey(stores: Stores): Promise<{ rootKeyId: string; keys: number }[]> {
  const { rows } = await stores.sweep.query<{ rootKeyId: string; keys: number }>(
    `select root_key_id as "rootKeyId", count(*)::int as keys from data_key group by 1 order by 1`,
  );
  return rows;
}
