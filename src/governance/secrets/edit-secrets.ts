import { DomainError, invalidInput } from "../../domain/errors.js";
import { isUuid, type SecretId } from "../../domain/ids.js";
import { canMove } from "../../domain/moves/machine.js";
import { type SecretVersionMove, secretVersionMoves } from "../../domain/moves/secret-version.js";
import type { Scope } from "../../domain/scope.js";
import { uuidv7 } from "../../platform/random.js";
import {
  insertSecret,
  insertVersion,
  lockSecret,
  lockVersion,
  type Secret,
  touchSecret,
  writeActive,
  writeDeprecated,
  writeDestroyed,
  writeSecretDeleted,
} from "../../store/secrets.js";
import { type TenantTx, withTenantTx } from "../../store/tx.js";
import { madeBefore, type OnceKey } from "../create-once.js";
import { demandVersion } from "../edit-members.js";
import { recordAuditIn } from "../record-audit.js";
import { type SecretOffice, sealIn } from "./data-keys.js";

// Nothing here says a value, its length or anything made from it: not in an answer, an error, a log or a record.

const valueCharsMin = 6;
const valueBytesMax = 65_536;

/** Keeps a value under a new name. Its first version is active at once: nothing uses another. */
export async function createSecret(
  { stores, keyring }: SecretOffice,
  scope: Scope,
  { name, value }: { readonly name: string; readonly value: string },
  once: OnceKey | null,
): Promise<SecretId> {
  if (!/^[A-Za-z][A-Za-z0-9_.-]{0,127}$/.test(name))
    throw invalidInput("name", "a letter, then at most 127 characters of A-Z a-z 0-9 _ . -");
  const bytes = bytesOf(value);
  const id = uuidv7() as SecretId;
  // The hash of a request is kept, and a plain hash of a short value could be guessed at.
  const kept = once && { key: once.key, input: { ...once.input, value: keyring.digest(scope.tenantId, value) } };
  return withTenantTx(stores, scope, async (tx) => {
    const before = await madeBefore(tx, "secretCreate", kept, id);
    if (before) return (await requireSecret(tx, before)).id;
    if (!(await insertSecret(tx, id, name)))
      throw new DomainError("SECRET_EXISTS", "name: there is a secret with this name already; put a version to it.", {
        field: "name",
      });
    await insertVersion(tx, {
      secretId: id,
      number: 1,
      ...(await sealIn(tx, keyring, { secretId: id, number: 1 }, bytes)),
    });
    await writeActive(tx, id, 1);
    await touchSecret(tx, id, 1);
    await audit(tx, "secret.create", id, { name });
    return id;
  });
}

export interface SecretChange {
  readonly id: string;
  readonly expectedVersion: number | null;
}

/** Adds a version. Staged, unless it is to be the active one at once. */
export async function putSecretVersion(
  { stores, keyring }: SecretOffice,
  scope: Scope,
  change: SecretChange & { readonly value: string; readonly activate: boolean },
): Promise<{ readonly id: SecretId; readonly number: number }> {
  const bytes = bytesOf(change.value);
  return changeSecret(stores, scope, change, async (tx, secret) => {
    const place = { secretId: secret.id, number: secret.lastNumber + 1 };
    await insertVersion(tx, { ...place, ...(await sealIn(tx, keyring, place, bytes)) });
    const deprecated = change.activate ? await writeActive(tx, secret.id, place.number) : null;
    await touchSecret(tx, secret.id, place.number);
    const { name } = secret;
    await audit(tx, "secret.put_version", secret.id, {
      name,
      number: place.number,
      activate: change.activate,
      deprecated,
    });
    return { id: secret.id, number: place.number };
  });
}

/** Activating one deprecates the one of before; destroying one erases its sealed value. */
export async function moveSecretVersion(
  { stores }: SecretOffice,
  scope: Scope,
  change: SecretChange & { readonly number: number; readonly move: SecretVersionMove },
): Promise<SecretId> {
  const { number, move } = change;
  const { to } = secretVersionMoves[move];
  return changeSecret(stores, scope, change, async (tx, secret) => {
    const version = await lockVersion(tx, secret.id, number);
    if (!version) throw new DomainError("NOT_FOUND", "number: the secret has no such version.", { field: "number" });
    if (version.state === to) return secret.id;
    if (!canMove(secretVersionMoves, move, version.state))
      throw invalidInput("number", `version ${number} is ${version.state} and cannot become ${to}; choose another one`);
    const deprecated = to === "active" ? await writeActive(tx, secret.id, number) : null;
    if (to === "deprecated") await writeDeprecated(tx, secret.id, number);
    if (to === "destroyed") await writeDestroyed(tx, secret.id, number);
    await touchSecret(tx, secret.id, secret.lastNumber);
    const detail = { name: secret.name, number, from: version.state, to, deprecated };
    await audit(tx, "secret.move_version", secret.id, detail);
    return secret.id;
  });
}

/** Destroys all versions and frees the name. */
export async function deleteSecret({ stores }: SecretOffice, scope: Scope, change: SecretChange): Promise<SecretId> {
  return changeSecret(stores, scope, change, async (tx, secret) => {
    const destroyed = await writeDestroyed(tx, secret.id, null);
    await writeSecretDeleted(tx, secret.id);
    await audit(tx, "secret.delete", secret.id, { name: secret.name, destroyed });
    return secret.id;
  });
}

function changeSecret<Result>(
  stores: SecretOffice["stores"],
  scope: Scope,
  { id, expectedVersion }: SecretChange,
  work: (tx: TenantTx, secret: Secret) => Promise<Result>,
): Promise<Result> {
  return withTenantTx(stores, scope, async (tx) => {
    const secret = await requireSecret(tx, id);
    demandVersion(expectedVersion, secret.version);
    return work(tx, secret);
  });
}

async function requireSecret(tx: TenantTx, text: string): Promise<Secret> {
  const id = text.toLowerCase() as SecretId;
  const secret = isUuid(id) ? await lockSecret(tx, id) : null;
  if (!secret) throw new DomainError("NOT_FOUND", "id: there is no such secret.", { field: "id" });
  return secret;
}

/** Shorter ones cannot be told from ordinary text when they must be kept out of it. */
function bytesOf(value: string): Buffer {
  const bytes = Buffer.from(value);
  if (value.length < valueCharsMin || bytes.length > valueBytesMax)
    throw invalidInput("value", `${valueCharsMin} characters to ${valueBytesMax} bytes`);
  if (/\p{Surrogate}/u.test(value)) throw invalidInput("value", "holds half of a character; send whole ones");
  return bytes;
}

function audit(tx: TenantTx, action: string, targetId: string, detail: Readonly<Record<string, unknown>>) {
  return recordAuditIn(tx, { action, targetKind: "secret", targetId, detail });
}
