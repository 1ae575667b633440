import { DomainError } from "../domain/errors.js";
import type { Scope } from "../domain/scope.js";
import { classifyFailure, type Stores } from "./client.js";
import { inTransaction, type TenantReads } from "./reads.js";

declare const writes: unique symbol;

/** A handle that can write: having one proves that a transaction is open. */
export interface TenantTx extends TenantReads {
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
      return await inTransaction(stores, scope, "begin", (handle) => work(handle as unknown as TenantTx));
    } catch (error) {
      if (classifyFailure(error) !== "retry") throw error;
      if (attempt >= 4) throw new DomainError("UNAVAILABLE", undefined, {}, error);
    }
  }
}
