import { execFile } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compose } from "../../src/compose.js";
import { readConfig } from "../../src/platform/config.js";
import { createLog } from "../../src/platform/log.js";
import { askGraphql } from "../support/graphql.js";
import { redisAvailable, testRedis } from "../support/redis.js";
import { withAdmin } from "../support/template-database.js";
import { until } from "../support/until.js";
import { startWorld, testRootKey, type World } from "../support/world.js";

// The operator's commands, as processes, beside a plane that serves the same database.

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

interface Ended {
  readonly code: number | null;
  readonly out: string;
}

function fairlead(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const environment = {
    PATH: process.env["PATH"],
    DATABASE_URL: world.database.appUrl,
    SWEEPER_DATABASE_URL: world.database.sweeperUrl,
    FAIRLEAD_ROOT_KEY: testRootKey,
    ...env,
  };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ["--import", "tsx", "src/main.ts", ...args],
      { env: environment },
      (error, out, complaint) => {
        resolve({ code: error ? Number(error.code) : 0, out: out + complaint });
      },
    );
  });
}

const works = async (key: string): Promise<number> =>
  (await askGraphql(world.url, key, "{ viewer { scopes } }")).status;

test("a tenant and a key made by the operator work on the running plane, and stop working when revoked", async () => {
  expect(await fairlead(["tenants", "create", "acme", "--name", "Acme"])).toMatchObject({ code: 0 });
  const twice = await fairlead(["tenants", "create", "acme"]);
  expect(twice.code).toBe(1);
  expect(twice.out).toContain('a tenant with the slug "acme" already');
  const tenants = JSON.parse((await fairlead(["tenants", "list", "--json"])).out) as { slug: string }[];
  expect(tenants.map(({ slug }) => slug)).toContain("acme");
  const records = await withAdmin(world.database.adminUrl, (admin) =>
    admin.query(
      "select a.actor_kind, a.action, a.detail from audit_event a join tenant t on t.id = a.tenant_id where t.slug = 'acme'",
    ),
  );
  expect(records.rows).toEqual([
    { actor_kind: "operator", action: "tenant.create", detail: { slug: "acme", name: "Acme" } },
  ]);

  const made = await fairlead(["keys", "create", "--tenant", "acme", "--name", "ci", "--scopes", "all", "--json"]);
  expect(made.code).toBe(0);
  const { id, secret } = JSON.parse(made.out) as { id: string; secret: string };
  expect(await works(secret)).toBe(200);
  const rotated = await fairlead(["keys", "rotate", id, "--tenant", "acme", "--overlap", "1h", "--json"]);
  const second = (JSON.parse(rotated.out) as { secret: string }).secret;
  const list = await fairlead(["keys", "list", "--tenant", "acme", "--json"]);
  expect(JSON.parse(list.out)).toMatchObject([{ id, name: "ci", status: "active" }]);
  expect(list.out).not.toContain(second.slice(20, 40));
  const revoked = await fairlead(["keys", "revoke", id, "--tenant", "acme"]);
  expect(revoked).toMatchObject({ code: 0 });
  await expect.poll(() => works(secret), { timeout: 5_000 }).toBe(401);
  expect(await works(second)).toBe(401);
  expect((await fairlead(["keys", "rotate", id, "--tenant", "acme"])).out).toContain(
    "is revoked and cannot be rotated",
  );
}, 240_000);

test("a running plane forgets a key at once when the operator revokes it, not when it looks again", async () => {
  const key = JSON.parse(
    (await fairlead(["keys", "create", "--tenant", "tenant-1", "--name", "gone", "--scopes", "all", "--json"])).out,
  ) as { id: string; secret: string };
  let forgotten = 0;
  const stop = world.running.authenticator.onForget(() => forgotten++);
  expect((await fairlead(["keys", "revoke", key.id, "--tenant", "tenant-1"])).code).toBe(0);
  await until("the plane is told", () => forgotten > 0, 2_000);
  expect(await works(key.secret)).toBe(401);
  stop();
}, 120_000);

describe.skipIf(!redisAvailable())("with Redis (skipped without a redis-server on the PATH)", () => {
  test("every replica forgets a runner token at once when the operator revokes it", async () => {
    const redis = await testRedis();
    const config = readConfig(
      {},
      {
        databaseUrl: world.database.appUrl,
        sweeperDatabaseUrl: world.database.sweeperUrl,
        redisUrl: redis.url,
        rootKey: testRootKey,
        roles: ["api"],
        port: 0,
        logLevel: "silent",
        limits: {},
      },
    );
    const planes = await Promise.all([1, 2].map(() => compose(config, createLog("silent"))));
    try {
      const env = { REDIS_URL: redis.url };
      const made = await fairlead(
        ["runner-tokens", "create", "--tenant", "tenant-1", "--name", "gone", "--kind", "python", "--json"],
        env,
      );
      const { id, secret } = JSON.parse(made.out) as { id: string; secret: string };
      const forgotten = new Set<number>();
      for (const [at, { authenticator }] of planes.entries()) authenticator.onForget(() => forgotten.add(at));
      expect((await fairlead(["runner-tokens", "revoke", id, "--tenant", "tenant-1"], env)).code).toBe(0);
      await until("both are told", () => forgotten.size === 2, 2_000);
      for (const { authenticator } of planes) await expect(authenticator.runner(secret)).rejects.toThrow("revoked");
    } finally {
      await Promise.all(planes.map((plane) => plane.stop()));
      await redis.stop();
    }
  }, 120_000);
});

