import { DomainError } from "../domain/errors.js";
import type { ThreadId } from "../domain/ids.js";
import { topLevelSlices } from "../domain/raw-json.js";
import type { Scope } from "../domain/scope.js";
import type { Stores } from "../store/client.js";
import { type TenantReads, withTenantReads } from "../store/reads.js";
import { findThreadHead, findView, listViews, type StateView, type ThreadHead } from "../store/state-views.js";
import { findThread } from "../store/threads.js";

export interface StateRead {
  readonly view: StateView;
  /** Set when this is the newest state: what the thread does and waits for now. */
  readonly head: ThreadHead | null;
  /** The states of its sub-graphs, and of theirs, by namespace; empty unless they were asked for. */
  readonly nested: NestedStates;
}

export type NestedStates = ReadonlyMap<string, StateView>;

export interface NoStateYet {
  readonly view: null;
  readonly head: ThreadHead;
  /** The portable values, which a thread may have without a checkpoint. */
  readonly values: Buffer | null;
}

export interface StatePlace {
  readonly namespace: string;
  /** Null for the newest. */
  readonly checkpointId: string | null;
  /** With the states of the tasks that are sub-graphs. */
  readonly subgraphs?: boolean;
}

/** The state of a thread at a checkpoint, or as it is now. */
export function readState(
  stores: Stores,
  scope: Scope,
  threadId: ThreadId,
  place: StatePlace,
): Promise<StateRead | NoStateYet> {
  return withTenantReads(stores, scope, async (tenant) => {
    const head = await requireHead(tenant, threadId);
    const view = await findView(tenant, threadId, place.namespace, place.checkpointId);
    if (view) {
      const isNewest = place.namespace === "" && place.checkpointId === null;
      const nested = place.subgraphs ? await readNested(tenant, threadId, view) : new Map<string, StateView>();
      return { view, head: isNewest ? head : null, nested };
    }
    if (place.checkpointId !== null || place.namespace !== "") throw noCheckpoint(place);
    const thread = await findThread(tenant, threadId);
    return { view: null, head, values: thread?.values ?? null };
  });
}

// As many as a state of reasonable size has.
const maxNested = 100;

/** The states that tasks point to, level by level. */
async function readNested(tenant: TenantReads, threadId: ThreadId, root: StateView): Promise<NestedStates> {
  const found = new Map<string, StateView>();
  const waiting = subgraphsOf(root);
  for (let place = waiting.shift(); place && found.size < maxNested; place = waiting.shift()) {
    if (found.has(place.namespace)) continue;
    const view = await findView(tenant, threadId, place.namespace, place.checkpointId);
    if (!view) continue;
    found.set(place.namespace, view);
    waiting.push(...subgraphsOf(view));
  }
  return found;
}

/** The checkpoints that the tasks of a state name: sub-graphs, each in a namespace of its own. */
function subgraphsOf(view: StateView): StatePlace[] {
  const tasks = JSON.parse(topLevelSlices(view.view.toString()).get("tasks") ?? "[]") as {
    checkpoint?: { checkpoint_ns?: string; checkpoint_id?: string } | null;
  }[];
  return tasks.flatMap(({ checkpoint }) =>
    checkpoint?.checkpoint_ns
      ? [{ namespace: checkpoint.checkpoint_ns, checkpointId: checkpoint.checkpoint_id || null }]
      : [],
  );
}

export interface HistoryQuery {
  readonly namespace: string;
  readonly before: string | null;
  readonly limit: number;
  /** What the checkpoint's metadata must contain. */
  readonly metadata: Readonly<Record<string, unknown>> | null;
}

const pageSize = 200;

/** Checkpoints of a thread, newest first. */
export function readHistory(
  stores: Stores,
  scope: Scope,
  threadId: ThreadId,
  query: HistoryQuery,
): Promise<StateView[]> {
  const { namespace, limit, metadata } = query;
  return withTenantReads(stores, scope, async (tenant) => {
    await requireHead(tenant, threadId);
    if (query.before !== null && !(await findView(tenant, threadId, namespace, query.before)))
      throw noCheckpoint({ namespace, checkpointId: query.before });
    if (metadata === null) return listViews(tenant, threadId, namespace, query.before, limit);
    // The metadata is a part of the view, which is the runner's own JSON: only here it is read.
    const found: StateView[] = [];
    for (let before = query.before; ; ) {
      const page = await listViews(tenant, threadId, namespace, before, pageSize);
      for (const view of page) {
        const { metadata: own } = JSON.parse(view.view.toString()) as { metadata?: unknown };
        if (contains(own, metadata)) found.push(view);
        if (found.length === limit) return found;
      }
      const last = page.at(-1);
      if (!last || page.length < pageSize) return found;
      before = last.id;
    }
  });
}

async function requireHead(tenant: TenantReads, threadId: ThreadId): Promise<ThreadHead> {
  const head = await findThreadHead(tenant, threadId);
  if (!head) throw new DomainError("THREAD_NOT_FOUND", `There is no thread ${threadId}.`);
  return head;
}

function noCheckpoint(place: StatePlace): DomainError {
  const where = place.namespace === "" ? "" : ` in the namespace ${JSON.stringify(place.namespace)}`;
  return new DomainError(
    "CHECKPOINT_NOT_FOUND",
    `The thread has no checkpoint${place.checkpointId === null ? "" : ` ${JSON.stringify(place.checkpointId)}`}${where}.`,
  );
}

/** JSON containment as Postgres has it for objects and scalars. */
function contains(value: unknown, wanted: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null) return value === wanted;
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(wanted))
    return Array.isArray(value) && wanted.every((one) => value.some((other) => contains(other, one)));
  return Object.entries(wanted).every(([key, one]) => contains((value as Record<string, unknown>)[key], one));
}
