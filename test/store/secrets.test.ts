import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTenant } from "../../src/catalog/edit-tenants.js";
import type { DataKeyId, SecretId, TenantId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { rewrapDataKeys, rotateDataKey } from "../../src/governance/secrets/data-keys.js";
import {
  createSecret,
  deleteSecret,
  moveSecretVersion,
  putSecretVersion,
} from "../../src/governance/secrets/edit-secrets.js";
import {
  createKeyring,
  type DataKey,
  newDataKey,
  openValue,
  sealValue,
} from "../../src/governance/secrets/envelope.js";
import { readConfig } from "../../src/platform/config.js";
import { openStores, type Stores } from "../../src/store/client.js";
import { countByRootKey } from "../../src/store/secrets.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { withAdmin } from "../support/template-database.js";

const [oldRoot, newRoot, otherRoot] = ["o", "n", "x"].map((letter) => letter.repeat(40)) as [string, string, string];
const keyring = createKeyring([oldRoot]);
const canary = 'canary-7Qx/ä\n"quoted"-value';

let database: TestDatabase;
let stores: Stores;
let tenants = 0;
beforeAll(async () => {
  database = await testDatabase();
  stores = openStores(database.appUrl, database.sweeperUrl, pino({ level: "silent" }));
});
afterAll(async () => {
  await stores.close();
  await database.drop();
});

const newTenant = async (): Promise<TenantId> => (await createTenant(stores, { slug: `s-${++tenants}`, name: "T" })).id;
const office = (keys = keyring) => ({ stores, keyring: keys });
const asAdmin = <Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> =>
  withAdmin(database.adminUrl, async (admin) => (await admin.query<Row>(sql, values)).rows);
const create = (tenant: TenantId, name: string, value = canary, keys = keyring) =>
  createSecret(office(keys), systemScope(tenant), { name, value }, null);
const versions = (tenant: TenantId, secret: SecretId) =>
  asAdmin<{ number: number; state: string; gone: boolean }>(
    "select number, state, sealed is null as gone from secret_version where tenant_id = $1 and secret_id = $2 order by number",
    [tenant, secret],
  );

interface StoredVersion {
  readonly sealed: Buffer;
  readonly wrapped: Buffer;
  readonly keyId: DataKeyId;
}
const stored = async (tenant: TenantId, secret: SecretId, number = 1): Promise<StoredVersion> =>
  (
    await asAdmin<StoredVersion & pg.QueryResultRow>(
      `select v.sealed, k.wrapped, k.id as "keyId" from secret_version v join data_key k on k.tenant_id = v.tenant_id and k.id = v.data_key_id
       where v.tenant_id = $1 and v.secret_id = $2 and v.number = $3`,
      [tenant, secret, number],
    )
  )[0] as StoredVersion;
/** What is stored, opened as if it stood in this place. */
const openAt = (row: StoredVersion, tenantId: TenantId, secretId: SecretId, number = 1, keys = keyring): string =>
  openValue(keys.unwrap(tenantId, row.keyId, row.wrapped), { tenantId, secretId, number }, row.sealed).toString();

const refused = "What is stored of a secret was changed, or is not in its place.";

describe("a sealed value", () => {
  const tenantId = "01900000-0000-7000-8000-000000000001" as TenantId;
  const secretId = "01900000-0000-7000-8000-000000000002" as SecretId;
  const place = { tenantId, secretId, number: 1 };
  const key: DataKey = newDataKey(tenantId, "01900000-0000-7000-8000-000000000003" as DataKeyId);
  const sealed = sealValue(key, place, Buffer.from(canary));

  test("opens in its own place and with its own key, and never looks the same twice", () => {
    expect(openValue(key, place, sealed).toString()).toBe(canary);
    expect(sealValue(key, place, Buffer.from(canary)).equals(sealed)).toBe(false);
  });

  test.each([
    ["another tenant", { ...place, tenantId: secretId as unknown as TenantId }],
    ["another secret", { ...place, secretId: tenantId as unknown as SecretId }],
    ["another version", { ...place, number: 2 }],
  ])("is refused in %s", (_what, elsewhere) => {
    expect(() => openValue(key, elsewhere, sealed)).toThrow(refused);
  });

  test("is refused whichever of its bytes is another, and cut to any length: a tag of 4 bytes too", () => {
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed.writeUInt8(sealed.readUInt8(at) ^ 1, at);
      expect(() => openValue(key, place, changed)).toThrow(refused);
      expect(() => openValue(key, place, sealed.subarray(0, at))).toThrow(refused);
    }
    expect(() => openValue(key, place, sealed.subarray(0, -12))).toThrow(refused);
  });

  test("an empty value keeps the whole tag as well", () => {
    const empty = sealValue(key, place, Buffer.alloc(0));
    expect(openValue(key, place, empty).length).toBe(0);
    expect(() => openValue(key, place, empty.subarray(0, -12))).toThrow(refused);
  });

  test("a wrapped key opens for its tenant and id alone, and with every byte as it was", () => {
    const wrapped = keyring.wrap(key);
    expect(keyring.unwrap(tenantId, key.id, wrapped).key.equals(key.key)).toBe(true);
    expect(() => keyring.unwrap(secretId as unknown as TenantId, key.id, wrapped)).toThrow(refused);
    expect(() => keyring.unwrap(tenantId, secretId as unknown as DataKeyId, wrapped)).toThrow(refused);
    expect(() => keyring.unwrap(tenantId, key.id, wrapped.subarray(0, -12))).toThrow(refused);
    expect(() => createKeyring([otherRoot]).unwrap(tenantId, key.id, wrapped)).toThrow("FAIRLEAD_SECRETS_KEYS");
  });
});

