import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTenant } from "../../src/catalog/edit-tenants.js";
import type { TenantId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { auditKeyFrom, readPublicKeys } from "../../src/governance/audit/signing-key.js";
import { verifyAudit } from "../../src/governance/audit/verify-audit.js";
import { revokeCredential, rotateCredential } from "../../src/governance/change-credentials.js";
import { createApiKey } from "../../src/governance/edit-api-keys.js";
import { type AuditRecord, recordAuditIn } from "../../src/governance/record-audit.js";
import { systemClock } from "../../src/platform/clock.js";
import { uuidv7 } from "../../src/platform/random.js";
import { appendAuditRows } from "../../src/store/audit.js";
import { openStores, type Stores } from "../../src/store/client.js";
import { migrate, migrationsDirectory } from "../../src/store/migrate.js";
import { withTenantTx } from "../../src/store/tx.js";
import { migrationsFolder } from "../support/migrations-folder.js";
import { emptyDatabase, type TestDatabase, testDatabase } from "../support/postgres.js";
import { loginUrls, withAdmin } from "../support/template-database.js";
import { testRootKey } from "../support/world.js";

const keys = readPublicKeys(auditKeyFrom(testRootKey).publicKey);
const silent = pino({ level: "silent" });
let database: TestDatabase;
let stores: Stores;
let tenants = 0;
beforeAll(async () => {
  database = await testDatabase();
  stores = openStores(database.appUrl, database.sweeperUrl, silent);
});
afterAll(async () => {
  await stores.close();
  await database.drop();
});

const newTenant = async (): Promise<TenantId> => (await createTenant(stores, { slug: `t-${++tenants}`, name: "T" })).id;
const asAdmin = <Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> =>
  withAdmin(database.adminUrl, async (admin) => (await admin.query<Row>(sql, values)).rows);
const record = (more: Partial<AuditRecord> = {}): AuditRecord => ({
  ...{ action: "test.act", targetKind: "thing", targetId: "1", detail: {} },
  ...more,
});
const verdictOf = async (tenant: TenantId, on = stores) => {
  const { verdict, firstBadSeq, checkedTo } = await verifyAudit(on, systemScope(tenant), keys, { after: 0 });
  return { verdict, firstBadSeq, records: checkedTo.seq };
};
const whole = (records: number) => ({ verdict: "ok", firstBadSeq: null, records });

test("the database hashes the same text as whoever reads the record, whatever is in it", async () => {
  const tenant = await newTenant();
  // A text column holds no U+0000; the details do.
  const text = fc.string({ unit: "binary" }).map((one) => one.replaceAll("\0", "\u0001"));
  const records = fc.sample(
    fc.record({
      action: text,
      targetKind: text,
      targetId: text,
      outcome: fc.constantFrom("success" as const, "denied" as const, "failed" as const),
      detail: fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue({ stringUnit: "binary" })),
    }),
    400,
  );
  await withTenantTx(stores, systemScope(tenant), async (tx) => {
    for (const one of records) await recordAuditIn(tx, one);
  });
  expect(await verdictOf(tenant)).toEqual(whole(401));
});

test("16 writers over 8 tenants leave gapless chains, and none waits in a circle", async () => {
  const all = await Promise.all(Array.from({ length: 8 }, newTenant));
  const rounds = 30;
  const wrote = new Map<string, number>(all.map((tenant) => [tenant, 1]));
  const one = async (writer: number): Promise<void> => {
    const client = new pg.Client({ connectionString: database.appUrl });
    await client.connect();
    try {
      for (let round = 0; round < rounds; round++) {
        // Each batch names its tenants in an order of its own.
        const chosen = Array.from(
          { length: 6 },
          (_, at) => all[(writer * 3 + round * 5 + at * (1 + (writer % 7))) % 8] as TenantId,
        );
        await client.query(`begin; select set_config('app.tenants', '{${[...new Set(chosen)].join(",")}}', true)`);
        await appendAuditRows(
          (sql, values) => client.query(sql, values as unknown[]),
          chosen.map((tenant) => ({
            ...record(),
            id: uuidv7(),
            scope: systemScope(tenant),
            outcome: "success",
            detail: "{}",
          })),
        );
        await client.query("commit");
        for (const tenant of chosen) wrote.set(tenant, (wrote.get(tenant) ?? 0) + 1);
      }
    } finally {
      await client.end();
    }
  };
  await Promise.all(Array.from({ length: 16 }, (_, writer) => one(writer)));
  for (const tenant of all) expect(await verdictOf(tenant)).toEqual(whole(wrote.get(tenant) as number));
  expect(await asAdmin("select deadlocks::int from pg_stat_database where datname = current_database()")).toEqual([
    { deadlocks: 0 },
  ]);
}, 60_000);

