import { canonicalText } from "./canonical-json.js";

// A record of the audit chain as the text that is hashed: canonical JSON of fixed members, with the number of the record and the hash of the one before
// inside. The hash of a record is the SHA-256 of that text in UTF-8, and nothing else is needed to check a chain. `audit_record_v1` in SQL writes the same.

export interface AuditRecordParts {
  readonly tenantId: string;
  readonly id: string;
  readonly seq: number;
  /** RFC 3339 in UTC with six digits of the second. */
  readonly at: string;
  readonly actorKind: string;
  readonly actorId: string | null;
  readonly action: string;
  readonly targetKind: string;
  readonly targetId: string;
  readonly outcome: string;
  /** Canonical JSON, verbatim. */
  readonly detail: string;
  /** Hash of the record before, hex. */
  readonly prev: string;
}

/** Before the first record. */
export const genesisHash = "0".repeat(64);

export function writeRecord(record: AuditRecordParts): string {
  const { actorId, detail, prev, seq } = record;
  const text = canonicalText;
  return (
    `{"action":${text(record.action)},"actor":{"id":${actorId === null ? "null" : text(actorId)},"kind":${text(record.actorKind)}},` +
    `"at":${text(record.at)},"detail":${detail},"id":${text(record.id)},"outcome":${text(record.outcome)},"prev":"${prev}","seq":${seq},` +
    `"target":{"id":${text(record.targetId)},"kind":${text(record.targetKind)}},"tenant":${text(record.tenantId)},"v":1}`
  );
}

export interface RecordPlace {
  readonly tenantId: string;
  readonly seq: number;
  readonly prev: string;
  /** The same record with another number. */
  renumbered(seq: number): string;
}

// A quote inside a text is escaped, so this end can stand nowhere but at the end.
const tail =
  /,"prev":"([0-9a-f]{64})","seq":(-?\d{1,16}),("target":\{"id":"(?:[^"\\]|\\.)*","kind":"(?:[^"\\]|\\.)*"\},"tenant":"([0-9a-f-]{36})","v":1\})$/;

/** Where a record says that it stands; null when it is no record of a version that is known here. */
export function placeOf(record: string): RecordPlace | null {
  const match = tail.exec(record);
  if (!match) return null;
  const [whole, prev, seq, rest, tenantId] = match as unknown as [string, string, string, string, string];
  return {
    tenantId,
    prev,
    seq: Number(seq),
    renumbered: (other) => `${record.slice(0, -whole.length)},"prev":"${prev}","seq":${other},${rest}`,
  };
}
