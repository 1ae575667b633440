import type { AuditCheckpoint, ChainPoint } from "../../domain/audit-checkpoint.js";
import { genesisHash } from "../../domain/audit-record.js";
import { DomainError } from "../../domain/errors.js";
import type { Scope } from "../../domain/scope.js";
import { type ChainedRow, readChainPage, readCheckpointPage } from "../../store/audit-chain.js";
import type { Stores } from "../../store/client.js";
import { withTenantReads } from "../../store/reads.js";

const pageSize = 500;
// Before the first of all rows, and behind all rows of a number.
const firstId = "00000000-0000-0000-0000-000000000000";
const lastId = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** Records after a number, a page in memory and a short transaction each. `stop` is asked between pages. */
export async function* chainRecords(
  stores: Stores,
  scope: Scope,
  after: number,
  to: number,
  stop: () => boolean = () => false,
): AsyncGenerator<ChainedRow> {
  // A number below 1 is none of an honest chain, and must be seen.
  let last = after === 0 ? { seq: Number.MIN_SAFE_INTEGER, id: firstId } : { seq: after, id: lastId };
  while (!stop()) {
    const from = last;
    const page = await withTenantReads(stores, scope, (reads) => readChainPage(reads, from, to, pageSize));
    yield* page;
    const end = page.at(-1);
    if (!end || page.length < pageSize) return;
    last = { seq: end.seq, id: end.id };
  }
}

export async function* chainCheckpoints(
  stores: Stores,
  scope: Scope,
  after: number,
  to: number,
): AsyncGenerator<AuditCheckpoint> {
  for (let last = after; ; ) {
    const from = last;
    const page = await withTenantReads(stores, scope, (reads) => readCheckpointPage(reads, from, to, pageSize));
    yield* page;
    const end = page.at(-1);
    if (!end || page.length < pageSize) return;
    last = end.seq;
  }
}

/** The point that what comes after a number must follow. */
export async function pointAt(stores: Stores, scope: Scope, seq: number): Promise<ChainPoint> {
  if (seq === 0) return { seq: 0, hash: genesisHash };
  const before = { seq: seq - 1, id: lastId };
  const [row] = await withTenantReads(stores, scope, (reads) => readChainPage(reads, before, seq, 1));
  if (!row) throw new DomainError("NOT_FOUND", `There is no record ${seq} in this audit chain.`, { field: "after" });
  return { seq, hash: row.hash };
}
