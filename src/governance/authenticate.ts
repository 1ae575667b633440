import { DomainError } from "../domain/errors.js";
import type { CredentialId } from "../domain/ids.js";
import type { Actor, RunnerScope, Scope } from "../domain/scope.js";
import type { Clock } from "../platform/clock.js";
import type { Stores } from "../store/client.js";
import { findApiKey, findRunnerToken, type StoredCredential, touchCredentials } from "../store/credentials.js";
import { findSession, touchSessions } from "../store/sessions.js";
import { type CredentialKind, digestSecret, hashSecret, parseCredential, sameHash } from "./credential-text.js";

// Order of checks: form and checksum, look-up by public id, constant-time comparison (also when the id is unknown), expiry and revocation from the
// row. Found rows are cached for at most 5 s and never beyond an expiry, so a revocation holds everywhere within that time; where the live channel
// works it holds at once. What an owner is now comes with the row: a role that was lowered or a member who was removed takes their keys along.

export interface Authenticator {
  /** The client behind an API key. Throws UNAUTHENTICATED, with one text for every reason. */
  client(text: string): Promise<Scope>;
  /** The member behind the cookie of a session. The same promises. */
  session(text: string): Promise<Scope>;
  /** The runner behind a runner token. */
  runner(text: string): Promise<RunnerScope>;
  /** A credential was changed somewhere. */
  forget(publicId: string): void;
  /** Calls back after each `forget`, for those who must look again at once. Returns how to stop it. */
  onForget(listener: () => void): () => void;
  /** Writes down which credentials were used; then only forgets. */
  stop(): Promise<void>;
}

interface Found {
  readonly row: StoredCredential | null;
  /** The digest of the secret that was proven against the row's current hash. */
  proven?: Buffer;
  sets?: Pick<Scope, "scopes" | "agents">;
}

interface Cached {
  readonly found: Found;
  readonly until: number;
}

const maxCached = 10_000;
const unknownCacheMs = 1_000;
const dummy = Buffer.alloc(32);
// Uses are noted to the minute, so a credential is written at most once a minute and process; a few seconds of them share a statement.
const touchEveryMs = 60_000;
const touchAfterMs = 5_000;

export interface AuthenticatorTimes {
  readonly credentialCacheMs: number;
  readonly sessionIdleMs: number;
}