describe("nothing that connects can write around the function", () => {
  const attempts = [
    ["change a record", "update audit_event set action = 'x'"],
    ["delete a record", "delete from audit_event"],
    [
      "choose a record's number",
      `insert into audit_event (tenant_id, id, seq, actor_kind, action, target_kind, target_id, prev_hash, hash)
      values ('TENANT', gen_random_uuid(), 99, 'a', 'a', 'a', 'a', '', '')`,
    ],
    [
      "choose a record's time",
      "insert into audit_event (tenant_id, id, at, actor_kind, action, target_kind, target_id) values ('TENANT', gen_random_uuid(), now(), 'a', 'a', 'a', 'a')",
    ],
    ["move the head", "update audit_head set seq = 0"],
    ["make a head", "insert into audit_head (tenant_id) values (gen_random_uuid())"],
    [
      "write a checkpoint",
      "insert into audit_checkpoint (tenant_id, seq, hash, at, key_id, signature) values ('TENANT', 1, '', now(), '', '')",
    ],
    ["take a checkpoint away", "delete from audit_checkpoint"],
    ["join the writers", "set role fairlead_audit"],
    ["lock the writers out", "select 1 from audit_head for update"],
  ] as const;
  test.each(attempts)("%s", async (_what, sql) => {
    const tenant = await newTenant();
    for (const url of [database.appUrl, database.sweeperUrl]) {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      try {
        await client.query("begin");
        await client.query("select set_config('app.tenants', $1, true)", [`{${tenant}}`]);
        await expect(client.query(sql.replace("TENANT", tenant))).rejects.toMatchObject({ code: "42501" });
      } finally {
        await client.end();
      }
    }
  });

  test("and for no tenant that the transaction has not set", async () => {
    const [mine, theirs] = [await newTenant(), await newTenant()];
    const rows = [mine, theirs].map((tenant) => ({
      ...record(),
      ...{ id: uuidv7(), scope: systemScope(tenant), outcome: "success" as const, detail: "{}" },
    }));
    await expect(
      withTenantTx(stores, systemScope(mine), (tx) => appendAuditRows((sql, values) => tx.query(sql, values), rows)),
    ).rejects.toMatchObject({ code: "42501" });
    expect([await verdictOf(mine), await verdictOf(theirs)]).toEqual([whole(1), whole(1)]);
  });
});

test("what the version before inserts itself joins the chain in canonical form", async () => {
  const tenant = await newTenant();
  await withTenantTx(stores, systemScope(tenant), async (tx) => {
    await tx.query(
      `insert into audit_event (tenant_id, id, actor_kind, actor_id, action, target_kind, target_id, detail)
       values ($1, $2, 'system', null, 'old', 'k', 'i', $3)`,
      [tenant, uuidv7(), '{ "b": [1, {"z": "\\u00e9", "a": null}],\n "a": "x" }'],
    );
    await recordAuditIn(tx, record());
  });
  expect(await verdictOf(tenant)).toEqual(whole(3));
  const rows = await asAdmin("select detail::text from audit_event where tenant_id = $1 and action = 'old'", [tenant]);
  expect(rows).toEqual([{ detail: '{"a":"x","b":[1,{"a":null,"z":"é"}]}' }]);
});

test("records of before the chain are chained by the migration, in the order in which they were made, under an owner who is no superuser", async () => {
  const empty = await emptyDatabase();
  const read = (name: string): string => readFileSync(join(migrationsDirectory(), name, "migration.sql"), "utf8");
  const before = ["0001_foundation", "0002_run_path", "0003_credentials"];
  const folder = migrationsFolder(Object.fromEntries(before.map((name) => [name, read(name)])));
  const owner = `chain_owner_${process.pid}`;
  const ownerUrl = new URL(empty.adminUrl);
  ownerUrl.username = owner;
  ownerUrl.password = "owner";
  const request = { ...loginUrls(empty.adminUrl), adminUrl: ownerUrl.toString(), directory: folder.directory };
  try {
    await withAdmin(empty.adminUrl, (admin) =>
      admin.query(`create role ${owner} login createrole password 'owner';
        grant fairlead_app, fairlead_sweeper, fairlead_queue, fairlead_audit to ${owner} with admin option; alter database ${empty.name} owner to ${owner}`),
    );
    await migrate(request);
    const [tenant, other] = [uuidv7(), uuidv7()] as [TenantId, TenantId];
    await withAdmin(empty.adminUrl, async (admin) => {
      await admin.query("insert into tenant (id, slug, name) values ($1, 'a', 'A'), ($2, 'b', 'B')", [tenant, other]);
      await admin.query(
        `insert into audit_event (tenant_id, id, at, actor_kind, action, target_kind, target_id, detail)
         select $1, gen_random_uuid(), '2026-01-01'::timestamptz + (200 - n) * interval '1 second', 'system', 'act-' || n, 'k', 'i', '{"b": 1, "a": "ü"}'
         from generate_series(1, 200) n`,
        [tenant],
      );
    });
    folder.write("0005_audit_chain", read("0005_audit_chain"));
    await migrate(request);
    const there = openStores(loginUrls(empty.adminUrl).appUrl, loginUrls(empty.adminUrl).sweeperUrl, silent);
    try {
      expect([await verdictOf(tenant, there), await verdictOf(other, there)]).toEqual([whole(200), whole(0)]);
      await withTenantTx(there, systemScope(other), (tx) => recordAuditIn(tx, record()));
      await withTenantTx(there, systemScope(tenant), (tx) => recordAuditIn(tx, record()));
      expect([await verdictOf(tenant, there), await verdictOf(other, there)]).toEqual([whole(201), whole(1)]);
    } finally {
      await there.close();
    }
    const [first] = await withAdmin(
      empty.adminUrl,
      async (admin) =>
        (await admin.query("select action, detail::text from audit_event where seq = 1 and tenant_id = $1", [tenant]))
          .rows,
    );
    expect(first).toEqual({ action: "act-200", detail: '{"a":"ü","b":1}' });
  } finally {
    await empty.drop();
    await withAdmin(database.adminUrl, (admin) =>
      admin.query(`drop owned by ${owner} cascade; drop role if exists ${owner}`),
    );
    rmSync(folder.directory, { recursive: true });
  }
});

