import { DomainError } from "../domain/errors.js";
import type { ThreadId } from "../domain/ids.js";
import { pickMembers, topLevelSlices } from "../domain/raw-json.js";
import type { Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import type { Stores } from "../store/client.js";
import { withTenantReads } from "../store/reads.js";
import { lockNewestView, writeView } from "../store/state-views.js";
import { findThread, insertThread, mergeThreadMetadata, type Thread } from "../store/threads.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";

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
  if (!thread) throw missing(threadId);
  return thread;
}

/** Merges into a thread's metadata, key by key. */
export function updateThread(stores: Stores, scope: Scope, threadId: ThreadId, metadata: string): Promise<Thread> {
  return withTenantTx(stores, scope, async (tx) => {
    if (!(await mergeThreadMetadata(tx, threadId, metadata))) throw missing(threadId);
    return (await findThread(tx, threadId)) as Thread;
  });
}

/** Merges into the metadata of a thread's newest checkpoint. */
export function updateStateMetadata(stores: Stores, scope: Scope, threadId: ThreadId, metadata: string): Promise<void> {
  return withTenantTx(stores, scope, async (tx) => {
    if (!(await findThread(tx, threadId))) throw missing(threadId);
    await mergeIntoNewest(tx, threadId, metadata);
  });
}

async function mergeIntoNewest(tx: TenantTx, threadId: ThreadId, metadata: string): Promise<void> {
  const newest = await lockNewestView(tx, threadId);
  if (!newest)
    throw new DomainError("CHECKPOINT_NOT_FOUND", "The thread has no state yet whose metadata could be changed.");
  const text = newest.view.toString();
  const view = topLevelSlices(text);
  const merged = mergeObjects(view.get("metadata") ?? "{}", metadata);
  const rest = pickMembers(text, new Set([...view.keys()].filter((name) => name !== "metadata")));
  await writeView(tx, threadId, newest, mergeObjects(rest, `{"metadata":${merged}}`), merged);
}

/** Two texts of JSON objects as one: the second one's members win. */
function mergeObjects(first: string, second: string): string {
  const members = new Map([...topLevelSlices(first), ...topLevelSlices(second)]);
  return `{${[...members].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

function missing(threadId: ThreadId): DomainError {
  return new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`);
}
