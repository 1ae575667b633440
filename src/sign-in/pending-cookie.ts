import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import type { PendingSignIn } from "../platform/oidc.js";

// What a sign-in began with stays with the browser that began it, sealed: nobody else can finish it, and the plane keeps nothing for those who never do.

export interface Pending extends PendingSignIn {
  readonly returnTo: string;
  readonly tenant: string | null;
  readonly startedAt: number;
}

export const pendingLifeMs = 600_000;

export function sealPending(rootKey: string, pending: Pending): string {
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", keyOf(rootKey), nonce, { authTagLength: 16 });
  const body = Buffer.concat([cipher.update(JSON.stringify(pending), "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64url");
}

/** Null for what was not sealed here, or too long ago. */
export function openPending(rootKey: string, text: string, now: number): Pending | null {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.length < 29) return null;
  try {
    const opener = createDecipheriv("aes-256-gcm", keyOf(rootKey), bytes.subarray(0, 12), { authTagLength: 16 });
    opener.setAuthTag(bytes.subarray(12, 28));
    const body = Buffer.concat([opener.update(bytes.subarray(28)), opener.final()]).toString("utf8");
    const pending = JSON.parse(body) as Pending;
    return now - pending.startedAt > pendingLifeMs ? null : pending;
  } catch {
    return null;
  }
}

function keyOf(rootKey: string): Buffer {
  return createHmac("sha256", rootKey).update("fairlead sign-in cookie").digest();
}
