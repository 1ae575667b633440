import { createHmac, hash, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import { randomText } from "../platform/random.js";

// flk_<env>_<id 10>_<secret 32><crc 6> for clients, flr_… for runners, fls_… in the cookie of a signed-in member. The id is public and is the look-up handle; the
// checksum lets a typing error be refused without a look-up and secret scanners be sure.

export type CredentialKind = "api_key" | "runner_token" | "session";
const prefixes: Record<CredentialKind, string> = { api_key: "flk", runner_token: "flr", session: "fls" };
const kinds: Readonly<Record<string, CredentialKind>> = { flk: "api_key", flr: "runner_token", fls: "session" };
const pattern = /^(flk|flr|fls)_([a-z]{2,8})_([0-9A-Za-z]{10})_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/;

export interface ParsedCredential {
  readonly kind: CredentialKind;
  readonly publicId: string;
  readonly secret: string;
}

export interface NewCredential extends ParsedCredential {
  /** The whole text, shown once. */
  readonly text: string;
  readonly last4: string;
}

export function makeCredential(kind: CredentialKind, environment = "live"): NewCredential {
  return writeCredential(kind, environment, randomText(10));
}

/** A new secret for an existing id. */
export function writeCredential(kind: CredentialKind, environment: string, publicId: string): NewCredential {
  const secret = randomText(32);
  const head = `${prefixes[kind]}_${environment}_${publicId}_${secret}`;
  const text = `${head}${checksum(head)}`;
  return { kind, publicId, secret, text, last4: text.slice(-4) };
}

export function parseCredential(text: string): ParsedCredential | null {
  const match = pattern.exec(text);
  if (!match) return null;
  const [, prefix, , publicId, secret, crc] = match as unknown as [string, string, string, string, string, string];
  if (checksum(text.slice(0, -6)) !== crc) return null;
  return { kind: kinds[prefix] as CredentialKind, publicId, secret };
}

function checksum(text: string): string {
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  let rest = crc32(text);
  let out = "";
  for (let i = 0; i < 6; i++) {
    out = alphabet[rest % 62] + out;
    rest = Math.floor(rest / 62);
  }
  return out;
}

/** What is stored of a secret: useless without the root key. */
export function hashSecret(rootKey: string, secret: string): Buffer {
  return createHmac("sha256", rootKey).update(secret).digest();
}

/** Tells a secret that was proven before from others, at a fraction of the keyed hash's cost. Only for memory: it is never stored. */
export function digestSecret(secret: string): Buffer {
  return hash("sha256", secret, "buffer");
}

export function sameHash(a: Buffer, b: Buffer | null): boolean {
  return b !== null && a.length === b.length && timingSafeEqual(a, b);
}
