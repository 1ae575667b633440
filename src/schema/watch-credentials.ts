import { DomainError } from "../domain/errors.js";
import { type Permission, refusal } from "../domain/permissions.js";
import type { Authenticator } from "../governance/authenticate.js";
import { parseCredential } from "../governance/credential-text.js";

// A subscription outlives the check of its caller, so the key or session and what it may are looked at again: at once when a change is heard of, and every half second from what the
// authenticator remembers, which is never older than its cache. One timer serves all subscriptions, and none runs without one.

const everyMs = 500;

interface Watcher {
  readonly permission: Permission;
  readonly onRefused: (error: DomainError) => void;
}

export interface CredentialWatch {
  /** Calls back once, when the key or session no longer works or no longer may. Returns how to stop watching. */
  watch(credential: string, permission: Permission, onRefused: (error: DomainError) => void): () => void;
  readonly count: () => number;
  stop(): void;
}

export function createCredentialWatch(authenticator: Authenticator): CredentialWatch {
  const watched = new Map<string, Set<Watcher>>();
  let timer: NodeJS.Timeout | undefined;

  const look = async (credential: string): Promise<void> => {
    const isSession = parseCredential(credential)?.kind === "session";
    try {
      const scope = await (isSession ? authenticator.session(credential) : authenticator.client(credential));
      for (const { permission, onRefused } of [...(watched.get(credential) ?? [])]) {
        const refused = refusal(scope, permission);
        if (refused) onRefused(refused);
      }
    } catch (error) {
      // A store that is away says nothing about the caller.
      if (!(error instanceof DomainError) || error.code !== "UNAUTHENTICATED") return;
      const over = isSession ? "The session is over; sign in again." : "The API key was revoked or has expired.";
      const refused = watched.get(credential) ?? [];
      watched.delete(credential);
      for (const { onRefused } of refused) onRefused(new DomainError("UNAUTHENTICATED", over));
    }
  };
  const lookAtAll = (): void => {
    for (const credential of watched.keys()) void look(credential);
  };
  const stopListening = authenticator.onForget(lookAtAll);

  return {
    watch: (credential, permission, onRefused) => {
      const set = watched.get(credential) ?? new Set();
      watched.set(credential, set);
      const watcher: Watcher = { permission, onRefused };
      set.add(watcher);
      timer ??= setInterval(lookAtAll, everyMs).unref();
      return () => {
        set.delete(watcher);
        if (set.size === 0 && watched.get(credential) === set) watched.delete(credential);
        if (watched.size === 0) {
          clearInterval(timer);
          timer = undefined;
        }
      };
    },
    count: () => [...watched.values()].reduce((sum, set) => sum + set.size, 0),
    stop: () => {
      clearInterval(timer);
      stopListening();
    },
  };
}
