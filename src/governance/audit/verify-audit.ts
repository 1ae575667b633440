import type { Scope } from "../../domain/scope.js";
import { hasRecordsBehindHead, readAuditHead, readNewestCheckpoint } from "../../store/audit-chain.js";
import type { Stores } from "../../store/client.js";
import { withTenantReads } from "../../store/reads.js";
import { type ChainReport, checkChain } from "./check-chain.js";
import { chainCheckpoints, chainRecords, pointAt } from "./read-chain.js";
import type { AuditPublicKeys } from "./signing-key.js";

export interface AuditVerification extends ChainReport {
  /** False when the time was over before the end of the chain: go on after `checkedTo`. */
  readonly complete: boolean;
}

export interface VerifyAudit {
  /** Begins behind this record, which is trusted. 0: at the start. */
  readonly after: number;
  /** Asked between pages; then the answer is about what was walked until then. */
  readonly stop?: () => boolean;
}

/** Walks the chain of the scope's tenant as it is in the database. Records that are written meanwhile are left to the next time. */
export async function verifyAudit(
  stores: Stores,
  scope: Scope,
  keys: AuditPublicKeys,
  { after, stop }: VerifyAudit,
): Promise<AuditVerification> {
  // The head is read last: whatever an honest chain had before is not behind it.
  const { head, isLonger, newest } = await withTenantReads(stores, scope, async (reads) => ({
    isLonger: await hasRecordsBehindHead(reads),
    newest: await readNewestCheckpoint(reads),
    head: await readAuditHead(reads),
  }));
  const start = await pointAt(stores, scope, after);
  const everything = Number.MAX_SAFE_INTEGER;
  let complete = true;
  const records = chainRecords(stores, scope, after, isLonger ? everything : (head?.seq ?? everything), () => {
    const over = stop?.() === true;
    if (over) complete = false;
    return over;
  });
  const report = await checkChain({
    tenantId: scope.tenantId,
    start,
    records,
    checkpoints: chainCheckpoints(stores, scope, after, newest),
    keys,
    head: head ? { seq: head.seq, hash: head.hash } : { seq: 0, hash: start.hash },
  });
  // Not having come to the end is no truncation.
  if (!complete && report.verdict === "truncated")
    return { ...report, verdict: "ok", firstBadSeq: null, message: "No fault so far.", complete };
  return { ...report, complete: complete || report.verdict !== "ok" };
}
