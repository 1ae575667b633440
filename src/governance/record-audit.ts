import { uuidv7 } from "../platform/random.js";
import { insertAuditEvent } from "../store/audit.js";
import type { TenantTx } from "../store/tx.js";

export interface AuditRecord {
  readonly action: string;
  readonly targetKind: string;
  readonly targetId: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** Writes the record of an act in the act's own transaction. */
export function recordAuditIn(tx: TenantTx, record: AuditRecord): Promise<void> {
  return insertAuditEvent(tx, { ...record, id: uuidv7() });
}
