import { createHash, createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign, verify } from "node:crypto";
import { invalidInput } from "../../domain/errors.js";

// The installation's Ed25519 key. It is made from a secret outside of the database (FAIRLEAD_AUDIT_KEY, else the root key), so that who holds the
// database alone cannot sign a history of their own; and the same secret gives the same key on every replica and in every command.

export interface AuditKey {
  readonly keyId: string;
  /** SPKI, PEM. */
  readonly publicKey: string;
  sign(text: string): Buffer;
}

/** Public keys by their ids: the installation's own, and earlier ones. */
export type AuditPublicKeys = ReadonlyMap<string, KeyObject>;

// The fixed head of an Ed25519 private key in PKCS #8; the 32 bytes of the seed follow.
const pkcs8Head = Buffer.from("302e020100300506032b657004220420", "hex");

export function auditKeyFrom(secret: string): AuditKey {
  const seed = Buffer.from(hkdfSync("sha256", secret, "", "fairlead audit signing key", 32));
  const privateKey = createPrivateKey({ key: Buffer.concat([pkcs8Head, seed]), format: "der", type: "pkcs8" });
  const publicKey = createPublicKey(privateKey);
  return {
    keyId: keyIdOf(publicKey),
    publicKey: publicKey.export({ type: "spki", format: "pem" }).toString(),
    sign: (text) => sign(null, Buffer.from(text), privateKey),
  };
}

/** The installation's key, and all that its checkpoints may be signed with. */
export function auditKeysOf(config: {
  readonly rootKey: string;
  readonly auditKey?: string | undefined;
  /** PEM of earlier keys. */
  readonly auditPublicKeys?: string | undefined;
}): { key: AuditKey; keys: AuditPublicKeys } {
  const key = auditKeyFrom(config.auditKey ?? config.rootKey);
  return { key, keys: readPublicKeys(`${config.auditPublicKeys ?? ""}\n${key.publicKey}`) };
}

/** One or more public keys, as PEM one after the other. */
export function readPublicKeys(pem: string): AuditPublicKeys {
  const found = pem.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g) ?? [];
  const keys = found.map((text) => {
    try {
      return createPublicKey(text);
    } catch {
      throw notAKey();
    }
  });
  if (keys.length === 0 || keys.some((key) => key.asymmetricKeyType !== "ed25519")) throw notAKey();
  return new Map(keys.map((key) => [keyIdOf(key), key]));
}

function notAKey() {
  return invalidInput("public key", "Ed25519 keys in PEM, as `fairlead audit key` prints them");
}

function keyIdOf(publicKey: KeyObject): string {
  const raw = publicKey.export({ type: "spki", format: "der" }).subarray(-32);
  return createHash("sha256").update(raw).digest("hex").slice(0, 16);
}

export type SignatureState = "good" | "bad" | "unknown_key";

export function checkSignature(keys: AuditPublicKeys, keyId: string, text: string, signature: Buffer): SignatureState {
  const key = keys.get(keyId);
  if (!key) return "unknown_key";
  return verify(null, Buffer.from(text), key, signature) ? "good" : "bad";
}
