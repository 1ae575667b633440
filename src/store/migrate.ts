// Brings a database to the state that the migrations folder describes. The bookkeeping is Prisma's (`_prisma_migrations`, the same advisory
// lock, the same checksums), so its tools and this one may follow each other; the rules are stricter.
//
// A file and its row commit together. Whoever dies in the middle leaves nothing behind, and the next migrator begins the file again. A file
// that fails leaves one row with the error and `rolled_back_at`, which nobody has to clear away: a corrected file is applied as if new.
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { SetupError } from "../platform/setup-error.js";
import { migrateQueueSchema } from "./queue-schema.js";
import { ensureRoles, GROUPS, OWNERS, type RolesRequest } from "./roles.js";

/** The lock that `prisma migrate` takes. Locks belong to a database, so migrations of several databases do not wait for each other. */
const MIGRATION_LOCK = 72_707_369;

const BOOKKEEPING = `
  create table if not exists public._prisma_migrations (
    id varchar(36) primary key not null,
    checksum varchar(64) not null,
    finished_at timestamptz,
    migration_name varchar(255) not null,
    logs text,
    rolled_back_at timestamptz,
    started_at timestamptz not null default now(),
    applied_steps_count integer not null default 0
  );
  grant select on public._prisma_migrations to ${GROUPS.app}, ${GROUPS.sweeper};
`;

/** Unqualified names mean the schema public, whoever the admin is, and whatever the file before has set. */
const FORGET_FILE = "set search_path = public; reset role";

export interface MigrateRequest extends RolesRequest {
  /** Default: the folder of this package. */
  readonly directory?: string;
  readonly log?: (line: string) => void;
}

interface Migration {
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

interface Row {
  readonly migration_name: string;
  readonly checksum: string;
  readonly finished_at: Date | null;
  readonly rolled_back_at: Date | null;
  readonly logs: string | null;
}

/** Makes the roles, applies what is pending, and names what was applied. Any number of callers may do this at once: one works, the rest wait. */
export async function migrate(request: MigrateRequest): Promise<{ applied: string[] }> {
  const migrations = readMigrations(request.directory ?? migrationsDirectory());
  const admin = await connectAdmin(request.adminUrl);
  try {
    await admin.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]).catch(explainLock);
    await ensureRoles(admin, request).catch(explainRights);
    await admin.query(BOOKKEEPING);
    const pending = pendingOf(migrations, await readRows(admin));
    for (const migration of pending) {
      await apply(admin, migration);
      request.log?.(`Applied migration ${migration.name}.`);
    }
    if (request.queueUrl !== undefined) await migrateQueueSchema(admin);
    return { applied: pending.map(({ name }) => name) };
  } finally {
    // The lock goes with the session.
    await admin.end();
  }
}

/** Migrations of this version that the database does not have yet. Newer ones that it has are no hindrance: old code runs beside new. */
export async function pendingMigrations(url: string, directory = migrationsDirectory()): Promise<string[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {}); // A connection that breaks also fails the query below.
  await client.connect();
  try {
    const { rows } = await client.query<{ there: boolean }>(
      "select to_regclass('public._prisma_migrations') is not null as there",
    );
    const done = rows[0]?.there
      ? new Set((await readRows(client)).filter(isApplied).map((row) => row.migration_name))
      : new Set<string>();
    return readMigrations(directory).flatMap(({ name }) => (done.has(name) ? [] : [name]));
  } finally {
    await client.end();
  }
}

/** `prisma/migrations` of the package that this file belongs to, be it run from src or from dist. */
export function migrationsDirectory(): string {
  for (let folder = path.dirname(fileURLToPath(import.meta.url)); ; folder = path.dirname(folder)) {
    const candidate = path.join(folder, "prisma", "migrations");
    if (existsSync(candidate)) return candidate;
    if (folder === path.dirname(folder)) {
      throw new SetupError(
        "The folder prisma/migrations is missing from this installation.",
        "Install Fairlead again.",
      );
    }
  }
}

function readMigrations(directory: string): Migration[] {
  if (!existsSync(directory)) throw new SetupError(`There is no migrations folder ${directory}.`, "Check the path.");
  const folders = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  // By code unit, not by locale: the order must be the same on every machine.
  const names = folders.map((entry) => entry.name).sort((a, b) => (a < b ? -1 : 1));
  return names.map((name) => {
    const file = path.join(directory, name, "migration.sql");
    if (!existsSync(file)) {
      throw new SetupError(
        `The migration ${name} has no file migration.sql.`,
        `Restore ${file}, or remove the folder.`,
      );
    }
    const bytes = readFileSync(file);
    return { name, sql: bytes.toString("utf8"), checksum: createHash("sha256").update(bytes).digest("hex") };
  });
}

async function connectAdmin(adminUrl: string): Promise<pg.Client> {
  const admin = new pg.Client({
    connectionString: adminUrl,
    connectionTimeoutMillis: 10_000,
    application_name: "fairlead migrate",
  });
  admin.on("error", () => {}); // A session that breaks also fails the statement that is waiting in it.
  await admin.connect();
  await admin.query(FORGET_FILE);
  // A migrator that waits behind a long transaction blocks everybody behind itself, so it gives up first.
  await admin.query("set lock_timeout = '5min'");
  // Lets the server notice that a migrator was killed while its statement runs, and free the lock. Not every platform can watch a socket so.
  await admin.query("set client_connection_check_interval = '1s'").catch(() => {});
  return admin;
}

