import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { waitFor } from "../../src/platform/wait-for.js";
import { dumpCatalog } from "../../src/store/catalog-dump.js";
import { migrate, migrationsDirectory, pendingMigrations } from "../../src/store/migrate.js";
import { checkPosture } from "../../src/store/posture.js";
import { roleUrls, withCredentials } from "../../src/store/roles.js";
import { startCluster } from "../support/cluster.js";
import { type MigrationsFolder, migrationsFolder } from "../support/migrations-folder.js";
import { type EmptyDatabase, emptyDatabase } from "../support/postgres.js";
import { runProcess } from "../support/run-process.js";
import { loginUrls, withAdmin } from "../support/template-database.js";

const MIGRATOR = fileURLToPath(new URL("../support/migrate-process.ts", import.meta.url));
const SECRET = Buffer.from("for tests only");

let database: EmptyDatabase;
const folders: MigrationsFolder[] = [];

beforeEach(async () => {
  database = await emptyDatabase();
});
afterEach(async () => {
  const logins = Object.values(roleUrls(database.adminUrl, SECRET)).map((url) => new URL(url).username);
  await database.drop();
  await withAdmin(serverOf(database), (admin) =>
    admin.query(logins.map((name) => `drop role if exists ${name}`).join(";")),
  );
});
afterAll(() => {
  for (const { directory } of folders) rmSync(directory, { recursive: true, force: true });
});

function serverOf({ adminUrl }: EmptyDatabase): string {
  const url = new URL(adminUrl);
  url.pathname = "/postgres";
  return url.toString();
}

function folder(files: Readonly<Record<string, string>>): MigrationsFolder {
  const made = migrationsFolder(files);
  folders.push(made);
  return made;
}

function requestFor({ adminUrl }: EmptyDatabase, directory?: string) {
  return { adminUrl, ...roleUrls(adminUrl, SECRET), ...(directory === undefined ? {} : { directory }) };
}

/** Without the queue, whose hundreds of functions these tests are not about. */
function requestWithoutQueue(directory: string) {
  const { adminUrl, appUrl, sweeperUrl } = requestFor(database);
  return { adminUrl, appUrl, sweeperUrl, directory };
}

async function tablesOf(adminUrl: string): Promise<string[]> {
  return withAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query<{ name: string }>(
      "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> '_prisma_migrations' order by 1",
    );
    return rows.map(({ name }) => name);
  });
}

async function bookkeeping(
  adminUrl: string,
): Promise<{ name: string; finished: boolean; rolledBack: boolean; logs: string | null }[]> {
  return withAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query(
      `select migration_name as name, finished_at is not null as finished, rolled_back_at is not null as "rolledBack", logs
         from _prisma_migrations order by started_at, migration_name`,
    );
    return rows;
  });
}

async function holdMigrations(adminUrl: string): Promise<pg.Client> {
  const holder = new pg.Client({ connectionString: adminUrl });
  await holder.connect();
  await holder.query("select pg_advisory_lock(72707369)");
  return holder;
}

describe("several at once", () => {
  test("of twenty migrators of each of three databases one applies and nineteen wait, in a cluster without any roles", async () => {
    const cluster = await startCluster(process.env["FAIRLEAD_TEST_PG_BIN"]);
    try {
      const databases = await Promise.all([1, 2, 3].map(() => emptyDatabase(cluster.adminUrl)));
      const results = await Promise.all(
        databases.flatMap((one) =>
          Array.from({ length: 20 }, async () => ({ one, ...(await migrate(requestFor(one))) })),
        ),
      );
      for (const one of databases) {
        const applied = results.filter((result) => result.one === one).map((result) => result.applied);
        expect(applied.filter((names) => names.length > 0)).toHaveLength(1);
        expect(applied.filter((names) => names.length === 0)).toHaveLength(19);
        expect(await pendingMigrations(one.adminUrl)).toEqual([]);
        expect((await bookkeeping(one.adminUrl)).every((row) => row.finished && !row.rolledBack)).toBe(true);
      }
    } finally {
      await cluster.stop();
    }
  }, 120_000);
});

