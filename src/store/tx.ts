import { DomainError } from "../domain/errors.js";
import type { Scope } from "../domain/scope.js";
import { type AuditRow, appendAuditRows } from "./audit.js";
import { classifyFailure, type Stores } from "./client.js";
import { inTransaction, type TenantReads } from "./reads.js";

declare const writes: unique symbol;

/** A handle that can write: having one proves that a transaction is open. */
export interface TenantTx extends TenantReads {
  /** Records of what is done here. They are written after everything else, right before the commit. */
  readonly auditRows: AuditRow[];
  readonly [writes]: true;
}

/** One transaction with the tenant set: the act, its audit record and what must be told outside are written together or not at all. */
export async function withTenantTx<Result>(
  stores: Stores,
  scope: Scope,
  work: (tx: TenantTx) => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await inTransaction(stores, scope, "begin", async (handle) => {
        const auditRows: AuditRow[] = [];
        const result = await work({ ...handle, auditRows } as unknown as TenantTx);
        if (auditRows.length > 0) await appendAuditRows(handle.query, auditRows);
        return result;
      });
    } catch (error) {
      if (classifyFailure(error) !== "retry") throw error;
      if (attempt >= 4) throw new DomainError("UNAVAILABLE", undefined, {}, error);
    }
  }
}
