import { canonicalJson } from "./canonical-json.js";

/** A state of a chain: the number and the hash (hex) of a record. */
export interface ChainPoint {
  readonly seq: number;
  readonly hash: string;
}

/** A state that the installation vouches for. */
export interface AuditCheckpoint extends ChainPoint {
  readonly tenantId: string;
  /** RFC 3339 in UTC with six digits of the second. */
  readonly at: string;
  readonly keyId: string;
  readonly signature: Buffer;
}

/** The text that is signed. */
export function checkpointText(checkpoint: Omit<AuditCheckpoint, "signature">): string {
  const { at, hash, keyId, seq, tenantId } = checkpoint;
  return canonicalJson({ at, hash, keyId, kind: "fairlead.audit.checkpoint", seq, tenant: tenantId, v: 1 });
}