test("one function opens a value, and its callers are known", () => {
  const root = join(import.meta.dirname, "../../src");
  const callers = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.startsWith("generated"))
    .filter((file) => /\bopenValue\(/.test(readFileSync(join(root, file), "utf8")))
    .sort();
  expect(callers).toEqual(["governance/secrets/data-keys.ts", "governance/secrets/envelope.ts"]);
});

test("two tenants keep their own value under one name, and a row that is moved between them does not open", async () => {
  const [one, two] = [await newTenant(), await newTenant()];
  const [a, b] = [await create(one, "API", "value-of-one"), await create(two, "API", "value-of-two")];
  const [ofOne, ofTwo] = [await stored(one, a), await stored(two, b)];
  expect([openAt(ofOne, one, a), openAt(ofTwo, two, b)]).toEqual(["value-of-one", "value-of-two"]);
  expect(() => openAt({ ...ofTwo, sealed: ofOne.sealed }, two, b)).toThrow(refused);
  expect(() => openAt(ofOne, two, b)).toThrow(refused);
  await expect(deleteSecret(office(), systemScope(two), { id: a, expectedVersion: null })).rejects.toThrow(
    "id: there is no such secret.",
  );
});

test("a value stands nowhere in the database, in no encoding; nor does a plain hash of the request that brought it", async () => {
  const tenant = await newTenant();
  const input = { name: "CANARY", value: canary };
  const once = { key: "k-1", input };
  const id = await createSecret(office(), systemScope(tenant), input, once);
  expect(await createSecret(office(), systemScope(tenant), input, once)).toBe(id);
  const other = { ...input, value: `${canary}!` };
  const mismatch = createSecret(office(), systemScope(tenant), other, { key: "k-1", input: other });
  await expect(mismatch).rejects.toMatchObject({ code: "IDEMPOTENCY_MISMATCH" });
  await putSecretVersion(office(), systemScope(tenant), { id, expectedVersion: null, value: canary, activate: true });

  const bytes = Buffer.from(canary);
  const plainHash = createHash("sha256")
    .update(
      JSON.stringify([
        ["name", "CANARY"],
        ["value", canary],
      ]),
    )
    .digest();
  const forms = [
    bytes,
    plainHash,
    createHash("sha256").update(canary).digest(),
    ...[0, 1, 2].map((skip) => Buffer.from(bytes.subarray(skip, skip + 18).toString("base64"))),
    Buffer.from(bytes.toString("hex")),
    Buffer.from(encodeURIComponent(canary)),
    Buffer.from(JSON.stringify(canary).slice(1, -1)),
  ].map((form) => form.toString("hex"));
  const columns = await asAdmin<{ table: string; column: string }>(
    `select c.table_name as table, c.column_name as column from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
     where table_schema = 'public' and t.table_type = 'BASE TABLE' and c.udt_name in ('text', 'bytea', 'json', 'jsonb', '_text', '_bytea')`,
  );
  expect(columns.length).toBeGreaterThan(80);
  const holders = async (wanted: readonly string[]): Promise<string[]> => {
    const found: string[] = [];
    for (const { table, column } of columns) {
      const rows = await asAdmin(
        `select 1 from "${table}" where exists (select from unnest($1::text[]) f
           where encode(convert_to("${column}"::text, 'UTF8'), 'hex') like '%' || f || '%' or "${column}"::text like '%' || f || '%') limit 1`,
        [wanted],
      );
      if (rows.length > 0) found.push(`${table}.${column}`);
    }
    return found;
  };
  expect(await holders(forms)).toEqual([]);
  // The search finds what is there: the name, as text and in the record of the act.
  expect((await holders([Buffer.from("CANARY").toString("hex")])).sort()).toEqual([
    "audit_event.detail",
    "secret.name",
  ]);
  const { keyId } = await stored(tenant, id);
  expect(await holders([keyId.replaceAll("-", "")])).toContain("secret_version.sealed");
});