describe("a server process that dies between any two statements leaves no act without its record and no record without its act", () => {
  /** Stores whose connection is ended by the server right before its nth statement. */
  async function cutBefore(nth: number): Promise<{ stores: Stores; statements: () => number }> {
    const doomed = openStores(database.appUrl, database.sweeperUrl, silent);
    let count = 0;
    doomed.app.on("connect", (client) => {
      const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>;
      client.on("error", () => {});
      const cutting = async (...given: unknown[]): Promise<unknown> => {
        count++;
        if (count === nth)
          await asAdmin("select pg_terminate_backend($1)", [(client as unknown as { processID: number }).processID]);
        return query(...given);
      };
      client.query = cutting as typeof client.query;
    });
    return { stores: doomed, statements: () => count };
  }

  const acts: Record<string, (on: Stores, tenant: TenantId, keyId: string) => Promise<unknown>> = {
    "api_key.create": (on, tenant) =>
      createApiKey(on, testRootKey, systemScope(tenant), { name: "n", scopes: ["runs:read"], expiresAt: null }),
    "api_key.rotate": (on, tenant, id) =>
      rotateCredential(officeOf(on), systemScope(tenant), "api_key", { id, overlapMs: 0, endOverlap: true }),
    "api_key.revoke": (on, tenant, id) => revokeCredential(officeOf(on), systemScope(tenant), "api_key", id),
    "tenant.create": (on, tenant) => createTenant(on, { slug: `cut-${tenant}`, name: "T" }),
  };
  const officeOf = (on: Stores) => ({ stores: on, rootKey: testRootKey, clock: systemClock, changed: () => {} });

  /** What was done, and what was recorded of it, by anybody. */
  const tally = async (): Promise<unknown> =>
    (
      await asAdmin(`select 'api_key.create' as act, (select count(*) from api_key)::int as done, (select count(*) from audit_event where action = 'api_key.create')::int as recorded
        union all select 'api_key.rotate', (select count(*) from api_key where rotated_at is not null)::int, (select count(*) from audit_event where action = 'api_key.rotate')::int
        union all select 'api_key.revoke', (select count(*) from api_key where revoked_at is not null)::int, (select count(*) from audit_event where action = 'api_key.revoke')::int
        union all select 'tenant.create', (select count(*) - 1 from tenant)::int, (select count(*) from audit_event where action = 'tenant.create')::int`)
    ).map(({ act, done, recorded }) => ({ act, done, missing: (done as number) - (recorded as number) }));

  test.each(Object.entries(acts))(
    "%s",
    async (name, act) => {
      const tenant = await newTenant();
      let died = 0;
      for (let nth = 1; nth < 20; nth++) {
        const key = await createApiKey(stores, testRootKey, systemScope(tenant), {
          name: "n",
          scopes: ["runs:read"],
          expiresAt: null,
        });
        const before = (await tally()) as { act: string; done: number }[];
        const cut = await cutBefore(nth);
        const outcome = await act(cut.stores, tenant, key.id).then(
          () => "done",
          () => "died",
        );
        await cut.stores.close();
        const after = (await tally()) as { act: string; done: number; missing: number }[];
        expect(
          after.every(({ missing }) => missing === 0),
          JSON.stringify(after),
        ).toBe(true);
        const doneOf = (rows: { act: string; done: number }[]) => rows.find((row) => row.act === name)?.done as number;
        expect(doneOf(after) - doneOf(before)).toBe(outcome === "done" ? 1 : 0);
        expect((await verdictOf(tenant)).verdict).toBe("ok");
        if (outcome === "done" && cut.statements() < nth) break;
        died++;
      }
      // begin, at least one statement of the act, the record, the commit.
      expect(died).toBeGreaterThanOrEqual(4);
    },
    60_000,
  );
});
