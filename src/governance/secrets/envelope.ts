import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { DomainError } from "../../domain/errors.js";
import type { DataKeyId, SecretId, TenantId } from "../../domain/ids.js";

// How values are sealed. AES-256-GCM with a random 96-bit nonce and a tag of 16 bytes, always. What is sealed is bound to its place: moved to another
// tenant, secret or version, it does not open.
//
//   value:    format (1), data key id (16), nonce (12), ciphertext, tag (16)
//   data key: format (1), root key id (8), nonce (12), ciphertext (32), tag (16)

const format = 1;
const nonceBytes = 12;
const tagBytes = 16;
const keyBytes = 32;
const rootIdBytes = 8;
const wrappedBytes = 1 + rootIdBytes + nonceBytes + keyBytes + tagBytes;

interface RootKey {
  readonly id: Buffer;
  readonly key: Buffer;
}

/** The root keys: the first wraps, all of them unwrap. They are in no database. */
export interface Keyring {
  readonly currentId: string;
  has(rootKeyId: string): boolean;
  wrap(dataKey: DataKey): Buffer;
  unwrap(tenantId: TenantId, id: DataKeyId, wrapped: Buffer): DataKey;
  /** Tells whether two values are the same without saying anything about either to who has the database alone. */
  digest(tenantId: TenantId, value: string): string;
}

export interface DataKey {
  readonly tenantId: TenantId;
  readonly id: DataKeyId;
  readonly key: Buffer;
}

/** Where a value belongs. */
export interface ValuePlace {
  readonly tenantId: TenantId;
  readonly secretId: SecretId;
  readonly number: number;
}

export function createKeyring(texts: readonly string[]): Keyring {
  const keys = texts.map((text): RootKey => {
    const derive = (use: string, bytes: number) => Buffer.from(hkdfSync("sha256", text, "", use, bytes));
    return { id: derive("fairlead secrets root key id", rootIdBytes), key: derive("fairlead secrets root key", 32) };
  });
  const current = keys[0];
  if (!current) throw new DomainError("INTERNAL", "A keyring needs a key.");
  const digestKey = createHmac("sha256", current.key).update("fairlead secrets digest").digest();
  return {
    currentId: current.id.toString("hex"),
    has: (rootKeyId) => keys.some(({ id }) => id.toString("hex") === rootKeyId),
    wrap: ({ tenantId, id, key }) => {
      const head = Buffer.concat([Buffer.from([format]), current.id]);
      return seal(current.key, head, key, keyPlace(tenantId, id));
    },
    unwrap: (tenantId, id, wrapped) => {
      if (wrapped.length !== wrappedBytes) throw unreadable();
      const rootId = wrapped.subarray(1, 1 + rootIdBytes);
      const root = keys.find((key) => key.id.equals(rootId));
      if (!root)
        throw new DomainError(
          "INTERNAL",
          `The root key ${rootId.toString("hex")} is not in FAIRLEAD_SECRETS_KEYS; add it behind the current one.`,
        );
      return { tenantId, id, key: open(root.key, 1 + rootIdBytes, wrapped, keyPlace(tenantId, id)) };
    },
    digest: (tenantId, value) =>
      createHmac("sha256", digestKey)
        .update(lengths([tenantId, value]))
        .digest("hex"),
  };
}

/** Which root key wrapped it. */
export function rootKeyIdOf(wrapped: Buffer): string {
  return wrapped.subarray(1, 1 + rootIdBytes).toString("hex");
}

export function newDataKey(tenantId: TenantId, id: DataKeyId): DataKey {
  return { tenantId, id, key: randomBytes(keyBytes) };
}

export function sealValue(dataKey: DataKey, place: ValuePlace, value: Buffer): Buffer {
  return seal(dataKey.key, valueHead(dataKey.id), value, valuePlace(place));
}

/** The only function that opens a value. */
export function openValue(dataKey: DataKey, place: ValuePlace, sealed: Buffer): Buffer {
  const head = valueHead(dataKey.id);
  if (sealed.length < head.length || !sealed.subarray(0, head.length).equals(head)) throw unreadable();
  return open(dataKey.key, head.length, sealed, valuePlace(place));
}

const valueHead = (id: DataKeyId): Buffer =>
  Buffer.concat([Buffer.from([format]), Buffer.from(id.replaceAll("-", ""), "hex")]);
const keyPlace = (tenantId: TenantId, id: DataKeyId) => lengths(["fairlead data key", tenantId, id]);
const valuePlace = ({ tenantId, secretId, number }: ValuePlace) =>
  lengths(["fairlead secret value", tenantId, secretId, String(number)]);

/** Each part behind its length, so that no two lists give the same bytes. */
function lengths(parts: readonly string[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

function seal(key: Buffer, head: Buffer, plain: Buffer, place: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(Buffer.concat([head, place]));
  return Buffer.concat([head, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function open(key: Buffer, headBytes: number, sealed: Buffer, place: Buffer): Buffer {
  if (sealed.length < headBytes + nonceBytes + tagBytes || sealed[0] !== format) throw unreadable();
  const body = headBytes + nonceBytes;
  const opener = createDecipheriv("aes-256-gcm", key, sealed.subarray(headBytes, body), { authTagLength: tagBytes });
  opener.setAAD(Buffer.concat([sealed.subarray(0, headBytes), place]));
  opener.setAuthTag(sealed.subarray(-tagBytes));
  try {
    return Buffer.concat([opener.update(sealed.subarray(body, -tagBytes)), opener.final()]);
  } catch {
    throw unreadable();
  }
}

/** Says nothing of what was read. */
function unreadable(): DomainError {
  return new DomainError("INTERNAL", "What is stored of a secret was changed, or is not in its place.");
}
