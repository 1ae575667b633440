import { createHash } from "node:crypto";
import { type AuditCheckpoint, type ChainPoint, checkpointText } from "../../domain/audit-checkpoint.js";
import { placeOf, type RecordPlace } from "../../domain/audit-record.js";
import { type AuditPublicKeys, checkSignature } from "./signing-key.js";

// Walks a chain once, record by record, and names the first fault. What a fault is can depend on what comes later: a record that is not in its place
// may stand elsewhere. Then the walk goes on to the end, looking for nothing but that. Nothing is collected, so a chain of any length takes the same memory.

export const auditVerdicts = [
  "ok",
  "modified",
  "missing",
  "reordered",
  "forked",
  "truncated",
  "bad_signature",
  "unknown_key",
  "unreadable",
] as const;
export type AuditVerdict = (typeof auditVerdicts)[number];

export interface StoredRecord {
  /** The text that was hashed. */
  readonly record: string;
  /** The hash that is kept beside it, hex. */
  readonly hash: string;
}

export interface ChainReport {
  readonly verdict: AuditVerdict;
  /** The first number at which something is wrong. */
  readonly firstBadSeq: number | null;
  readonly message: string;
  /** The last record of the unbroken chain. */
  readonly checkedTo: ChainPoint;
  /** Up to here the chain is what was signed. */
  readonly signedTo: number;
}

export interface ChainToCheck {
  readonly tenantId: string;
  /** What the first record must follow: number 0 and the genesis hash, or a point that is trusted. */
  readonly start: ChainPoint;
  readonly records: AsyncIterable<StoredRecord>;
  /** By number. */
  readonly checkpoints: AsyncIterable<AuditCheckpoint>;
  readonly keys: AuditPublicKeys;
  /** Where the chain must end, if somebody else says so. */
  readonly head: ChainPoint | null;
}

export interface Fault {
  readonly verdict: AuditVerdict;
  readonly seq: number;
  readonly message: string;
}

