import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiScopes } from "../../src/domain/scope.js";
import { createDenials } from "../../src/governance/record-denials.js";
import { askGraphql } from "../support/graphql.js";
import { rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { until } from "../support/until.js";
import { startWorld, type World } from "../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

interface Denial {
  actor_kind: string;
  actor_id: string;
  target_id: string;
  detail: { reason: string; times: number };
}
const denials = async (tenantId: string): Promise<Denial[]> =>
  (
    await withAdmin(world.database.adminUrl, (admin) =>
      admin.query<Denial>(
        "select actor_kind, actor_id, target_id, detail from audit_event where tenant_id = $1 and action = 'access.denied' order by at",
        [tenantId],
      ),
    )
  ).rows;

test("a request beyond the caller's rights is recorded with its actor and the operation, on each door; an unknown id is not", async () => {
  const tenant = await world.tenant();
  const reader = await world.key(tenant, ["runs:read"]);
  expect((await world.fetch("/threads", { method: "POST", body: "{}", key: reader })).status).toBe(403);
  const refused = await askGraphql(world.url, reader, "{ apiKeys { nodes { uuid } } }");
  expect(refused.errors?.[0]).toMatchObject({ extensions: { code: "FORBIDDEN" } });
  expect((await world.fetch(`/threads/${randomUUID()}`, { key: reader })).status).toBe(404);
  const found = await until("both are recorded", async () => {
    const rows = await denials(tenant.id);
    return rows.length >= 2 ? rows : null;
  });
  expect(found.map(({ target_id: target }) => target).sort()).toEqual(["GraphQL apiKeys", "POST /threads"]);
  for (const { actor_kind: kind, actor_id: id, detail } of found) {
    expect([kind, id]).toEqual(["api_key", expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    expect(detail.reason).toMatch(/lacks/);
  }

  const admin = await world.key(tenant, ["admin:read", "admin:write"]);
  const wider = 'mutation { apiKeyCreate(input: {name: "wider", scopes: [RUNS_READ]}) { userErrors { code } } }';
  expect((await askGraphql(world.url, admin, wider)).data.apiKeyCreate.userErrors).toEqual([{ code: "FORBIDDEN" }]);
  await until("the mutation's is recorded", async () =>
    (await denials(tenant.id)).some(({ target_id: target }) => target === "GraphQL mutation"),
  );

  const runner = rawRunner({
    address: world.grpcAddress,
    token: await world.runnerToken("python"),
    kind: "typescript",
  });
  await expect(runner.getJob({ waitMs: 100 })).rejects.toThrow(/python/);
  const operator = "00000000-0000-7000-8000-000000000000";
  const [call] = await until("the runner's is recorded", async () => {
    const rows = await denials(operator);
    return rows.length > 0 ? rows : null;
  });
  expect(call).toMatchObject({ actor_kind: "runner_token", target_id: "GetJob" });
  runner.close();
});

test("what is denied again and again is one record with its number, and none is lost when the plane stops", async () => {
  const tenant = await world.tenant();
  const { stores, log } = world.plane;
  const scope = await world.running.authenticator.client(await world.key(tenant, apiScopes));
  const counted = createDenials(stores, log);
  for (let n = 0; n < 100; n++) counted.note(scope, "POST /threads", "lacks a right");
  await counted.stop();
  expect((await denials(tenant.id)).map(({ detail }) => detail.times).sort((a, b) => a - b)).toEqual([1, 99]);
});
