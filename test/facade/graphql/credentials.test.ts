import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compose, type RunningPlane } from "../../../src/compose.js";
import { apiScopes } from "../../../src/domain/scope.js";
import { readConfig } from "../../../src/platform/config.js";
import { createLog } from "../../../src/platform/log.js";
import { askGraphql } from "../../support/graphql.js";
import { until } from "../../support/until.js";
import { startWorld, testRootKey, type World } from "../../support/world.js";

// Two planes on one database: what is changed through one must hold on both.

let world: World;
let other: RunningPlane;
let admin: string;
let urls: string[];

beforeAll(async () => {
  world = await startWorld();
  const config = readConfig(
    {},
    {
      databaseUrl: world.database.appUrl,
      sweeperDatabaseUrl: world.database.sweeperUrl,
      rootKey: testRootKey,
      roles: ["api", "bridge"],
      port: 0,
      grpcPort: 0,
      logLevel: "silent",
      limits: {},
    },
  );
  other = await compose(config, createLog("silent"));
  admin = await world.key(world.home, apiScopes);
  urls = [world.url, other.http?.url as string];
});
afterAll(async () => {
  await other.stop();
  await world.stop();
});

const ask = (query: string, key = admin, url = world.url) => askGraphql(url, key, query);
const statuses = (key: string) =>
  Promise.all(urls.map(async (url) => (await ask("{ viewer { apiKeyId } }", key, url)).status));

interface Made {
  uuid: string;
  secret: string;
}
async function make(input = "", scopes = "[RUNS_READ]"): Promise<Made> {
  const { data } = await ask(
    `mutation { apiKeyCreate(input: {name: "k", scopes: ${scopes} ${input}}) { apiKey { uuid } secret userErrors { message } } }`,
  );
  expect(data.apiKeyCreate.userErrors).toEqual([]);
  return { uuid: data.apiKeyCreate.apiKey.uuid, secret: data.apiKeyCreate.secret };
}
async function rotate(id: string, more = "") {
  const { data } = await ask(
    `mutation { apiKeyRotate(input: {id: "${id}" ${more}}) { apiKey { previousExpiresAt last4 } secret userErrors { code field } } }`,
  );
  return data.apiKeyRotate;
}

