import { DomainError } from "../domain/errors.js";
import type { Authenticator } from "../governance/authenticate.js";

// A subscription outlives the check of its key, so the key is looked at again: at once when a change is heard of, and every half second from what the
// authenticator remembers, which is never older than its cache. One timer serves all subscriptions, and none runs without one.

const everyMs = 500;

export interface CredentialWatch {
  /** Calls back once, when the key no longer works. Returns how to stop watching. */
  watch(credential: string, onRefused: () => void): () => void;
  readonly count: () => number;
  stop(): void;
}

export function createCredentialWatch(authenticator: Authenticator): CredentialWatch {
  const watched = new Map<string, Set<() => void>>();
  let timer: NodeJS.Timeout | undefined;

  const look = async (credential: string): Promise<void> => {
    try {
      await authenticator.client(credential);
    } catch (error) {
      // A store that is away says nothing about the key.
      if (!(error instanceof DomainError) || error.code !== "UNAUTHENTICATED") return;
      const refused = watched.get(credential) ?? [];
      watched.delete(credential);
      for (const onRefused of refused) onRefused();
    }
  };
  const lookAtAll = (): void => {
    for (const credential of watched.keys()) void look(credential);
  };
  const stopListening = authenticator.onForget(lookAtAll);

  return {
    watch: (credential, onRefused) => {
      const set = watched.get(credential) ?? new Set();
      watched.set(credential, set);
      set.add(onRefused);
      timer ??= setInterval(lookAtAll, everyMs).unref();
      return () => {
        set.delete(onRefused);
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
