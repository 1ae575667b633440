import { DomainError } from "../domain/errors.js";
import type { Authenticator } from "../governance/authenticate.js";
import { repeat, type Service } from "../platform/lifecycle.js";

// Streams and parked polls outlive the look at their token by hours, so the tokens of what is open are looked at again and again. The authenticator
// keeps what it read for a few seconds: looking twice a second costs one query per token in that time, and a revocation holds within five seconds.

const lookEveryMs = 500;

export interface OpenCalls extends Service {
  /** `end` is called once the token is refused. Returns how to stop watching. */
  watch(token: string, end: (error: DomainError) => void): () => void;
}

export function startOpenCalls(authenticator: Authenticator): OpenCalls {
  const open = new Map<string, Set<(error: DomainError) => void>>();

  const look = async (): Promise<void> => {
    for (const [token, ends] of open) {
      try {
        await authenticator.runner(token);
      } catch (error) {
        // A store that cannot be reached says nothing about a token.
        if (!(error instanceof DomainError) || error.code !== "UNAUTHENTICATED") continue;
        for (const end of [...ends]) end(error);
      }
    }
  };

  const service = repeat("open calls", lookEveryMs, look, () => {});
  return {
    name: service.name,
    stop: service.stop,
    watch: (token, end) => {
      const ends = open.get(token) ?? new Set();
      open.set(token, ends);
      ends.add(end);
      return () => {
        ends.delete(end);
        if (ends.size === 0 && open.get(token) === ends) open.delete(token);
      };
    },
  };
}
