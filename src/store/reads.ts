import type pg from "pg";
import { DomainError } from "../domain/errors.js";
import type { Scope } from "../domain/scope.js";
import { classifyFailure, isAway, type Stores } from "./client.js";

declare const reads: unique symbol;

/** A handle that can look, bound to one tenant by row-level security. */
export interface TenantReads {
  readonly scope: Scope;
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  readonly [reads]: true;
}

/** One read-only transaction with the tenant set. */
export function withTenantReads<Result>(
  stores: Stores,
  scope: Scope,
  work: (tenant: TenantReads) => Promise<Result>,
): Promise<Result> {
  return inTransaction(stores, scope, "begin read only", (handle) => work(handle as unknown as TenantReads));
}

/** For store/tx.ts only: the transaction that both kinds of handle live in. */
export async function inTransaction<Result>(
  stores: Stores,
  scope: Scope,
  begin: string,
  work: (handle: { scope: Scope; query: TenantReads["query"] }) => Promise<Result>,
): Promise<Result> {
  const client = await connect(stores.app);
  let broken: Error | undefined;
  // A connection that breaks between two statements says so by an event, and one that nobody hears ends the process.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on("error", onError);
  try {
    // The tenant's id is a UUID that authentication made, so the two statements can travel together.
    await client.query(`${begin}; select set_config('app.tenants', '{${scope.tenantId}}', true)`);
    const result = await work({
      scope,
      query: async (text, values) => (await client.query(text, values as unknown[] | undefined)).rows,
    });
    await client.query("commit");
    return result;
  } catch (error) {
    if (classifyFailure(error) === "unknown" && !(error instanceof DomainError)) broken = error as Error;
    else await client.query("rollback").catch((failure: Error) => (broken = failure));
    // What may be tried again is left to who may try again.
    if (classifyFailure(error) !== "retry" && isAway(error) && !(error instanceof DomainError))
      throw new DomainError("UNAVAILABLE", undefined, {}, error);
    throw error;
  } finally {
    // One that is thrown away may complain again.
    if (!broken) client.off("error", onError);
    client.release(broken);
  }
}

async function connect(pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw new DomainError("UNAVAILABLE", undefined, {}, error);
  }
}