describe("an API key", () => {
  test("is listed without its secret, and works on REST and GraphQL, both ways of sending it", async () => {
    const { uuid, secret } = await make();
    const list = await ask("{ apiKeys(first: 100) { nodes { uuid last4 publicId status scopes expiresAt } } }");
    const row = list.data.apiKeys.nodes.find((node: { uuid: string }) => node.uuid === uuid);
    expect(row).toMatchObject({ last4: secret.slice(-4), status: "ACTIVE", scopes: ["RUNS_READ"] });
    expect(JSON.stringify(list.data)).not.toContain(secret.slice(20, 40));
    const days = (Date.parse(row.expiresAt) - Date.parse(new Date().toISOString())) / 86_400_000;
    expect(Math.round(days)).toBe(90);
    for (const headers of [{ "x-api-key": secret }, { authorization: `Bearer ${secret}` }])
      for (const url of urls)
        expect(
          (
            await fetch(`${url}/threads/search`, {
              method: "POST",
              headers: { ...headers, "content-type": "application/json" },
              body: "{}",
            })
          ).status,
        ).toBe(200);
  });

  test("works with both secrets after a rotation, and the old one dies at its exact deadline", async () => {
    const { uuid, secret } = await make();
    expect(await statuses(secret)).toEqual([200, 200]);
    const rotated = await rotate(uuid, "overlapSeconds: 2");
    const deadline = Date.parse(rotated.apiKey.previousExpiresAt);
    expect(await statuses(rotated.secret)).toEqual([200, 200]);
    expect(await statuses(secret)).toEqual([200, 200]);
    const ends = await until("the old secret dies", async () => {
      const [one, two] = await statuses(secret);
      return one === 401 && two === 401 ? Date.parse(new Date().toISOString()) : undefined;
    });
    // Not before its deadline, although both planes remember the row for longer than the overlap.
    expect(ends).toBeGreaterThanOrEqual(deadline);
    expect(ends - deadline).toBeLessThan(1_500);
    expect(await statuses(rotated.secret)).toEqual([200, 200]);
  });

  test("loses its old secret at once when rotated without an overlap", async () => {
    const { uuid, secret } = await make();
    expect(await statuses(secret)).toEqual([200, 200]);
    const rotated = await rotate(uuid, "overlapSeconds: 0");
    expect(rotated.apiKey.previousExpiresAt).toBeNull();
    await until("both planes know", async () => (await statuses(secret)).every((status) => status === 401), 5_000);
    expect(await statuses(rotated.secret)).toEqual([200, 200]);
  });

  test("is rotated again during an overlap only on demand, and never beyond its own expiry", async () => {
    const expiresAt = new Date(Date.parse(new Date().toISOString()) + 3_600_000).toISOString();
    const { uuid, secret } = await make(`expiresAt: "${expiresAt}"`);
    const first = await rotate(uuid);
    expect(first.apiKey.previousExpiresAt).toBe(expiresAt);
    expect((await rotate(uuid)).userErrors).toEqual([{ code: "ROTATION_OPEN", field: ["endOverlap"] }]);
    const second = await rotate(uuid, "endOverlap: true");
    expect(second.userErrors).toEqual([]);
    await until("the oldest dies", async () => (await statuses(secret)).every((status) => status === 401), 5_000);
    expect(await statuses(first.secret)).toEqual([200, 200]);
    expect((await rotate(uuid, "endOverlap: true, overlapSeconds: 604801")).userErrors[0].code).toBe("INVALID_INPUT");
  });

  test("is refused on every plane within five seconds of its revocation, admins included, and cannot be rotated (F067)", async () => {
    for (const scopes of ["[RUNS_READ]", "[ADMIN_READ, ADMIN_WRITE]"]) {
      const { uuid, secret } = await make("", scopes);
      expect(await statuses(secret)).toEqual([200, 200]);
      const before = performance.now();
      const revoked = await ask(
        `mutation { apiKeyRevoke(input: {id: "${uuid}"}) { apiKey { status } userErrors { code } } }`,
      );
      expect(revoked.data.apiKeyRevoke).toEqual({ apiKey: { status: "REVOKED" }, userErrors: [] });
      await until(
        "both planes refuse it",
        async () => (await statuses(secret)).every((status) => status === 401),
        6_000,
      );
      expect(performance.now() - before).toBeLessThan(5_000);
      expect((await rotate(uuid)).userErrors).toEqual([{ code: "CREDENTIAL_ENDED", field: ["id"] }]);
    }
  });

  test("never exceeds its creator, neither made nor rotated", async () => {
    const limited = await make("", "[ADMIN_WRITE]");
    const more = await ask(
      'mutation { apiKeyCreate(input: {name: "k", scopes: [ADMIN_WRITE, RUNS_READ]}) { secret userErrors { code field } } }',
      limited.secret,
    );
    expect(more.data.apiKeyCreate).toEqual({ secret: null, userErrors: [{ code: "FORBIDDEN", field: ["scopes"] }] });
    const strong = await make();
    const stolen = await ask(
      `mutation { apiKeyRotate(input: {id: "${strong.uuid}"}) { secret userErrors { code } } }`,
      limited.secret,
    );
    expect(stolen.data.apiKeyRotate).toEqual({ secret: null, userErrors: [{ code: "FORBIDDEN" }] });
  });

  test.each([
    ['name: "", scopes: [RUNS_READ]', "name"],
    ['name: "k", scopes: []', "scopes"],
    ['name: "k", scopes: [RUNS_READ], expiresAt: "2020-01-01T00:00:00Z"', "expiresAt"],
    ['name: "k", scopes: [RUNS_READ], expiresAt: "2999-01-01T00:00:00Z"', "expiresAt"],
    ['name: "k", scopes: [RUNS_READ], idempotencyKey: ""', "idempotencyKey"],
  ])("is not made of {%s}", async (input, field) => {
    const { data } = await ask(
      `mutation { apiKeyCreate(input: {${input}}) { apiKey { uuid } userErrors { code field message } } }`,
    );
    expect(data.apiKeyCreate).toMatchObject({ apiKey: null, userErrors: [{ code: "INVALID_INPUT", field: [field] }] });
  });

  test("is made once by twenty equal requests under one idempotency key, and shown once", async () => {
    const create = (name: string) =>
      ask(
        `mutation { apiKeyCreate(input: {name: "${name}", scopes: [RUNS_READ], idempotencyKey: "same"}) { apiKey { uuid } secret alreadyShown userErrors { code } } }`,
      );
    const answers = (await Promise.all(Array.from({ length: 20 }, () => create("once")))).map(
      ({ data }) => data.apiKeyCreate,
    );
    expect(new Set(answers.map(({ apiKey }) => apiKey.uuid)).size).toBe(1);
    expect(answers.filter(({ secret }) => secret !== null)).toHaveLength(1);
    expect(answers.filter(({ alreadyShown }) => alreadyShown)).toHaveLength(19);
    expect((await create("another")).data.apiKeyCreate.userErrors).toEqual([{ code: "IDEMPOTENCY_MISMATCH" }]);
  });

  test("leaves a record of each change, and none of a change that failed", async () => {
    const { uuid } = await make();
    await rotate(uuid);
    await rotate(uuid);
    await ask(`mutation { apiKeyRevoke(input: {id: "${uuid}"}) { userErrors { code } } }`);
    await ask(`mutation { apiKeyRevoke(input: {id: "${uuid}"}) { userErrors { code } } }`);
    const { data } = await ask(`{ auditEvents(filter: {targetId: "${uuid}"}) { nodes { action actorKind } } }`);
    expect(data.auditEvents.nodes).toEqual(
      ["api_key.revoke", "api_key.rotate", "api_key.create"].map((action) => ({ action, actorKind: "api_key" })),
    );
  });

  test("says when it was last used, to the minute", async () => {
    const { uuid, secret } = await make();
    await statuses(secret);
    const used = await until(
      "the use is written down",
      async () => (await ask(`{ apiKey(id: "${uuid}") { lastUsedAt } }`)).data.apiKey.lastUsedAt as string | null,
      15_000,
    );
    expect(used).toMatch(/:00\.000Z$/);
  });
});

