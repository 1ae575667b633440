import pg from "pg";

export interface DatabaseFacts {
  readonly user: string;
  /** For example 180004. */
  readonly serverVersion: number;
  readonly roundTripMs: number;
  /** The server's clock minus ours, as far as the round trip lets us tell. */
  readonly clockDifferenceMs: number;
}

/** What a connection with this URL finds. `now` is our clock. */
export async function inspectDatabase(url: string, now: () => number): Promise<DatabaseFacts> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: 5_000 });
  client.on("error", () => {}); // A connection that breaks also fails the query below.
  await client.connect();
  try {
    const before = now();
    const { rows } = await client.query<{ user: string; version: string; at: string }>(
      `select session_user as user, current_setting('server_version_num') as version, extract(epoch from clock_timestamp()) * 1000 as at`,
    );
    const after = now();
    const row = rows[0] as { user: string; version: string; at: string };
    return {
      user: row.user,
      serverVersion: Number(row.version),
      roundTripMs: after - before,
      clockDifferenceMs: Math.round(Number(row.at) - (before + after) / 2),
    };
  } finally {
    await client.end();
  }
}
