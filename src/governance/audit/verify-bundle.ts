import { createHash } from "node:crypto";
import type { AuditCheckpoint } from "../../domain/audit-checkpoint.js";
import {
  type FileFacts,
  type Manifest,
  manifestText,
  readCheckpointLine,
  readManifestFile,
  readRecordLine,
} from "./bundle.js";
import { type ChainReport, checkChain, type StoredRecord } from "./check-chain.js";
import { type AuditPublicKeys, checkSignature } from "./signing-key.js";

/** The files of an export, a line at a time without its end. */
export interface BundleLines {
  readonly manifest: string;
  readonly records: AsyncIterable<string>;
  readonly checkpoints: AsyncIterable<string>;
}

/** Checks an export with nothing but its files and the public keys. A fault of the chain is named before one of the manifest. */
export async function verifyBundle(bundle: BundleLines, keys: AuditPublicKeys): Promise<ChainReport> {
  const read = readManifestFile(bundle.manifest);
  if (!read) return refused("unreadable", "manifest.json is no manifest that this version can read.");
  const { manifest, signature } = read;
  const signed = checkSignature(keys, manifest.keyId, manifestText(manifest), signature);
  const records = counted(bundle.records);
  const checkpoints = counted(bundle.checkpoints);
  const report = await checkChain({
    tenantId: manifest.tenantId,
    start: manifest.after,
    records: readRecords(records.lines),
    checkpoints: readCheckpoints(checkpoints.lines, manifest),
    keys,
    // Who signed the manifest says where the chain ended; a manifest that nobody signed says nothing.
    head: signed === "good" ? manifest.last : null,
  });
  if (report.verdict !== "ok") return report;
  if (signed === "bad") return { ...report, ...refusal("bad_signature", "manifest.json is not what was signed.") };
  if (signed === "unknown_key")
    return {
      ...report,
      ...refusal("unknown_key", `manifest.json is signed by key ${manifest.keyId}, which was not given.`),
    };
  for (const [file, facts] of [
    [records, manifest.records],
    [checkpoints, manifest.checkpoints],
  ] as const) {
    const found = await file.rest();
    if (found.rows !== facts.rows || found.digest !== facts.digest)
      return { ...report, ...refusal("modified", `${facts.name} is not the file of the manifest.`) };
  }
  // The manifest's signature covers the last record like a checkpoint.
  return { ...report, signedTo: manifest.last.seq };
}

const refusal = (verdict: ChainReport["verdict"], message: string) => ({ verdict, firstBadSeq: null, message });

function refused(verdict: ChainReport["verdict"], message: string): ChainReport {
  return { ...refusal(verdict, message), checkedTo: { seq: 0, hash: "" }, signedTo: 0 };
}

async function* readRecords(lines: AsyncIterable<string>): AsyncGenerator<StoredRecord> {
  // What cannot be read is no record, which the walk says with its number.
  for await (const line of lines) yield readRecordLine(line) ?? { record: line, hash: "" };
}

async function* readCheckpoints(
  lines: AsyncIterable<string>,
  { after, tenantId }: Manifest,
): AsyncGenerator<AuditCheckpoint> {
  for await (const line of lines) {
    const none = { at: "", hash: "", keyId: "", seq: after.seq, signature: Buffer.alloc(0), tenantId };
    yield readCheckpointLine(line) ?? none;
  }
}

/** Counts and digests what passes, and what is left when nobody reads on. */
function counted(lines: AsyncIterable<string>) {
  const digest = createHash("sha256");
  let rows = 0;
  async function* pass(): AsyncGenerator<string> {
    for await (const line of lines) {
      rows++;
      digest.update(`${line}\n`);
      yield line;
    }
  }
  const passing = pass();
  return {
    lines: passing,
    rest: async (): Promise<Pick<FileFacts, "rows" | "digest">> => {
      for await (const _line of passing);
      return { rows, digest: digest.digest("hex") };
    },
  };
}