test("a runner token is made, rotated and revoked, and is useless as a client key", async () => {
  const made = await ask(
    'mutation { runnerTokenCreate(input: {name: "t", kind: "typescript"}) { runnerToken { uuid kind } secret } }',
  );
  const { runnerToken, secret } = made.data.runnerTokenCreate;
  expect(runnerToken.kind).toBe("typescript");
  expect(await statuses(secret)).toEqual([401, 401]);
  const scope = await other.authenticator.runner(secret);
  expect(scope).toMatchObject({ poolId: world.home.id, kind: "typescript" });
  const rotated = await ask(`mutation { runnerTokenRotate(input: {id: "${runnerToken.uuid}"}) { secret } }`);
  await until(
    "the other plane knows the new one",
    () =>
      other.authenticator.runner(rotated.data.runnerTokenRotate.secret).then(
        () => true,
        () => false,
      ),
    5_000,
  );
  await expect(other.authenticator.runner(secret)).resolves.toMatchObject({ kind: "typescript" });
  await ask(`mutation { runnerTokenRevoke(input: {id: "${runnerToken.uuid}"}) { userErrors { code } } }`);
  await until(
    "the other plane refuses it",
    () =>
      other.authenticator.runner(secret).then(
        () => false,
        () => true,
      ),
    5_000,
  );
});