test("a value that cannot be kept out of texts is refused, without being said", async () => {
  const tenant = await newTenant();
  for (const value of ["", "short", "x".repeat(65_537), "half-a-char-\ud800"]) {
    const error = (await create(tenant, "A", value).catch((thrown: unknown) => thrown)) as Error;
    expect(error).toMatchObject({ code: "INVALID_INPUT", facts: { field: "value" } });
    if (value !== "") expect(JSON.stringify([error.message, error.stack, error])).not.toContain(value);
  }
  expect(await create(tenant, "A", "sixsix")).toBeTruthy();
  await expect(create(tenant, "A")).rejects.toMatchObject({ code: "SECRET_EXISTS" });
  for (const name of ["", "1a", "a b", "a/b", "x".repeat(129)])
    await expect(create(tenant, name)).rejects.toMatchObject({ facts: { field: "name" } });
});

test("one version is active, the one of before is deprecated and can come back, a destroyed one is gone; each act is on record", async () => {
  const tenant = await newTenant();
  const scope = systemScope(tenant);
  const id = await create(tenant, "ROTATED", "value-one");
  const move = (number: number, name: "activate" | "deprecate" | "destroy", expectedVersion: number | null = null) =>
    moveSecretVersion(office(), scope, { id, expectedVersion, number, move: name });
  const staged = await putSecretVersion(office(), scope, {
    id,
    expectedVersion: 2,
    value: "value-two",
    activate: false,
  });
  expect(staged.number).toBe(2);
  await expect(move(2, "activate", 2)).rejects.toMatchObject({ code: "VERSION_CONFLICT" });
  await expect(move(2, "deprecate")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  await move(2, "activate", 3);
  expect(await versions(tenant, id)).toMatchObject([{ state: "deprecated" }, { state: "active" }]);
  await move(1, "activate");
  expect(await versions(tenant, id)).toMatchObject([{ state: "active" }, { state: "deprecated" }]);
  await move(2, "destroy");
  await expect(move(2, "activate")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  await expect(move(9, "activate")).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect((await versions(tenant, id))[1]).toEqual({ number: 2, state: "destroyed", gone: true });
  await deleteSecret(office(), scope, { id, expectedVersion: null });
  expect((await versions(tenant, id)).every(({ gone }) => gone)).toBe(true);
  expect(await create(tenant, "ROTATED")).not.toBe(id);
  const acts = await asAdmin<{ action: string }>(
    "select action from audit_event where tenant_id = $1 and target_id = $2 order by seq",
    [tenant, id],
  );
  expect(acts.map(({ action }) => action)).toEqual([
    "secret.create",
    "secret.put_version",
    ...Array.from({ length: 3 }, () => "secret.move_version"),
    "secret.delete",
  ]);
});

test("first secrets of a tenant that come at once share one data key", async () => {
  const tenant = await newTenant();
  await Promise.all(["A", "B", "C", "D"].map((name) => create(tenant, name)));
  expect(await asAdmin("select 1 from data_key where tenant_id = $1", [tenant])).toHaveLength(1);
});

describe("changing the root key", () => {
  test("a re-wrap that is stopped half-way goes on, values open all the while, and two at once do no harm", async () => {
    const both = createKeyring([newRoot, oldRoot]);
    const made = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const tenant = await newTenant();
        return { tenant, secret: await create(tenant, "S") };
      }),
    );
    const allOpen = async () => {
      for (const { tenant, secret } of made)
        expect(openAt(await stored(tenant, secret), tenant, secret, 1, both)).toBe(canary);
    };
    const mine = made.map(({ tenant }) => tenant);
    const wrappedBy = async (rootKeyId: string) =>
      (await asAdmin("select 1 from data_key where root_key_id = $1 and tenant_id = any ($2)", [rootKeyId, mine]))
        .length;
    const before = (await countByRootKey(stores)).find(({ rootKeyId }) => rootKeyId === keyring.currentId)?.keys ?? 0;
    const killed = rewrapDataKeys(office(both), (done) => {
      if (done === before - 3) throw new Error("killed");
    });
    await expect(killed).rejects.toThrow("killed");
    const [old, now] = [await wrappedBy(keyring.currentId), await wrappedBy(both.currentId)];
    expect([old, now]).toEqual([3, 2]);
    await allOpen();
    const [one, two] = await Promise.all([rewrapDataKeys(office(both)), rewrapDataKeys(office(both))]);
    expect([one.rewrapped + two.rewrapped, one.failed, two.failed]).toEqual([3, [], []]);
    await allOpen();
    expect(await countByRootKey(stores)).toEqual([{ rootKeyId: both.currentId, keys: expect.any(Number) }]);
    expect(await rewrapDataKeys(office(both))).toEqual({ rewrapped: 0, failed: [] });
  });

  test("a key that cannot be opened is named and left as it is; the others are wrapped", async () => {
    const [lost, fine] = [await newTenant(), await newTenant()];
    const unknown = createKeyring([otherRoot]);
    const secret = await create(lost, "S", canary, unknown);
    await create(fine, "S");
    const { failed } = await rewrapDataKeys(office(createKeyring([newRoot, oldRoot])));
    expect(failed).toMatchObject([{ tenantId: lost, why: expect.stringContaining(unknown.currentId) }]);
    expect(openAt(await stored(lost, secret), lost, secret, 1, unknown)).toBe(canary);
    expect(await asAdmin("select 1 from data_key where root_key_id = $1", [keyring.currentId])).toEqual([]);
  });
});

