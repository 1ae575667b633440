import { DomainError } from "../domain/errors.js";
import type { RunnerScope, Scope } from "../domain/scope.js";
import type { Clock } from "../platform/clock.js";
import type { Stores } from "../store/client.js";
import { findApiKey, findRunnerToken, type StoredCredential } from "../store/credentials.js";
import { type CredentialKind, hashSecret, parseCredential, sameHash } from "./credential-text.js";

// Order of checks: form and checksum, look-up by public id, constant-time comparison (also when the id is unknown), expiry and revocation from the
// row. Found rows are cached for at most 5 s and never beyond an expiry, so a revocation holds everywhere within that time; where the live channel
// works it holds at once.

export interface Authenticator {
  /** The client behind an API key. Throws UNAUTHENTICATED, with one text for every reason. */
  client(text: string): Promise<Scope>;
  /** The runner behind a runner token. */
  runner(text: string): Promise<RunnerScope>;
  /** A credential was changed somewhere. */
  forget(publicId: string): void;
}

interface Cached {
  readonly row: StoredCredential | null;
  readonly until: number;
}

const maxCached = 10_000;
const unknownCacheMs = 1_000;
const dummy = Buffer.alloc(32);

export function createAuthenticator(stores: Stores, rootKey: string, clock: Clock, cacheMs: number): Authenticator {
  const cache = new Map<string, Cached>();
  const pending = new Map<string, Promise<StoredCredential | null>>();

  const look = async (kind: CredentialKind, publicId: string): Promise<StoredCredential | null> => {
    const key = `${kind}:${publicId}`;
    const hit = cache.get(key);
    if (hit && hit.until > clock.monotonic()) return hit.row;
    let question = pending.get(key);
    if (!question) {
      question = (kind === "api_key" ? findApiKey : findRunnerToken)(stores.app, publicId).finally(() =>
        pending.delete(key),
      );
      pending.set(key, question);
    }
    let row: StoredCredential | null;
    try {
      row = await question;
    } catch (error) {
      throw new DomainError("UNAVAILABLE", undefined, {}, error);
    }
    if (cache.size >= maxCached) cache.delete(cache.keys().next().value as string);
    cache.set(key, { row, until: clock.monotonic() + (row ? cacheMs : Math.min(cacheMs, unknownCacheMs)) });
    return row;
  };

  const check = async (kind: CredentialKind, text: string): Promise<StoredCredential> => {
    const parsed = parseCredential(text);
    if (!parsed || parsed.kind !== kind) throw new DomainError("UNAUTHENTICATED");
    const row = await look(kind, parsed.publicId);
    const hash = hashSecret(rootKey, parsed.secret);
    const now = clock.now();
    const current = sameHash(hash, row?.secretHash ?? dummy);
    const previous = sameHash(hash, row?.previousHash ?? dummy) && (row?.previousExpiresAt?.getTime() ?? 0) > now;
    if (!row || !(current || previous) || row.revokedAt || (row.expiresAt && row.expiresAt.getTime() <= now)) {
      throw new DomainError("UNAUTHENTICATED");
    }
    return row;
  };

  return {
    client: async (text) => {
      const row = await check("api_key", text);
      return { tenantId: row.tenantId, actor: { kind: "api_key", id: row.id }, scopes: new Set(row.scopes) };
    },
    runner: async (text) => {
      const row = await check("runner_token", text);
      return { poolId: row.tenantId, kind: row.kind, tokenId: row.id };
    },
    forget: (publicId) => {
      cache.delete(`api_key:${publicId}`);
      cache.delete(`runner_token:${publicId}`);
    },
  };
}