test("sixteen databases of a cluster without any roles can be migrated at the same moment, with the same logins", async () => {
  const cluster = await startCluster(process.env["FAIRLEAD_TEST_PG_BIN"]);
  try {
    const { directory } = folder({
      "0001_first": "create table first (id int); grant select on first to fairlead_app",
    });
    const databases = await Promise.all(Array.from({ length: 16 }, () => emptyDatabase(cluster.adminUrl)));
    // Each migrator is held back at its database's lock until all have come that far.
    const holders = await Promise.all(databases.map(({ adminUrl }) => holdMigrations(adminUrl)));
    const migrations = databases.map(({ adminUrl }) => {
      const { appUrl, sweeperUrl } = loginUrls(adminUrl);
      return migrate({ adminUrl, appUrl, sweeperUrl, directory });
    });
    const allWait = () =>
      withAdmin(cluster.adminUrl, async (admin) => {
        const { rows } = await admin.query("select 1 from pg_locks where locktype = 'advisory' and not granted");
        return rows.length === databases.length;
      });
    expect(await waitFor(allWait, 20_000)).toBe(true);
    await Promise.all(holders.map((holder) => holder.end()));
    const results = await Promise.all(migrations);
    expect(results).toEqual(databases.map(() => ({ applied: ["0001_first"] })));
    for (const { adminUrl } of databases) {
      const { appUrl } = loginUrls(adminUrl);
      expect((await withAdmin(appUrl, (app) => app.query("select from first"))).rows).toEqual([]);
    }
  } finally {
    await cluster.stop();
  }
}, 60_000);

describe("a migrator that dies", () => {
  test("in the middle of a file leaves nothing of it behind, and the next one applies it", async () => {
    const { directory } = folder({
      "0001_first": "create table first (id int)",
      // Held up by the test, at a point where half of the file has run.
      "0002_second": "create table second (id int); select pg_advisory_lock(4711); create table third (id int)",
    });
    const request = requestWithoutQueue(directory);
    await withAdmin(database.adminUrl, async (holder) => {
      await holder.query("select pg_advisory_lock(4711)");
      const victim = runProcess(MIGRATOR, [JSON.stringify(request)]);
      const waiting = async () => {
        const { rows } = await holder.query(
          "select 1 from pg_locks where locktype = 'advisory' and objid = 4711 and not granted",
        );
        return rows.length === 1;
      };
      expect(await waitFor(waiting, 20_000)).toBe(true);
      victim.child.kill("SIGKILL");
      expect(await victim.ended).toEqual({ code: null, signal: "SIGKILL" });
      expect(await tablesOf(database.adminUrl)).toEqual(["first"]);
      expect(await bookkeeping(database.adminUrl)).toMatchObject([{ name: "0001_first", finished: true }]);
    });
    expect(await migrate(request)).toEqual({ applied: ["0002_second"] });
    expect(await tablesOf(database.adminUrl)).toEqual(["first", "second", "third"]);
  });

  test("by SIGKILL frees the lock within seconds although its statement is still waiting", async () => {
    const { directory } = folder({ "0001_stuck": "select pg_advisory_lock(4712)" });
    await withAdmin(database.adminUrl, async (holder) => {
      await holder.query("select pg_advisory_lock(4712)");
      const victim = runProcess(MIGRATOR, [JSON.stringify(requestWithoutQueue(directory))]);
      const migrators = async (query: string) =>
        (
          await holder.query(
            `select 1 from pg_stat_activity where application_name = 'fairlead migrate' and datname = current_database() ${query}`,
          )
        ).rows.length;
      expect(await waitFor(async () => (await migrators("and wait_event = 'advisory'")) === 1, 20_000)).toBe(true);
      victim.child.kill("SIGKILL");
      expect(await waitFor(async () => (await migrators("")) === 0, 10_000)).toBe(true);
      await victim.ended;
    });
  });
});

