import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { dumpCatalog } from "../../src/store/catalog-dump.js";
import { migrate } from "../../src/store/migrate.js";
import { POSTGRES_15, startCluster } from "../support/cluster.js";
import { type EmptyDatabase, emptyDatabase } from "../support/postgres.js";
import { loginUrls, withAdmin } from "../support/template-database.js";

const GOLDEN = new URL("../../prisma/schema.golden.sql", import.meta.url);

async function migrated(server: string): Promise<EmptyDatabase> {
  const database = await emptyDatabase(server);
  await migrate({ adminUrl: database.adminUrl, ...loginUrls(database.adminUrl) });
  return database;
}

describe("the migrated schema", () => {
  test("is the golden one (UPDATE_GOLDEN=1 rewrites it)", async () => {
    const database = await migrated(inject("postgresAdminUrl"));
    const dump = await dumpCatalog(database.adminUrl);
    await database.drop();
    if (process.env["UPDATE_GOLDEN"] === "1") writeFileSync(GOLDEN, dump);
    expect(dump).toBe(readFileSync(GOLDEN, "utf8"));
  });

  test.skipIf(!existsSync(POSTGRES_15))(
    `is the same on PostgreSQL 15 (skipped unless ${POSTGRES_15} exists)`,
    async () => {
      const cluster = await startCluster(POSTGRES_15);
      try {
        const database = await migrated(cluster.adminUrl);
        const version = await withAdmin(database.adminUrl, (admin) => admin.query("show server_version_num"));
        expect(version.rows[0].server_version_num).toMatch(/^15/);
        expect(await dumpCatalog(database.adminUrl)).toBe(readFileSync(GOLDEN, "utf8"));
      } finally {
        await cluster.stop();
      }
    },
    60_000,
  );
});

describe("the dump tells apart", () => {
  let database: EmptyDatabase;
  let before: string;

  beforeAll(async () => {
    database = await migrated(inject("postgresAdminUrl"));
    await withAdmin(database.adminUrl, (admin) =>
      admin.query(`
        create table probe (a int not null, b text default 'x', constraint positive check (a > 0));
        create index probe_some on probe (a) where b is null;
        create function probed() returns trigger language plpgsql as $$ begin return new; end $$;
        create trigger probe_touch before update on probe for each row execute function probed();
        alter table probe enable row level security;
        create policy mine on probe for select to fairlead_app using (a = 1);
        grant select on probe to fairlead_app;
        create table parts (at date) partition by range (at);
        create table parts_rest partition of parts default;
        create view seen as select a from probe;
        create sequence ticks;
        create type colour as enum ('red', 'blue');
      `),
    );
    before = await dumpCatalog(database.adminUrl);
  });
  afterAll(async () => {
    await database.drop();
  });

  // Each with what undoes it, and each seen only by a dump that looks at that kind of thing.
  const changes = [
    ["a column's type", "alter table probe alter b type varchar(9)", "alter table probe alter b type text"],
    ["a column's null", "alter table probe alter a drop not null", "alter table probe alter a set not null"],
    ["a default", "alter table probe alter b set default 'y'", "alter table probe alter b set default 'x'"],
    [
      "a column's storage",
      "alter table probe alter b set storage external",
      "alter table probe alter b set storage extended",
    ],
    [
      "a check",
      "alter table probe drop constraint positive",
      "alter table probe add constraint positive check (a > 0)",
    ],
    [
      "a partial index",
      "drop index probe_some; create index probe_some on probe (a) where b is not null",
      "drop index probe_some; create index probe_some on probe (a) where b is null",
    ],
    ["row security", "alter table probe disable row level security", "alter table probe enable row level security"],
    [
      "forced row security",
      "alter table probe force row level security",
      "alter table probe no force row level security",
    ],
    ["a policy's condition", "alter policy mine on probe using (a = 2)", "alter policy mine on probe using (a = 1)"],
    [
      "a policy's roles",
      "alter policy mine on probe to fairlead_app, fairlead_sweeper",
      "alter policy mine on probe to fairlead_app",
    ],
    ["a grant", "grant delete on probe to fairlead_app", "revoke delete on probe from fairlead_app"],
    [
      "a grant on a column",
      "grant update (b) on probe to fairlead_app",
      "revoke update (b) on probe from fairlead_app",
    ],
    ["a grant to everybody", "grant select on probe to public", "revoke select on probe from public"],
    [
      "a right on the schema",
      "grant create on schema public to fairlead_app",
      "revoke create on schema public from fairlead_app",
    ],
    ["a function's security", "alter function probed() security definer", "alter function probed() security invoker"],
    ["a function's volatility", "alter function probed() stable", "alter function probed() volatile"],
    [
      "a function's owner",
      "alter function probed() owner to fairlead_sweeper",
      "alter function probed() owner to current_user",
    ],
    ["a function's settings", "alter function probed() set search_path = public", "alter function probed() reset all"],
    [
      "who may call a function",
      "revoke execute on function probed() from public",
      "grant execute on function probed() to public",
    ],
    [
      "a function's body",
      "create or replace function probed() returns trigger language plpgsql as $$ begin return null; end $$",
      "create or replace function probed() returns trigger language plpgsql as $$ begin return new; end $$",
    ],
    [
      "a trigger that is off",
      "alter table probe disable trigger probe_touch",
      "alter table probe enable trigger probe_touch",
    ],
    [
      "a partition",
      "alter table parts detach partition parts_rest",
      "alter table parts attach partition parts_rest default",
    ],
    ["a table's owner", "alter table probe owner to fairlead_sweeper", "alter table probe owner to current_user"],
    ["a sequence", "alter sequence ticks increment 2", "alter sequence ticks increment 1"],
    [
      "a view",
      "create or replace view seen as select a from probe where a > 1",
      "create or replace view seen as select a from probe",
    ],
    ["an enum", "alter type colour rename value 'red' to 'green'", "alter type colour rename value 'green' to 'red'"],
  ] as const;

  test.each(changes)("%s", async (_what, change, undo) => {
    await withAdmin(database.adminUrl, (admin) => admin.query(change));
    expect(await dumpCatalog(database.adminUrl)).not.toBe(before);
    await withAdmin(database.adminUrl, (admin) => admin.query(undo));
    expect(await dumpCatalog(database.adminUrl)).toBe(before);
  });
});
