import type { AuditCheckpoint, ChainPoint } from "../../domain/audit-checkpoint.js";
import { canonicalJson } from "../../domain/canonical-json.js";
import { isUuid } from "../../domain/ids.js";
import type { StoredRecord } from "./check-chain.js";

// What an export is made of: records and checkpoints as lines, and a manifest that says which they are, signed by the installation.
// docs/audit.md describes the files for those who check them with other tools.

export const bundleFiles = {
  records: "records.jsonl",
  checkpoints: "checkpoints.jsonl",
  manifest: "manifest.json",
} as const;

export interface FileFacts {
  readonly name: string;
  readonly rows: number;
  /** SHA-256, hex. */
  readonly digest: string;
}

export interface Manifest {
  readonly tenantId: string;
  /** The record before the first one here: number 0 and the genesis hash when it begins at the beginning. */
  readonly after: ChainPoint;
  readonly last: ChainPoint;
  readonly records: FileFacts;
  readonly checkpoints: FileFacts;
  readonly keyId: string;
}

export function manifestText({ tenantId, ...manifest }: Manifest): string {
  return canonicalJson({ ...manifest, kind: "fairlead.audit.export", tenant: tenantId, v: 1 });
}

export function recordLine({ hash, record }: StoredRecord): string {
  return `{"hash":"${hash}","record":${record}}\n`;
}

export function checkpointLine({ at, hash, keyId, seq, signature, tenantId }: AuditCheckpoint): string {
  const signed = signature.toString("base64");
  return `${canonicalJson({ at, hash, keyId, seq, signature: signed, tenant: tenantId })}\n`;
}

export function manifestFile(manifest: Manifest, signature: Buffer): string {
  return `{"manifest":${manifestText(manifest)},"signature":"${signature.toString("base64")}"}\n`;
}

/** The record and the hash in a line; null when it is no such line. */
export function readRecordLine(line: string): StoredRecord | null {
  const match = /^\{"hash":"([0-9a-f]{64})","record":(\{.*\})\}$/s.exec(line);
  return match ? { hash: match[1] as string, record: match[2] as string } : null;
}

export function readCheckpointLine(line: string): AuditCheckpoint | null {
  const { at, hash, keyId, seq, signature, tenant } = parsed(line);
  if (![at, hash, keyId, signature, tenant].every((text) => typeof text === "string") || !Number.isSafeInteger(seq))
    return null;
  return {
    at: at as string,
    hash: hash as string,
    keyId: keyId as string,
    seq: seq as number,
    signature: Buffer.from(signature as string, "base64"),
    tenantId: tenant as string,
  };
}

/** The manifest and its signature; null when it is none of this version. */
export function readManifestFile(text: string): { manifest: Manifest; signature: Buffer } | null {
  const { manifest, signature } = parsed(text);
  if (typeof signature !== "string" || typeof manifest !== "object" || manifest === null) return null;
  const { after, checkpoints, keyId, kind, last, records, tenant, v } = manifest as Record<string, unknown>;
  const known = kind === "fairlead.audit.export" && v === 1 && isUuid(tenant) && typeof keyId === "string";
  if (!known || !isPoint(after) || !isPoint(last) || !isFacts(records) || !isFacts(checkpoints)) return null;
  return {
    manifest: { tenantId: tenant, after, last, records, checkpoints, keyId },
    signature: Buffer.from(signature, "base64"),
  };
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function isPoint(value: unknown): value is ChainPoint {
  const { seq, hash } = (value ?? {}) as Record<string, unknown>;
  return Number.isSafeInteger(seq) && typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash);
}

function isFacts(value: unknown): value is FileFacts {
  const { name, rows, digest } = (value ?? {}) as Record<string, unknown>;
  return typeof name === "string" && Number.isSafeInteger(rows) && typeof digest === "string";
}
