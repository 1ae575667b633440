import type pg from "pg";

/** Removes contents that were deleted more than `ms` ago, at most `rows` of them; says how many there were. */
export async function purgeDeleted(pool: pg.Pool, ms: number, rows: number): Promise<number> {
  const result = await pool.query<{ n: number }>("select run_purge_v1($1, $2) as n", [ms, rows]);
  return result.rows[0]?.n ?? 0;
}

/** Forgets repeatable requests that are older than that, at most `rows` of a kind; says how many there were of the larger kind. */
export async function purgeRequests(pool: pg.Pool, runMs: number, createMs: number, rows: number): Promise<number> {
  const result = await pool.query<{ n: number }>("select request_purge_v1($1, $2, $3) as n", [runMs, createMs, rows]);
  return result.rows[0]?.n ?? 0;
}
