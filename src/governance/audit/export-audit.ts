import { createHash } from "node:crypto";
import { DomainError, invalidInput } from "../../domain/errors.js";
import type { Scope } from "../../domain/scope.js";
import { readAuditHead } from "../../store/audit-chain.js";
import { withTenantReads } from "../../store/reads.js";
import { withTenantTx } from "../../store/tx.js";
import { recordAuditIn } from "../record-audit.js";
import {
  bundleFiles,
  checkpointLine,
  type FileFacts,
  type Manifest,
  manifestFile,
  manifestText,
  recordLine,
} from "./bundle.js";
import { chainCheckpoints, chainRecords, pointAt } from "./read-chain.js";
import { type AuditSigner, signHead } from "./sign-heads.js";

export interface ExportRange {
  /** The first record. */
  readonly from: number;
  /** The last record. Null: the newest. */
  readonly to: number | null;
}

/** Where a file of the bundle goes, a few lines at a time. */
export type BundleSink = (file: string, lines: string) => Promise<void>;

const flushBytes = 64 * 1024;

/**
 * Writes records with their checkpoints, and the manifest last. The same range gives the same bytes, whenever it is asked for: no checkpoint within it
 * can come later, because one at or behind its end is signed first. Memory does not grow with the range. What is written is what is stored,
 * be it right or not: whoever has the bundle checks it.
 */
export async function exportAudit(
  signer: AuditSigner,
  scope: Scope,
  range: ExportRange,
  sink: BundleSink,
): Promise<Manifest> {
  const { stores, key } = signer;
  const head = await withTenantReads(stores, scope, readAuditHead);
  if (!head || head.seq === 0) throw new DomainError("NOT_FOUND", "There are no audit records yet.");
  const to = range.to ?? head.seq;
  if (!(to >= 1 && to <= head.seq)) throw invalidInput("to", `1 to ${head.seq}, the newest record`);
  if (!(range.from >= 1 && range.from <= to)) throw invalidInput("from", `1 to ${to}`);
  if (head.signedSeq < to) await signHead(signer, scope.tenantId);
  await withTenantTx(stores, scope, (tx) =>
    recordAuditIn(tx, {
      action: "audit.export",
      targetKind: "tenant",
      targetId: scope.tenantId,
      detail: { from: range.from, to },
    }),
  );

  const before = range.from - 1;
  const records = createFile(bundleFiles.records, sink);
  let last = await pointAt(stores, scope, before);
  const after = last;
  for await (const row of chainRecords(stores, scope, before, to)) {
    last = { seq: row.seq, hash: row.hash };
    await records.add(recordLine(row));
  }
  const checkpoints = createFile(bundleFiles.checkpoints, sink);
  for await (const checkpoint of chainCheckpoints(stores, scope, before, to))
    await checkpoints.add(checkpointLine(checkpoint));
  const manifest: Manifest = {
    tenantId: scope.tenantId,
    after,
    last,
    records: await records.end(),
    checkpoints: await checkpoints.end(),
    keyId: key.keyId,
  };
  await sink(bundleFiles.manifest, manifestFile(manifest, key.sign(manifestText(manifest))));
  return manifest;
}

function createFile(name: string, sink: BundleSink) {
  const digest = createHash("sha256");
  let rows = 0;
  let lines = "";
  const flush = async (): Promise<void> => {
    const flushed = lines;
    lines = "";
    await sink(name, flushed);
  };
  return {
    add: async (line: string): Promise<void> => {
      rows++;
      digest.update(line);
      lines += line;
      if (lines.length >= flushBytes) await flush();
    },
    end: async (): Promise<FileFacts> => {
      await flush();
      return { name, rows, digest: digest.digest("hex") };
    },
  };
}