describe("a file that fails", () => {
  test("keeps nothing but a row that says why, and the corrected file is applied", async () => {
    const files = folder({ "0001_first": "create table first (id int);\ncreate table first (id int);" });
    await expect(migrate(requestWithoutQueue(files.directory))).rejects.toMatchObject({
      name: "SetupError",
      message: 'Migration 0001_first failed: relation "first" already exists (42P07).',
    });
    expect(await tablesOf(database.adminUrl)).toEqual([]);
    expect(await bookkeeping(database.adminUrl)).toEqual([
      { name: "0001_first", finished: false, rolledBack: true, logs: 'relation "first" already exists' },
    ]);
    expect(await pendingMigrations(database.adminUrl, files.directory)).toEqual(["0001_first"]);

    files.write("0001_first", "create table first (id int)");
    expect(await migrate(requestWithoutQueue(files.directory))).toEqual({ applied: ["0001_first"] });
    expect(await pendingMigrations(database.adminUrl, files.directory)).toEqual([]);
  });

  test("is reported with the line of the mistake", async () => {
    const { directory } = folder({ "0001_typo": "create table first (id int);\n\ncreate tabel second (id int);" });
    await expect(migrate(requestWithoutQueue(directory))).rejects.toThrow(
      /0001_typo failed in line 3: syntax error at or near "tabel"/,
    );
  });

  test("stops the files after it", async () => {
    const { directory } = folder({ "0001_bad": "select 1/0", "0002_good": "create table good (id int)" });
    await expect(migrate(requestWithoutQueue(directory))).rejects.toThrow(/0001_bad failed: division by zero/);
    expect(await tablesOf(database.adminUrl)).toEqual([]);
  });

  test("that ends its transaction is refused", async () => {
    const { directory } = folder({ "0001_commit": "create table first (id int); commit;" });
    await expect(migrate(requestWithoutQueue(directory))).rejects.toThrow(
      "Migration 0001_commit ends the transaction that it runs in.",
    );
  });

  test("or changes the session does not disturb the next one", async () => {
    const { directory } = folder({
      "0001_session":
        "create schema elsewhere; select set_config('search_path', 'elsewhere', false); set role pg_monitor",
      "0002_next": "create table next (id int)",
    });
    expect(await migrate(requestWithoutQueue(directory))).toEqual({ applied: ["0001_session", "0002_next"] });
    expect(await tablesOf(database.adminUrl)).toEqual(["next"]);
  });
});

describe("a folder that does not continue the database", () => {
  const two = { "0001_first": "create table first (id int)", "0003_third": "create table third (id int)" };

  test("is refused when an applied file was edited", async () => {
    const files = folder(two);
    await migrate(requestWithoutQueue(files.directory));
    files.write("0001_first", "create table first (id bigint)");
    await expect(migrate(requestWithoutQueue(files.directory))).rejects.toThrow(
      /0001_first was edited after it had been applied \(file [0-9a-f]{12}, database [0-9a-f]{12}\)/,
    );
  });

  test("is refused when it lacks a file that the database has, while an old replica still counts as up to date", async () => {
    const files = folder(two);
    await migrate(requestWithoutQueue(files.directory));
    files.remove("0003_third");
    await expect(migrate(requestWithoutQueue(files.directory))).rejects.toMatchObject({
      message: "The database has the migration 0003_third, which this version of Fairlead does not know.",
      hint: expect.stringContaining("newer version"),
    });
    expect(await pendingMigrations(database.adminUrl, files.directory)).toEqual([]);
  });

  test("is refused when a new file sorts before an applied one", async () => {
    const files = folder(two);
    await migrate(requestWithoutQueue(files.directory));
    files.write("0002_second", "create table second (id int)");
    await expect(migrate(requestWithoutQueue(files.directory))).rejects.toThrow(
      "Migration 0002_second is not applied, but 0003_third, which comes after it, is.",
    );
    expect(await tablesOf(database.adminUrl)).toEqual(["first", "third"]);
  });

  test("is refused when another tool left a file half applied", async () => {
    const files = folder(two);
    await migrate(requestWithoutQueue(files.directory));
    files.write("0004_fourth", "select 1");
    await withAdmin(database.adminUrl, (admin) =>
      admin.query(
        "insert into _prisma_migrations (id, checksum, migration_name, logs) values ('x', 'y', '0004_fourth', 'boom')",
      ),
    );
    await expect(migrate(requestWithoutQueue(files.directory))).rejects.toMatchObject({
      message: "Migration 0004_fourth was begun by another tool and neither finished nor rolled back: boom",
      hint: expect.stringContaining("prisma migrate resolve --rolled-back 0004_fourth"),
    });
  });

  test("is refused when a migration has no file", async () => {
    const files = folder(two);
    rmSync(join(files.directory, "0003_third", "migration.sql"));
    await expect(migrate(requestWithoutQueue(files.directory))).rejects.toThrow(
      "The migration 0003_third has no file migration.sql.",
    );
  });
});

