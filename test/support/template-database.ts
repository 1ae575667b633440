import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { migrate, migrationsDirectory } from "../../src/store/migrate.js";
import { withCredentials } from "../../src/store/roles.js";

const PASSWORD = "fairlead-test";

/** The same server, another database. */
export function databaseUrl(adminUrl: string, name: string): string {
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.toString();
}

/** The logins that all test databases of a server share. */
export function loginUrls(url: string) {
  return {
    appUrl: withCredentials(url, "fairlead_test_app", PASSWORD),
    sweeperUrl: withCredentials(url, "fairlead_test_sweeper", PASSWORD),
    queueUrl: withCredentials(url, "fairlead_test_queue", PASSWORD),
  };
}

/** Makes the migrated database that tests are cloned from, unless it is there. Its name changes with whatever it is made from. */
export async function ensureTemplate(adminUrl: string): Promise<string> {
  const name = `fairlead_template_${fingerprint()}`;
  await withAdmin(adminUrl, async (admin) => {
    await admin.query("select pg_advisory_lock(hashtext('fairlead test template'))");
    const { rows } = await admin.query<{ datistemplate: boolean }>(
      "select datistemplate from pg_database where datname = $1",
      [name],
    );
    if (rows[0]?.datistemplate) return;
    // One that is not marked was left half-made.
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.query(`create database ${name}`);
    const url = databaseUrl(adminUrl, name);
    await migrate({ adminUrl: url, ...loginUrls(url) });
    // Nobody may connect to it, so that it is never too busy to be cloned.
    await admin.query(`alter database ${name} with is_template true allow_connections false`);
  });
  return name;
}

/** Removes templates and databases of tests from a server that is not ours to throw away. */
export async function removeTestDatabases(adminUrl: string, prefix: string): Promise<void> {
  await withAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query<{ datname: string }>(
      "select datname from pg_database where starts_with(datname, $1)",
      [prefix],
    );
    for (const { datname } of rows)
      await admin.query(`drop database if exists ${pg.escapeIdentifier(datname)} with (force)`);
  });
}

export async function withAdmin<T>(url: string, act: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await admin.connect();
  try {
    return await act(admin);
  } finally {
    await admin.end();
  }
}

function fingerprint(): string {
  const hash = createHash("sha256");
  const migrations = migrationsDirectory();
  for (const name of readdirSync(migrations, { recursive: true, encoding: "utf8" }).sort()) {
    if (name.endsWith(".sql")) hash.update(name).update(readFileSync(join(migrations, name)));
  }
  const root = join(migrations, "..", "..");
  for (const file of ["migrate", "roles", "queue-schema"])
    hash.update(readFileSync(join(root, "src", "store", `${file}.ts`)));
  const bullmq = JSON.parse(readFileSync(join(root, "node_modules", "bullmq", "package.json"), "utf8")) as {
    version: string;
  };
  return hash.update(bullmq.version).digest("hex").slice(0, 16);
}
