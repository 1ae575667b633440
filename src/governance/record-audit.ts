import { canonicalJson } from "../domain/canonical-json.js";
import { DomainError } from "../domain/errors.js";
import { uuidv7 } from "../platform/random.js";
import type { AuditOutcome } from "../store/audit.js";
import type { TenantTx } from "../store/tx.js";

export interface AuditRecord {
  readonly action: string;
  readonly targetKind: string;
  readonly targetId: string;
  /** Default: success. */
  readonly outcome?: AuditOutcome;
  /** Plain JSON; amounts as texts, times as ISO texts, no secrets. */
  readonly detail: Readonly<Record<string, unknown>>;
}

const detailBytesMax = 65_536;

/** Writes the record of an act in the act's own transaction, as the last thing that it does. */
export async function recordAuditIn(tx: TenantTx, record: AuditRecord): Promise<void> {
  const { action, targetKind, targetId, outcome = "success" } = record;
  const detail = canonicalJson(record.detail);
  if (Buffer.byteLength(detail) > detailBytesMax)
    throw new DomainError("INTERNAL", `The audit record of ${action} is larger than ${detailBytesMax} bytes.`);
  tx.auditRows.push({ id: uuidv7(), scope: tx.scope, action, targetKind, targetId, outcome, detail });
}
