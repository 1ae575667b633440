import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { auditCommand } from "../../../src/cli/audit.js";
import { apiScopes, systemScope } from "../../../src/domain/scope.js";
import { recordAuditIn } from "../../../src/governance/record-audit.js";
import { systemClock } from "../../../src/platform/clock.js";
import { withTenantTx } from "../../../src/store/tx.js";
import { askGraphql } from "../../support/graphql.js";
import { withAdmin } from "../../support/template-database.js";
import { until } from "../../support/until.js";
import { startWorld, testRootKey, type World } from "../../support/world.js";

// A tenant's admin searches and verifies over GraphQL; the operator exports, and an auditor verifies with nothing but the files and the public key.

let world: World;
let admin: string;
let folder: string;
beforeAll(async () => {
  world = await startWorld({ limits: { auditCheckpointMs: 300 } });
  folder = mkdtempSync(join(tmpdir(), `fairlead-test-${process.pid}-bundle-`));
  await withTenantTx(world.plane.stores, systemScope(world.home.id), async (tx) => {
    for (let n = 1; n <= 60; n++)
      await recordAuditIn(tx, {
        action: n % 3 === 0 ? "test.third" : "test.other",
        targetKind: n % 2 === 0 ? "even" : "odd",
        targetId: String(n % 5),
        outcome: n % 10 === 0 ? "denied" : "success",
        detail: { n },
      });
  });
  admin = await world.key(world.home, apiScopes);
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true });
});

interface Shown {
  readonly seq: string;
  readonly detail: { readonly n?: number };
}
async function search(filter: string, first = 100): Promise<number[]> {
  const seen: Shown[] = [];
  for (let after = ""; ; ) {
    const answer = await askGraphql(
      world.url,
      admin,
      `{ auditEvents(first: ${first}${after}, filter: {${filter}}) { nodes { seq detail } pageInfo { hasNextPage endCursor } } }`,
    );
    expect(answer.errors).toEqual([]);
    seen.push(...(answer.data.auditEvents.nodes as Shown[]));
    if (!answer.data.auditEvents.pageInfo.hasNextPage) break;
    after = `, after: "${answer.data.auditEvents.pageInfo.endCursor}"`;
  }
  const numbers = seen.map(({ seq }) => Number(seq));
  expect(numbers).toEqual([...numbers].sort((a, b) => b - a));
  return seen.flatMap(({ detail }) => detail.n ?? []);
}
const expected = (fits: (n: number) => boolean) => Array.from({ length: 60 }, (_, at) => 60 - at).filter(fits);

describe("a search finds what its filters say, newest first, on pages of any size", () => {
  test.each([
    ['actions: ["test.third"]', (n: number) => n % 3 === 0],
    ['actions: ["test.third", "test.other"]', () => true],
    ['targetKind: "even", targetId: "3"', (n: number) => n % 2 === 0 && n % 5 === 3],
    ["outcome: DENIED", (n: number) => n % 10 === 0],
    ['actorKind: "system", actions: ["test.other"], outcome: SUCCESS', (n: number) => n % 3 !== 0 && n % 10 !== 0],
    ['actorKind: "api_key"', () => false],
    ['before: "2026-01-01T00:00:00Z"', () => false],
    ['actorId: "nobody"', () => false],
  ])("%s", async (filter, fits) => {
    for (const first of [7, 100]) expect(await search(filter, first)).toEqual(expected(fits));
  });

  test("from a time on, and before it, there is everything together and nothing twice", async () => {
    const shift = (hours: number) =>
      withAdmin(world.database.adminUrl, (client) =>
        client.query("update audit_event set at = at + $2 * interval '1 hour' where tenant_id = $1 and seq <= 31", [
          world.home.id,
          hours,
        ]),
      );
    await shift(-1);
    const cut = new Date(systemClock.now() - 1_800_000).toISOString();
    const [later, sooner] = [await search(`from: "${cut}"`), await search(`before: "${cut}"`)];
    await shift(1);
    expect([later.length, sooner.length]).toEqual([31, 29]);
    expect([...later, ...sooner]).toEqual(expected(() => true));
  });
});

const verification = async (after = "0") =>
  (
    await askGraphql(
      world.url,
      admin,
      `{ auditVerification(after: "${after}") { verdict firstBadSeq checkedTo signedTo complete message } }`,
    )
  ).data.auditVerification;

