import pg from "pg";
import { DomainError } from "../domain/errors.js";
import type { Log } from "../platform/log.js";

// A run of the plane uses few connections on purpose: on two cores more of them are slower (64 clients on 64 connections wrote half of what 16 did).
const pathConnections = 8;
const readConnections = 8;
const sweepConnections = 2;

export interface Stores {
  /** For the coalescers of a run's path: one statement a flush. */
  readonly path: pg.Pool;
  /** For everything else, in transactions of its own. */
  readonly app: pg.Pool;
  /** For background sweeps: another role, which sees the names of all tenants' runs and changes nothing but dispatch columns. */
  readonly sweep: pg.Pool;
  close(): Promise<void>;
}

// bigint columns are counters that stay far below 2^53; json columns are forwarded as text, never parsed by the driver.
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") => {
    if (oid === pg.types.builtins.INT8) return (text: string) => Number(text);
    if (oid === pg.types.builtins.JSON || oid === pg.types.builtins.JSONB) return (text: string) => text;
    return pg.types.getTypeParser(oid, format as "text");
  }) as pg.CustomTypesConfig["getTypeParser"],
};

export function openStores(databaseUrl: string, sweeperDatabaseUrl: string, log: Log): Stores {
  let closing = false;
  const open = (connectionString: string, max: number, name: string): pg.Pool => {
    const pool = new pg.Pool({
      connectionString,
      max,
      types,
      application_name: `fairlead ${name}`,
      connectionTimeoutMillis: 5_000,
      idleTimeoutMillis: 60_000,
      statement_timeout: 30_000,
      query_timeout: 35_000,
      keepAlive: true,
    });
    // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
    pool.on("error", (error) => {
      // A pool counts as ended before its last goodbye has arrived, and a server that stops right behind us cuts that connection.
      if (!closing) log.warn({ err: error.message, pool: name }, "database connection lost");
    });
    return pool;
  };
  const path = open(databaseUrl, pathConnections, "path");
  const app = open(databaseUrl, readConnections, "app");
  const sweep = open(sweeperDatabaseUrl, sweepConnections, "sweep");
  return {
    path,
    app,
    sweep,
    close: async () => {
      closing = true;
      await Promise.all([path.end(), app.end(), sweep.end()]);
    },
  };
}

/** How a failed statement left the database. Only an SQLSTATE is five characters of which one is a digit: EPIPE is none. */
export type Failure = "refused" | "retry" | "unknown";

/** `refused`: certainly not done, and it would fail again. `retry`: certainly not done. `unknown`: the connection broke, it may have been committed. */
export function classifyFailure(error: unknown): Failure {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string" && /^(?=.*\d)[0-9A-Z]{5}$/.test(code)) {
    if (code === "40001" || code === "40P01" || code === "55P03" || code.startsWith("53") || code === "57P03")
      return "retry";
    if (code.startsWith("08") || code.startsWith("57") || code.startsWith("58")) return "unknown";
    return "refused";
  }
  return "unknown";
}

/** The store could not be reached, or the connection broke: nothing is wrong with what was asked. Mistakes of our own are errors of other classes. */
export function isAway(error: unknown): boolean {
  if (error instanceof DomainError) return error.code === "UNAVAILABLE";
  const failure = classifyFailure(error);
  if (failure === "retry") return true;
  const hasSqlState = error instanceof pg.DatabaseError;
  return failure === "unknown" && error instanceof Error && (hasSqlState || error.constructor === Error);
}

/** The values themselves were refused (a character that text cannot hold, a date out of range, a key too long to index): sent again, they would be again. */
export function isBadData(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(?=.*\d)(22|23|54)[0-9A-Z]{3}$/.test(code);
}