async function readRows(client: pg.Client): Promise<Row[]> {
  const { rows } = await client.query<Row>(
    "select migration_name, checksum, finished_at, rolled_back_at, logs from public._prisma_migrations order by started_at, migration_name",
  );
  return rows;
}

function isApplied(row: Row): boolean {
  return row.finished_at !== null && row.rolled_back_at === null;
}

/** Compares folder and database, and refuses everything but a folder that continues what the database has. */
function pendingOf(migrations: readonly Migration[], rows: readonly Row[]): Migration[] {
  const failed = rows.find((row) => row.finished_at === null && row.rolled_back_at === null);
  if (failed !== undefined) throw halfApplied(failed);
  const applied = new Map(rows.filter(isApplied).map((row) => [row.migration_name, row.checksum]));
  const known = new Map(migrations.map((migration) => [migration.name, migration]));
  for (const [name, checksum] of applied) {
    const migration = known.get(name);
    if (migration === undefined) throw unknownMigration(name);
    if (migration.checksum !== checksum) throw editedMigration(migration, checksum);
  }
  const pending = migrations.filter(({ name }) => !applied.has(name));
  const last = [...applied.keys()].sort().at(-1);
  const late = pending.find(({ name }) => last !== undefined && name < last);
  if (late !== undefined && last !== undefined) throw lateMigration(late.name, last);
  return pending;
}

async function apply(admin: pg.Client, migration: Migration): Promise<void> {
  const id = randomUUID();
  try {
    await admin.query("begin");
    const before = await transactionId(admin);
    // The new owner of a function must be allowed to create in its schema at that moment, unless a superuser hands it over.
    await admin.query(`grant create on schema public to ${OWNERS.join(", ")}`);
    await admin.query(migration.sql);
    if ((await transactionId(admin)) !== before) throw ownTransaction(migration.name);
    await admin.query(FORGET_FILE);
    await admin.query(`revoke create on schema public from ${OWNERS.join(", ")}`);
    await admin.query(
      "insert into public._prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count) values ($1, $2, $3, now(), 1)",
      [id, migration.checksum, migration.name],
    );
    await admin.query("commit");
  } catch (error) {
    await recordFailure(admin, id, migration, error);
    throw failedMigration(migration, error);
  }
}

async function transactionId(admin: pg.Client): Promise<string | undefined> {
  const { rows } = await admin.query<{ id: string }>("select pg_current_xact_id()::text as id");
  return rows[0]?.id;
}

/** A lost connection cannot record anything, and need not: the server has rolled back. */
async function recordFailure(admin: pg.Client, id: string, migration: Migration, error: unknown): Promise<void> {
  const logs = error instanceof Error ? error.message : String(error);
  try {
    await admin.query("rollback");
    await admin.query(FORGET_FILE);
    await admin.query(`revoke create on schema public from ${OWNERS.join(", ")}`);
    await admin.query(
      "insert into public._prisma_migrations (id, checksum, migration_name, logs, rolled_back_at) values ($1, $2, $3, $4, now())",
      [id, migration.checksum, migration.name, logs],
    );
  } catch {
    // The first error is the one to report.
  }
}

function failedMigration(migration: Migration, error: unknown): SetupError {
  if (error instanceof SetupError) return error;
  const { message, position, code } = error as { message?: string; position?: string; code?: string };
  const line =
    position === undefined ? "" : ` in line ${migration.sql.slice(0, Number(position) - 1).split("\n").length}`;
  return new SetupError(
    `Migration ${migration.name} failed${line}: ${message ?? String(error)}${code === undefined ? "" : ` (${code})`}.`,
    "Nothing of it was kept. Correct the file or what it ran into, and migrate again.",
    { cause: error },
  );
}

function halfApplied(row: Row): SetupError {
  return new SetupError(
    `Migration ${row.migration_name} was begun by another tool and neither finished nor rolled back${row.logs ? `: ${row.logs}` : "."}`,
    `Look at the database, then run: npx prisma migrate resolve --rolled-back ${row.migration_name} (or --applied).`,
  );
}

function unknownMigration(name: string): SetupError {
  return new SetupError(
    `The database has the migration ${name}, which this version of Fairlead does not know.`,
    "A newer version has migrated it. Use that version, or restore a backup from before.",
  );
}

function editedMigration(migration: Migration, checksum: string): SetupError {
  return new SetupError(
    `Migration ${migration.name} was edited after it had been applied (file ${migration.checksum.slice(0, 12)}, database ${checksum.slice(0, 12)}).`,
    "Restore the file, and put the change into a new migration.",
  );
}

function lateMigration(name: string, last: string): SetupError {
  return new SetupError(
    `Migration ${name} is not applied, but ${last}, which comes after it, is.`,
    `Give ${name} a number behind ${last}.`,
  );
}

function ownTransaction(name: string): SetupError {
  return new SetupError(
    `Migration ${name} ends the transaction that it runs in.`,
    "Remove begin, commit and rollback from the file; what stood before them may have been kept, so look at the database first.",
  );
}

function explainLock(error: unknown): never {
  if ((error as { code?: string }).code !== "55P03") throw error;
  throw new SetupError(
    "Another migration has held the lock for five minutes.",
    "Wait for it or end it, then migrate again.",
    { cause: error },
  );
}

function explainRights(error: unknown): never {
  if ((error as { code?: string }).code !== "42501") throw error;
  throw new SetupError(
    `The role of the admin URL may not manage the roles of Fairlead: ${(error as Error).message}.`,
    "Migrate as a superuser, or as the owner of the database with CREATEROLE.",
    { cause: error },
  );
}
