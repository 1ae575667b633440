import { DomainError } from "../../domain/errors.js";
import type { DataKeyId } from "../../domain/ids.js";
import { operatorScope, type Scope } from "../../domain/scope.js";
import { uuidv7 } from "../../platform/random.js";
import type { Stores } from "../../store/client.js";
import {
  countOldVersions,
  deleteUnusedKeys,
  findDataKey,
  findKeysToRewrap,
  insertDataKey,
  type KeyName,
  lockActiveKey,
  lockDataKey,
  lockOldVersions,
  retireActiveKey,
  type SealedVersion,
  shareActiveKey,
  writeSealed,
  writeWrapped,
} from "../../store/secrets.js";
import { type TenantTx, withTenantTx } from "../../store/tx.js";
import { recordAuditIn } from "../record-audit.js";
import { type DataKey, type Keyring, newDataKey, openValue, sealValue, type ValuePlace } from "./envelope.js";

export interface SecretOffice {
  readonly stores: Stores;
  readonly keyring: Keyring;
}

const batch = 100;

/** Seals a value with the tenant's active key, which is made with the tenant's first secret. */
export async function sealIn(
  tx: TenantTx,
  keyring: Keyring,
  place: Omit<ValuePlace, "tenantId">,
  value: Buffer,
): Promise<{ readonly sealed: Buffer; readonly dataKeyId: DataKeyId }> {
  const dataKey = await activeKey(tx, keyring);
  try {
    return { sealed: sealValue(dataKey, { ...place, tenantId: tx.scope.tenantId }, value), dataKeyId: dataKey.id };
  } finally {
    dataKey.key.fill(0);
  }
}

async function activeKey(tx: TenantTx, keyring: Keyring): Promise<DataKey> {
  const { tenantId } = tx.scope;
  // Who waited for a rotation or for another first secret finds what that one made.
  for (let attempt = 1; attempt <= 3; attempt++) {
    const found = await shareActiveKey(tx);
    if (found) return keyring.unwrap(tenantId, found.id, found.wrapped);
    const made = newDataKey(tenantId, uuidv7() as DataKeyId);
    const row = { id: made.id, rootKeyId: keyring.currentId, wrapped: keyring.wrap(made) };
    if (await insertDataKey(tx, row)) return made;
  }
  throw new DomainError("UNAVAILABLE");
}

export interface Rewrapped {
  readonly rewrapped: number;
  /** Keys that could not be opened; they stay as they are. */
  readonly failed: readonly (KeyName & { readonly why: string })[];
}

/** Wraps every data key by the current root key. Each in a transaction of its own: whoever is stopped goes on where they were, and two do no harm. */
export async function rewrapDataKeys(
  { stores, keyring }: SecretOffice,
  onProgress: (rewrapped: number) => void = () => {},
): Promise<Rewrapped> {
  const failed: (KeyName & { why: string })[] = [];
  let rewrapped = 0;
  let after: KeyName | null = null;
  for (;;) {
    const names: KeyName[] = await findKeysToRewrap(stores, keyring.currentId, after, batch);
    for (const name of names) {
      try {
        if (await rewrapOne(stores, keyring, name)) rewrapped++;
      } catch (error) {
        if (!(error instanceof DomainError) || error.code !== "INTERNAL") throw error;
        failed.push({ ...name, why: error.message });
      }
      onProgress(rewrapped);
    }
    after = names.at(-1) ?? null;
    if (!after) return { rewrapped, failed };
  }
}

function rewrapOne(stores: Stores, keyring: Keyring, { tenantId, id }: KeyName): Promise<boolean> {
  return withTenantTx(stores, operatorScope(tenantId), async (tx) => {
    const stored = await lockDataKey(tx, id);
    if (!stored || stored.rootKeyId === keyring.currentId) return false;
    const dataKey = keyring.unwrap(tenantId, id, stored.wrapped);
    await writeWrapped(tx, { id, rootKeyId: keyring.currentId, wrapped: keyring.wrap(dataKey) });
    dataKey.key.fill(0);
    await recordAuditIn(tx, {
      action: "data_key.rewrap",
      targetKind: "data_key",
      targetId: id,
      detail: { from: stored.rootKeyId, to: keyring.currentId },
    });
    return true;
  });
}

export interface Resealed {
  readonly resealed: number;
  /** Somebody else was at them; the next call takes them. */
  readonly left: number;
}

/** Gives the tenant a new data key and seals all of its values with it. A rotation that was stopped is finished before another one begins. */
export async function rotateDataKey(
  { stores, keyring }: SecretOffice,
  scope: Scope,
  onProgress: (resealed: number) => void = () => {},
): Promise<Resealed> {
  await withTenantTx(stores, scope, (tx) => beginRotation(tx, keyring));
  let resealed = 0;
  for (;;) {
    const done = await withTenantTx(stores, scope, (tx) => resealSome(tx, keyring));
    if (done === 0) break;
    resealed += done;
    onProgress(resealed);
  }
  return withTenantTx(stores, scope, async (tx) => {
    const active = await shareActiveKey(tx);
    const left = active ? await countOldVersions(tx, active.id) : 0;
    const deleted = await deleteUnusedKeys(tx);
    if (active)
      await recordAuditIn(tx, {
        action: "data_key.reseal",
        targetKind: "data_key",
        targetId: active.id,
        detail: { resealed, left, deletedKeys: deleted },
      });
    return { resealed, left };
  });
}

async function beginRotation(tx: TenantTx, keyring: Keyring): Promise<void> {
  const active = await lockActiveKey(tx);
  if (!active || (await countOldVersions(tx, active.id)) > 0) return;
  await retireActiveKey(tx);
  const made = newDataKey(tx.scope.tenantId, uuidv7() as DataKeyId);
  await insertDataKey(tx, { id: made.id, rootKeyId: keyring.currentId, wrapped: keyring.wrap(made) });
  made.key.fill(0);
  await recordAuditIn(tx, {
    action: "data_key.rotate",
    targetKind: "data_key",
    targetId: made.id,
    detail: { retired: active.id },
  });
}

async function resealSome(tx: TenantTx, keyring: Keyring): Promise<number> {
  const active = await shareActiveKey(tx);
  if (!active) return 0;
  const versions = await lockOldVersions(tx, active.id, batch);
  for (const version of versions) {
    const value = await openIn(tx, keyring, version);
    const { sealed, dataKeyId } = await sealIn(tx, keyring, version, value);
    value.fill(0);
    await writeSealed(tx, version, dataKeyId, sealed);
  }
  return versions.length;
}

async function openIn(tx: TenantTx, keyring: Keyring, { secretId, number, sealed, dataKeyId }: SealedVersion) {
  const stored = dataKeyId && (await findDataKey(tx, dataKeyId));
  if (!stored || !sealed) throw new DomainError("INTERNAL", "The value of this version is gone.");
  const dataKey = keyring.unwrap(tx.scope.tenantId, stored.id, stored.wrapped);
  try {
    return openValue(dataKey, { tenantId: tx.scope.tenantId, secretId, number }, sealed);
  } finally {
    dataKey.key.fill(0);
  }
}
