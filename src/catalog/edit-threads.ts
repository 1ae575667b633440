import { DomainError } from "../domain/errors.js";
import type { ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import type { Stores } from "../store/client.js";
import { withTenantReads } from "../store/reads.js";
import { findThread, insertThread, type Thread } from "../store/threads.js";
import { withTenantTx } from "../store/tx.js";

export interface CreateThread {
  readonly threadId: ThreadId | null;
  /** JSON text of an object. */
  readonly metadata: string;
  readonly ifExists: "raise" | "do_nothing";
}

export function createThread(stores: Stores, scope: Scope, input: CreateThread): Promise<Thread> {
  return withTenantTx(stores, scope, async (tx) => {
    const threadId = input.threadId ?? (uuidv7() as ThreadId);
    const isNew = await insertThread(tx, threadId, input.metadata);
    if (!isNew && input.ifExists === "raise")
      throw new DomainError("THREAD_EXISTS", `There is a thread ${threadId} already.`);
    const thread = await findThread(tx, threadId);
    // The id of a deleted thread: it cannot be used again.
    if (!thread) throw new DomainError("THREAD_EXISTS", `There was a thread ${threadId} before; choose another id.`);
    return thread;
  });
}

/** The thread, or THREAD_NOT_FOUND. */
export async function requireThread(stores: Stores, scope: Scope, threadId: ThreadId): Promise<Thread> {
  const thread = await withTenantReads(stores, scope, (tenant) => findThread(tenant, threadId));
  if (!thread) throw new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`);
  return thread;
}