describe("roles", () => {
  test("get a new password when the URL has one, and keep working", async () => {
    const { directory } = folder({
      "0001_first": "create table first (id int); grant select on first to fairlead_app",
    });
    const request = requestWithoutQueue(directory);
    await migrate(request);
    const appUrl = withCredentials(request.appUrl, new URL(request.appUrl).username, "changed & 'quoted' \\ %41");
    await migrate({ ...request, appUrl });
    expect(await withAdmin(appUrl, (app) => app.query("select count(*)::int as n from first"))).toMatchObject({
      rows: [{ n: 0 }],
    });
    await expect(withAdmin(request.appUrl, (app) => app.query("select 1"))).rejects.toMatchObject({ code: "28P01" });
  });

  test("are not the admin and not each other", async () => {
    const { directory } = folder({});
    const request = requestWithoutQueue(directory);
    await expect(migrate({ ...request, appUrl: request.adminUrl })).rejects.toThrow(
      /The app URL connects as postgres, the same role as the admin URL/,
    );
    await expect(migrate({ ...request, sweeperUrl: request.appUrl })).rejects.toThrow(
      /The sweeper URL connects as \S+_app, the same role as the app URL/,
    );
    expect(await tablesOf(database.adminUrl)).toEqual([]);
  });

  test("that may ignore row security are refused and left as they are", async () => {
    const { directory } = folder({});
    const request = requestWithoutQueue(directory);
    const name = new URL(request.appUrl).username;
    await withAdmin(database.adminUrl, (admin) => admin.query(`create role ${name} login bypassrls`));
    await expect(migrate(request)).rejects.toMatchObject({
      message: `The role of the app URL, ${name} has BYPASSRLS, so row security would not hold for it.`,
      hint: `Run alter role "${name}" nosuperuser nobypassrls, or name another role.`,
    });
  });

  test("may read what they were granted and create nothing", async () => {
    const request = requestFor(database);
    await migrate(request);
    for (const url of [request.appUrl, request.sweeperUrl, request.queueUrl]) {
      await expect(withAdmin(url, (one) => one.query("create table mine (id int)"))).rejects.toMatchObject({
        code: "42501",
      });
    }
    await expect(withAdmin(request.queueUrl, (queue) => queue.query("select from run"))).rejects.toMatchObject({
      code: "42501",
    });
    await expect(withAdmin(request.appUrl, (app) => app.query("select from bullmq.job"))).rejects.toMatchObject({
      code: "42501",
    });
    expect(await pendingMigrations(request.appUrl)).toEqual([]);
  });

  test("have names that fit and stay apart, however long the database's name is", () => {
    const long = "x".repeat(63);
    const users = [`${long.slice(1)}a`, `${long.slice(1)}b`].flatMap((name) =>
      Object.values(roleUrls(`postgresql://u:p@127.0.0.1/${name}`, SECRET)).map((url) => new URL(url).username),
    );
    expect(new Set(users).size).toBe(6);
    expect(users.every((user) => user.length <= 63)).toBe(true);
    expect(roleUrls("postgresql://u:p@127.0.0.1/fair", SECRET)).toEqual(
      roleUrls("postgresql://u:p@127.0.0.1/fair", SECRET),
    );
    expect(new URL(roleUrls("postgresql://u:p@127.0.0.1/fair", SECRET).appUrl).username).toBe("fair_app");
  });
});

test("the owner of the database with CREATEROLE can migrate without being superuser", async () => {
  const cluster = await startCluster(process.env["FAIRLEAD_TEST_PG_BIN"]);
  try {
    const owned = await emptyDatabase(cluster.adminUrl);
    await withAdmin(cluster.adminUrl, (admin) =>
      admin.query(`create role owner login createrole password 'owner'; alter database ${owned.name} owner to owner`),
    );
    const request = { ...requestFor(owned), adminUrl: withCredentials(owned.adminUrl, "owner", "owner") };
    expect((await migrate(request)).applied).not.toEqual([]);
    expect((await migrate(request)).applied).toEqual([]);
    const posture = await Promise.all([request.appUrl, request.sweeperUrl, request.queueUrl].map(checkPosture));
    expect(posture).toEqual([[], [], []]);
    const usual = await emptyDatabase(cluster.adminUrl);
    await migrate(requestFor(usual));
    expect(await dumpCatalog(owned.adminUrl)).toBe(await dumpCatalog(usual.adminUrl));
  } finally {
    await cluster.stop();
  }
}, 60_000);

test("the folder of the package is found", () => {
  expect(migrationsDirectory()).toBe(fileURLToPath(new URL("../../prisma/migrations", import.meta.url)));
});