export async function checkChain(chain: ChainToCheck): Promise<ChainReport> {
  const signed = walkCheckpoints(chain);
  let last = chain.start;
  let lastPrev: string | null = null;
  let fault: Fault | null = null;
  let search: Search | null = null;
  for await (const stored of chain.records) {
    const place = placeOf(stored.record);
    if (search) {
      if (search.take(stored, place)) break;
      continue;
    }
    const found = judge(chain, stored, place, last, lastPrev, signed.point().seq === last.seq);
    if (!found) {
      last = { seq: last.seq + 1, hash: stored.hash };
      lastPrev = (place as RecordPlace).prev;
      fault = await signed.compare(last);
      if (fault) break;
      continue;
    }
    if ("search" in found) search = found.search;
    else {
      fault = found;
      break;
    }
  }
  fault ??= search?.result() ?? (await signed.rest(last)) ?? wrongEnd(chain.head, last);
  fault ??= signed.complaint();
  return {
    verdict: fault?.verdict ?? "ok",
    firstBadSeq: fault?.seq ?? null,
    message: fault?.message ?? "Every record is what was written, in its place.",
    checkedTo: last,
    signedTo: signed.point().seq,
  };
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");
const faultAt = (verdict: AuditVerdict, seq: number, message: string): Fault => ({ verdict, seq, message });

/** What is wrong with the next record; null when nothing is. */
function judge(
  chain: ChainToCheck,
  stored: StoredRecord,
  place: RecordPlace | null,
  last: ChainPoint,
  lastPrev: string | null,
  lastIsSigned: boolean,
): Fault | { readonly search: Search } | null {
  const expected = last.seq + 1;
  if (!place || place.tenantId !== chain.tenantId)
    return faultAt("unreadable", expected, `What stands at ${expected} is no record that this version can read.`);
  if (place.seq < expected)
    return faultAt(
      "forked",
      place.seq,
      `There are two records with the number ${place.seq}, or one that nothing led to.`,
    );
  if (chain.head && expected > chain.head.seq)
    return faultAt("forked", expected, `Record ${expected} was added behind the end of the chain.`);
  if (place.seq > expected) {
    const search = searchFor(expected, null);
    search.take(stored, place);
    return { search };
  }
  if (hashOf(stored.record) !== stored.hash) {
    if (place.prev === lastPrev && hashOf(place.renumbered(last.seq)) === stored.hash)
      return faultAt("forked", last.seq, `Two records follow the one before ${last.seq}.`);
    return { search: searchFor(expected, { stored, place }) };
  }
  if (place.prev === last.hash) return null;
  if (last.seq === chain.start.seq || lastIsSigned)
    return faultAt("forked", expected, `Record ${expected} follows another record than ${last.seq}.`);
  return faultAt(
    "modified",
    last.seq,
    `Record ${last.seq} and its hash are not those that ${expected} was chained to.`,
  );
}

interface Search {
  /** True when the answer is known. */
  take(stored: StoredRecord, place: RecordPlace | null): boolean;
  result(): Fault;
}

/**
 * A record is not in its place. `found` is what stands there, if anything: a record that belongs elsewhere, or one that was changed. If the right one
 * stands further on, the order was changed; if it stands nowhere and others moved up, it is missing.
 */
function searchFor(seq: number, found: { stored: StoredRecord; place: RecordPlace } | null): Search {
  let elsewhere = false;
  let isDisplaced = found === null;
  let lastSeen = seq;
  const tryAt = (other: number): void => {
    if (found && !isDisplaced) isDisplaced = hashOf(found.place.renumbered(other)) === found.stored.hash;
  };
  return {
    take: (stored, place) => {
      if (!place) return false;
      lastSeen = Math.max(lastSeen, place.seq);
      tryAt(place.seq);
      if (!elsewhere) {
        elsewhere =
          (place.seq === seq && hashOf(stored.record) === stored.hash) || hashOf(place.renumbered(seq)) === stored.hash;
      }
      return elsewhere && isDisplaced;
    },
    result: () => {
      // Where the last one stood before the others moved up.
      tryAt(lastSeen + 1);
      if (isDisplaced && elsewhere) return faultAt("reordered", seq, `Record ${seq} stands in another place.`);
      if (isDisplaced) return faultAt("missing", seq, `Record ${seq} is missing.`);
      return faultAt("modified", seq, `Record ${seq} is not what was written.`);
    },
  };
}

function wrongEnd(head: ChainPoint | null, last: ChainPoint): Fault | null {
  if (!head) return null;
  if (head.seq > last.seq) return cut(last, `the chain once ended at ${head.seq}`);
  if (head.hash === last.hash) return null;
  return faultAt("modified", last.seq, `Record ${last.seq} and its hash are not those that the chain ended with.`);
}

const cut = (last: ChainPoint, why: string): Fault =>
  faultAt("truncated", last.seq + 1, `Records from ${last.seq + 1} on are gone: ${why}.`);

/** Compares the chain with the checkpoints as it passes them. */
function walkCheckpoints({ checkpoints, keys, start, tenantId }: ChainToCheck) {
  const iterator = checkpoints[Symbol.asyncIterator]();
  let agreed: ChainPoint = start;
  let complaint: Fault | null = null;
  let next: AuditCheckpoint | null | undefined;

  /** The next one that is signed as it must be. */
  const peek = async (): Promise<AuditCheckpoint | null> => {
    while (next === undefined) {
      const { value, done } = await iterator.next();
      if (done) next = null;
      else {
        const one = value as AuditCheckpoint;
        const state =
          one.tenantId === tenantId ? checkSignature(keys, one.keyId, checkpointText(one), one.signature) : "bad";
        if (state === "good") next = one;
        else if (state === "bad")
          complaint ??= faultAt(
            "bad_signature",
            one.seq,
            `The checkpoint at ${one.seq} is not signed by key ${one.keyId}.`,
          );
        else
          complaint ??= faultAt(
            "unknown_key",
            one.seq,
            `The checkpoint at ${one.seq} is signed by key ${one.keyId}, which was not given.`,
          );
      }
    }
    return next;
  };
  return {
    point: () => agreed,
    complaint: () => complaint,
    compare: async (last: ChainPoint): Promise<Fault | null> => {
      for (let one = await peek(); one && one.seq <= last.seq; one = await peek()) {
        next = undefined;
        if (one.seq < last.seq) continue;
        if (one.hash !== last.hash)
          return faultAt(
            "forked",
            last.seq,
            `Record ${last.seq} is not the one that was signed: another history begins between ${agreed.seq + 1} and ${last.seq}.`,
          );
        agreed = last;
      }
      return null;
    },
    /** Checkpoints behind the last record. */
    rest: async (last: ChainPoint): Promise<Fault | null> => {
      let newest: AuditCheckpoint | null = null;
      for (let one = await peek(); one; one = await peek()) {
        next = undefined;
        if (one.seq > last.seq) newest = one;
      }
      return newest ? cut(last, `a checkpoint of ${newest.at} was signed at ${newest.seq}`) : null;
    },
  };
}