export function createAuthenticator(
  stores: Stores,
  rootKey: string,
  clock: Clock,
  { credentialCacheMs: cacheMs, sessionIdleMs: idleMs }: AuthenticatorTimes,
): Authenticator {
  const cache = new Map<string, Cached>();
  const pending = new Map<string, Promise<StoredCredential | null>>();

  let forgotten = 0;
  const listeners = new Set<() => void>();
  const touched = new Map<CredentialId, number>();
  let used: Record<CredentialKind, CredentialId[]> = { api_key: [], runner_token: [], session: [] };
  let timer: NodeJS.Timeout | undefined;

  const writeUsed = async (): Promise<void> => {
    timer = undefined;
    const { api_key: keys, runner_token: tokens, session: sessions } = used;
    used = { api_key: [], runner_token: [], session: [] };
    // A note that is lost is made again at the next use.
    const lost = (ids: readonly CredentialId[]) => (): void => {
      for (const id of ids) touched.delete(id);
    };
    const notes: Promise<void>[] = [];
    if (keys.length + tokens.length > 0)
      notes.push(touchCredentials(stores.app, keys, tokens).catch(lost([...keys, ...tokens])));
    if (sessions.length > 0) notes.push(touchSessions(stores.app, sessions).catch(lost(sessions)));
    await Promise.all(notes);
  };
  const noteUse = (kind: CredentialKind, id: CredentialId): void => {
    const now = clock.monotonic();
    const last = touched.get(id);
    // An idle session must not be over because its use was noted too seldom.
    if (last !== undefined && now - last < (kind === "session" ? Math.min(touchEveryMs, idleMs / 4) : touchEveryMs))
      return;
    if (touched.size >= maxCached) touched.clear();
    touched.set(id, now);
    used[kind].push(id);
    timer ??= setTimeout(() => void writeUsed(), touchAfterMs).unref();
  };

  const finders: Record<CredentialKind, (publicId: string) => Promise<StoredCredential | null>> = {
    api_key: (publicId) => findApiKey(stores.app, publicId),
    runner_token: (publicId) => findRunnerToken(stores.app, publicId),
    session: (publicId) => findSession(stores.app, publicId, idleMs),
  };
  const look = async (kind: CredentialKind, publicId: string): Promise<Found> => {
    const key = `${kind}:${publicId}`;
    const hit = cache.get(key);
    if (hit && hit.until > clock.monotonic()) return hit.found;
    const before = forgotten;
    let question = pending.get(key);
    if (!question) {
      const asked = finders[kind](publicId).finally(() => {
        if (pending.get(key) === asked) pending.delete(key);
      });
      question = asked;
      pending.set(key, asked);
    }
    let row: StoredCredential | null;
    try {
      row = await question;
    } catch (error) {
      throw new DomainError("UNAVAILABLE", undefined, {}, error);
    }
    const found: Found = { row };
    // What was read while a change was told may be from before it.
    if (before !== forgotten) return found;
    if (cache.size >= maxCached) cache.delete(cache.keys().next().value as string);
    cache.set(key, { found, until: clock.monotonic() + (row ? cacheMs : Math.min(cacheMs, unknownCacheMs)) });
    return found;
  };

  const check = async (kind: CredentialKind, text: string): Promise<Found & { readonly row: StoredCredential }> => {
    const parsed = parseCredential(text);
    if (!parsed || parsed.kind !== kind) throw new DomainError("UNAUTHENTICATED");
    const found = await look(kind, parsed.publicId);
    const { row } = found;
    const now = clock.now();
    const digest = digestSecret(parsed.secret);
    let isRight = found.proven !== undefined && sameHash(digest, found.proven);
    if (!isRight) {
      const hash = hashSecret(rootKey, parsed.secret);
      const current = sameHash(hash, row?.secretHash ?? dummy);
      const previous = sameHash(hash, row?.previousHash ?? dummy) && (row?.previousExpiresAt?.getTime() ?? 0) > now;
      if (current) found.proven = digest;
      isRight = current || previous;
    }
    if (!row || !isRight || row.revokedAt || (row.expiresAt && row.expiresAt.getTime() <= now)) {
      throw new DomainError("UNAUTHENTICATED");
    }
    if (row.owner && !row.role) throw new DomainError("UNAUTHENTICATED");
    noteUse(kind, row.id);
    return found as Found & { readonly row: StoredCredential };
  };

  return {
    client: async (text) => {
      const found = await check("api_key", text);
      return scopeOf(found, { kind: "api_key", id: found.row.id });
    },
    session: async (text) => {
      const found = await check("session", text);
      return scopeOf(found, { kind: "member", id: found.row.owner?.id as string as CredentialId });
    },
    runner: async (text) => {
      const { row } = await check("runner_token", text);
      return { poolId: row.tenantId, kind: row.kind, tokenId: row.id };
    },
    forget: (publicId) => {
      forgotten++;
      for (const kind of Object.keys(finders)) {
        pending.delete(`${kind}:${publicId}`);
        cache.delete(`${kind}:${publicId}`);
      }
      for (const listener of listeners) listener();
    },
    onForget: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    stop: () => {
      clearTimeout(timer);
      return writeUsed();
    },
  };
}

function scopeOf(found: Found & { readonly row: StoredCredential }, actor: Actor): Scope {
  const { row } = found;
  found.sets ??= { scopes: new Set(row.scopes), agents: row.agents && new Set(row.agents) };
  return { tenantId: row.tenantId, role: row.role, owner: row.owner, actor, ...found.sets };
}
