import type pg from "pg";
import type { QueueName, RunId, TenantId } from "../../domain/ids.js";
import { type Extras, extrasParameters, gatherBytes } from "./extras.js";
import { tenantSet } from "./tenant-set.js";

/** A run as its runner names it. The queue is the token's: a runner of another kind or pool is nobody here. */
export interface HeldRun {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly fence: number;
  readonly queue: QueueName;
}

export interface Segment {
  readonly delta: boolean;
  readonly count: number;
  /** A serialized EventList. */
  readonly body: Buffer;
}

/** What waiting events cost: each is one, and a large one is as many as its bytes. */
export function eventLoad(count: number, bytes: number): number {
  return Math.max(count, bytes / 256);
}

export interface AppendItem extends HeldRun {
  /** Number of the first event in the runner's own sequence under this fence, from 1. */
  readonly first: number;
  readonly segments: readonly Segment[];
  readonly extras: Extras;
}

export interface Appended {
  readonly verdict: "stored" | "out_of_order" | "superseded";
  /** The last stored number of the runner's sequence. */
  readonly stored: number;
  /** The run's number of the first event of the batch. */
  readonly firstSeq: number;
  readonly cancel: "interrupt" | "rollback" | null;
}

const wireRun = (item: HeldRun) => ({
  tenant_id: item.tenantId,
  run_id: item.runId,
  fence: item.fence,
  pool_id: item.queue.poolId,
  kind: item.queue.kind,
});

/** Appends event batches under their fences, gapless; batches of superseded holders change nothing. */
export async function appendEvents(
  pool: pg.Pool,
  items: readonly AppendItem[],
  again: boolean,
  leaseMs: number,
): Promise<Appended[]> {
  const rows = items.map((item) => ({ ...wireRun(item), first: item.first, count: eventCount(item) }));
  const segItem: number[] = [];
  const segCount: number[] = [];
  const segDelta: boolean[] = [];
  const segAt: number[] = [];
  const segBytes: number[] = [];
  const bytes = gatherBytes();
  items.forEach((item, at) => {
    for (const segment of item.segments) {
      segItem.push(at + 1);
      segCount.push(segment.count);
      segDelta.push(segment.delta);
      segAt.push(bytes.add(segment.body));
      segBytes.push(segment.body.length);
    }
  });
  const result = await pool.query<{
    ord: number;
    verdict: Appended["verdict"];
    stored: number;
    first_seq: number;
    cancel: Appended["cancel"];
  }>({
    name: "run_append_v2",
    text: "select ord, verdict, stored, first_seq, cancel from run_append_v2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    values: [
      tenantSet(items),
      JSON.stringify(rows),
      segItem,
      segCount,
      segDelta,
      segAt,
      segBytes,
      leaseMs,
      ...extrasParameters(items, bytes),
      bytes.all(),
    ],
  });
  const byOrd = new Map(result.rows.map((row) => [row.ord, row]));
  return items.map((item, at) => {
    const row = byOrd.get(at + 1);
    if (row === undefined) return { verdict: "superseded", stored: 0, firstSeq: 0, cancel: null };
    const last = item.first + eventCount(item) - 1;
    // After an unknown commit, a batch that ends exactly where the store does is this one.
    if (again && row.verdict === "out_of_order" && row.stored === last) {
      return { verdict: "stored", stored: row.stored, firstSeq: row.first_seq - eventCount(item), cancel: row.cancel };
    }
    return { verdict: row.verdict, stored: row.stored, firstSeq: row.first_seq, cancel: row.cancel };
  });
}

export function eventCount(item: { readonly segments: readonly Segment[] }): number {
  return item.segments.reduce((sum, segment) => sum + segment.count, 0);
}

export interface Renewed {
  readonly alive: boolean;
  readonly cancel: "interrupt" | "rollback" | null;
}

/** Renews leases; the first renewal confirms the offer. */
export async function renewLeases(pool: pg.Pool, items: readonly HeldRun[], leaseMs: number): Promise<Renewed[]> {
  const result = await pool.query<Renewed>({
    name: "run_renew_v1",
    text: "select alive, cancel from run_renew_v1($1, $2, $3)",
    values: [tenantSet(items), JSON.stringify(items.map(wireRun)), leaseMs],
  });
  return result.rows;
}

/** Cuts leases to `ms` from now, for a runner whose connections are all closed. */
export async function cutLeases(pool: pg.Pool, items: readonly HeldRun[], ms: number): Promise<void> {
  await pool.query("select run_cut_leases_v1($1, $2)", [JSON.stringify(items.map(wireRun)), ms]);
}
