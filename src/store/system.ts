// Reads across tenants, for the operator's own commands. They connect as the sweeper, who may look at the rows that dispatch needs and no others.
import pg from "pg";
import type { TenantId } from "../domain/ids.js";

export async function findTenantIdBySlug(sweeperUrl: string, slug: string): Promise<TenantId | undefined> {
  const client = new pg.Client({ connectionString: sweeperUrl, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {}); // A connection that breaks also fails the query below.
  await client.connect();
  try {
    const { rows } = await client.query<{ id: TenantId }>("select id from tenant where slug = $1", [slug]);
    return rows[0]?.id;
  } finally {
    await client.end();
  }
}
