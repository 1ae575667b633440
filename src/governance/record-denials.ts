import type { Scope } from "../domain/scope.js";
import type { Log } from "../platform/log.js";
import type { Stores } from "../store/client.js";
import { withTenantTx } from "../store/tx.js";
import { recordAuditIn } from "./record-audit.js";

// A request that its caller's rights do not allow leaves a record, in a transaction of its own: the refused one writes nothing. The first of its kind is
// written at once, its repetitions once a minute with their number, so that a client that tries again and again does not fill the trail. A foreign id
// is an unknown id, for the record too: nobody was denied anything.

export interface Denials {
  /** `operation` is what was asked for, as people know it: a route, a field, a call. */
  note(scope: Scope, operation: string, reason: string): void;
  /** Writes what was counted. */
  stop(): Promise<void>;
}

interface Counted {
  readonly scope: Scope;
  readonly operation: string;
  readonly reason: string;
  times: number;
}

const everyMs = 60_000;
const maxKinds = 10_000;

export function createDenials(stores: Stores, log: Log): Denials {
  const kinds = new Map<string, Counted>();
  const writing = new Set<Promise<void>>();

  const write = ({ scope, operation, reason }: Counted, times: number): void => {
    const done: Promise<void> = withTenantTx(stores, scope, (tx) =>
      recordAuditIn(tx, {
        action: "access.denied",
        outcome: "denied",
        targetKind: "operation",
        targetId: operation,
        detail: { reason, times },
      }),
    )
      .catch((error: unknown) =>
        log.warn({ err: (error as Error).message, operation }, "a denial could not be recorded"),
      )
      .finally(() => writing.delete(done));
    writing.add(done);
  };
  const flush = (): void => {
    for (const [key, counted] of kinds) {
      if (counted.times === 0) kinds.delete(key);
      else write(counted, counted.times);
      counted.times = 0;
    }
  };
  const timer = setInterval(flush, everyMs);
  timer.unref();

  return {
    note: (scope, operation, reason) => {
      const key = [scope.tenantId, scope.actor.kind, scope.actor.id, operation, reason].join("\n");
      const known = kinds.get(key);
      if (known) known.times++;
      else if (kinds.size < maxKinds) {
        const counted = { scope, operation, reason, times: 0 };
        kinds.set(key, counted);
        write(counted, 1);
      }
    },
    stop: async () => {
      clearInterval(timer);
      flush();
      await Promise.all(writing);
    },
  };
}