test("a worker signs the chain, and the verification over GraphQL says up to where, and what is wrong first", async () => {
  await until("the chain is signed", async () => Number((await verification()).signedTo) >= 61, 20_000);
  expect(await verification()).toMatchObject({ verdict: "OK", firstBadSeq: null, complete: true });
  expect(await verification("30")).toMatchObject({ verdict: "OK", complete: true });
  const change = (detail: string) =>
    withAdmin(world.database.adminUrl, (client) =>
      client.query("update audit_event set detail = $2 where tenant_id = $1 and seq = 40", [world.home.id, detail]),
    );
  const [{ detail }] = (
    await withAdmin(world.database.adminUrl, (client) =>
      client.query("select detail::text from audit_event where tenant_id = $1 and seq = 40", [world.home.id]),
    )
  ).rows as [{ detail: string }];
  await change('{"n":41}');
  expect(await verification()).toMatchObject({ verdict: "MODIFIED", firstBadSeq: "40", checkedTo: "39" });
  await change(detail);
  expect(await verification()).toMatchObject({ verdict: "OK" });
  const wrong = await askGraphql(world.url, admin, '{ auditVerification(after: "-1") { verdict } }');
  expect(wrong.errors[0]?.extensions).toMatchObject({ code: "INVALID_INPUT", field: "after" });
});

interface Ended {
  readonly code: number;
  readonly out: string;
}
function fairlead(args: readonly string[], env: Record<string, string>): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ["--import", "tsx", "src/main.ts", "audit", ...args],
      { env: { PATH: process.env["PATH"] ?? "", ...env } },
      (error, out, complaint) => resolve({ code: error ? Number(error.code) : 0, out: out + complaint }),
    );
  });
}

test("an export verifies on a machine that has nothing but the files and the key, and no longer when a byte is changed", async () => {
  const env = {
    DATABASE_URL: world.database.appUrl,
    SWEEPER_DATABASE_URL: world.database.sweeperUrl,
    FAIRLEAD_ROOT_KEY: testRootKey,
  };
  const bundle = join(folder, "bundle");
  const made = await fairlead(["export", "--tenant", "tenant-1", "--out", bundle], env);
  expect(made, made.out).toMatchObject({ code: 0 });
  const key = await fairlead(["key"], env);
  const shown = await askGraphql(world.url, admin, "{ auditKey { keyId publicKey } }");
  expect(shown.data.auditKey.publicKey).toBe(key.out);
  const keyFile = join(folder, "key.pem");
  writeFileSync(keyFile, key.out);

  const offline = ["verify", "--bundle", bundle, "--public-key", keyFile];
  const whole = await fairlead(offline, {});
  expect(whole.out).toMatch(/^ok: [\s\S]*Unbroken up to (\d+), signed up to \1\./);
  expect(whole.code).toBe(0);
  const online = await fairlead(["verify", "--tenant", "tenant-1", "--json"], env);
  expect(JSON.parse(online.out)).toMatchObject({ verdict: "ok", firstBadSeq: null });
  const again = await fairlead(["export", "--tenant", "tenant-1", "--out", bundle], env);
  expect(again).toMatchObject({ code: 1 });
  expect(again.out).toContain("holds a bundle already");

  const records = join(bundle, "records.jsonl");
  writeFileSync(records, readFileSync(records, "utf8").replace('"n":17', '"n":71'));
  const broken = await fairlead(offline, {});
  expect(broken).toMatchObject({ code: 1 });
  expect(broken.out).toMatch(/^modified at 19: Record 19 is not what was written\./);
}, 120_000);

test.each([
  [["verify"], "Name what to verify"],
  [["verify", "--bundle", "nowhere"], "--public-key is missing"],
  [["verify", "--bundle", "nowhere", "--public-key", "nowhere.pem"], "nowhere.pem cannot be read"],
  [["verify", "--bundle", "nowhere", "--public-key", "package.json"], "Ed25519"],
  [["export", "--tenant", "a", "--out", "b", "--from", "x"], "the number of a record"],
  [["export", "--tenant", "a"], "--out is missing"],
  [["key", "x"], 'What is "x"?'],
])("fairlead audit %j says what is wrong with it", async (args, reason) => {
  await expect((async () => auditCommand.run(args))()).rejects.toThrow(reason);
});