test("a new data key takes over all values; a rotation that was stopped is finished before another begins", async () => {
  const tenant = await newTenant();
  const scope = systemScope(tenant);
  const ids: SecretId[] = [];
  for (let i = 0; i < 103; i++) ids.push(await create(tenant, `S${i}`, `value-number-${i}`));
  const first = (await stored(tenant, ids[0] as SecretId)).keyId;
  const stopped = rotateDataKey(office(), scope, () => {
    throw new Error("killed");
  });
  await expect(stopped).rejects.toThrow("killed");
  const keys = () => asAdmin<{ id: string }>("select id from data_key where tenant_id = $1 order by id", [tenant]);
  expect(await keys()).toHaveLength(2);
  expect(await rotateDataKey(office(), scope)).toEqual({ resealed: 3, left: 0 });
  const [only, ...rest] = await keys();
  expect([only?.id === first, rest]).toEqual([false, []]);
  for (const [i, id] of ids.entries()) expect(openAt(await stored(tenant, id), tenant, id)).toBe(`value-number-${i}`);
  expect(await rotateDataKey(office(), scope)).toEqual({ resealed: 103, left: 0 });
});

test("the sweeper's login reads neither a wrapped key nor a secret", async () => {
  for (const sql of ["select wrapped from data_key", "select 1 from secret", "select sealed from secret_version"])
    await expect(stores.sweep.query(sql)).rejects.toMatchObject({ code: "42501" });
});

test("root keys come from the environment or a file, the current one first; short ones are refused", () => {
  const file = join(import.meta.dirname, "no-such-file");
  const base = { DATABASE_URL: "postgres://a", SWEEPER_DATABASE_URL: "postgres://b", FAIRLEAD_ROOT_KEY: oldRoot };
  expect(readConfig(base).secretsKeys).toBeUndefined();
  expect(readConfig({ ...base, FAIRLEAD_SECRETS_KEYS: `${newRoot}, ${oldRoot}` }).secretsKeys).toEqual([
    newRoot,
    oldRoot,
  ]);
  expect(() => readConfig({ ...base, FAIRLEAD_SECRETS_KEYS: "short-and-secret" })).toThrow("secretsKeys");
  expect(() => readConfig({ ...base, FAIRLEAD_SECRETS_KEYS: "short-and-secret" })).not.toThrow("short-and-secret");
  expect(() => readConfig({ ...base, FAIRLEAD_SECRETS_KEYS_FILE: file })).toThrow("FAIRLEAD_SECRETS_KEYS_FILE");
});