test("the operator makes a tenant's first Owner, changes a role and removes a member", async () => {
  const on = ["--tenant", "members-by-hand"];
  expect(await fairlead(["tenants", "create", "members-by-hand"])).toMatchObject({ code: 0 });
  const invite = ["members", "invite", ...on, "--email", "ada@example.com", "--role", "owner", "--json"];
  const { id } = JSON.parse((await fairlead(invite)).out) as { id: string };
  expect(await fairlead(invite)).toMatchObject({ code: 1, out: expect.stringContaining("member already") });
  const list = async (...more: string[]): Promise<object[]> =>
    JSON.parse((await fairlead(["members", "list", ...on, "--json", ...more])).out) as object[];
  expect(await list()).toMatchObject([{ id, email: "ada@example.com", role: "owner", status: "invited" }]);

  const role = await fairlead(["members", "role", id.toUpperCase(), ...on, "--role", "security-admin"]);
  expect(role).toMatchObject({ code: 0, out: expect.stringContaining("is security_admin now") });
  const unknown = await fairlead(["members", "role", world.home.id, ...on, "--role", "viewer"]);
  expect(unknown).toMatchObject({ code: 1, out: expect.stringContaining("there is no such member") });
  expect(await list()).toMatchObject([{ id, role: "security_admin", version: 2 }]);

  expect(await fairlead(["members", "remove", id, ...on])).toMatchObject({ code: 0 });
  expect(await list()).toEqual([]);
  expect(await list("--all")).toMatchObject([{ id, status: "removed" }]);
}, 60_000);

test("a runner token made by the operator is bound to its kind", async () => {
  await fairlead(["tenants", "create", "pool"]);
  const made = await fairlead([
    "runner-tokens",
    "create",
    "--tenant",
    "pool",
    "--name",
    "t",
    "--kind",
    "python",
    "--json",
  ]);
  const { secret } = JSON.parse(made.out) as { secret: string };
  expect(await world.running.authenticator.runner(secret)).toMatchObject({ kind: "python" });
}, 120_000);

describe("what is called wrongly", () => {
  test.each([
    [["keys"], 2, "create, list, rotate, revoke"],
    [["keys", "make"], 2, 'There is no "make"'],
    [["keys", "create", "--tenant", "tenant-1", "--scopes", "all"], 2, "--name is missing"],
    [["keys", "create", "--tenant", "tenant-1", "--name", "n", "--scopes", "runs:fly"], 2, 'there is no "runs:fly"'],
    [["keys", "create", "--tenant", "nobody", "--name", "n", "--scopes", "all"], 1, 'There is no tenant "nobody"'],
    [["keys", "rotate", "x", "--tenant", "tenant-1", "--overlap", "9d"], 1, "7 days"],
    [["keys", "list", "--tenant", "tenant-1", "--wrong"], 2, "--wrong"],
    [["nonsense"], 2, 'no command "nonsense"'],
  ])(
    "fairlead %j ends with %i and says why",
    async (args, code, reason) => {
      const ended = await fairlead(args);
      expect(ended).toMatchObject({ code });
      expect(ended.out).toContain(reason);
    },
    60_000,
  );

  test("every command answers --help with an example, without reading its environment", async () => {
    for (const name of ["serve", "migrate", "doctor", "tenants", "keys", "runner-tokens"]) {
      const ended = await fairlead([name, "--help"], { DATABASE_URL: "nonsense" });
      expect(ended.code).toBe(0);
      expect(ended.out).toContain(`fairlead ${name}`);
    }
  }, 120_000);
});

describe("the doctor", () => {
  test("finds nothing wrong with the environment of a running plane", async () => {
    const { code, out } = await fairlead(["doctor", "--json"]);
    const findings = JSON.parse(out) as { check: string; ok: boolean }[];
    expect(findings.filter(({ ok }) => !ok)).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual(
      expect.arrayContaining([
        "configuration",
        "database as the app",
        "database as the sweeper",
        "migrations",
        "redis",
      ]),
    );
    expect(code).toBe(0);
  }, 60_000);

  test.each([
    ["a superuser", () => ({ DATABASE_URL: world.database.adminUrl }), "is a superuser"],
    ["a database that is away", () => ({ DATABASE_URL: "postgres://a:b@127.0.0.1:1/x" }), "ECONNREFUSED"],
    ["a Redis that is away", () => ({ REDIS_URL: "redis://127.0.0.1:1" }), "redis: cannot be used"],
    ["a missing key", () => ({ FAIRLEAD_ROOT_KEY: "short" }), "rootKey"],
  ])(
    "reports %s and ends with 1",
    async (_what, env, said) => {
      const { code, out } = await fairlead(["doctor"], env());
      expect(code).toBe(1);
      expect(out).toMatch(/^FAIL/m);
      expect(out).toContain(said);
    },
    60_000,
  );
});
