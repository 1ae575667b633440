import { afterAll, beforeAll, expect, test } from "vitest";
import { systemScope } from "../../src/domain/scope.js";
import { revokeCredential } from "../../src/governance/change-credentials.js";
import { sampleAgents } from "../support/sample-agents.js";
import { withAdmin } from "../support/template-database.js";
import { until } from "../support/until.js";
import { startWorld, type TestTenant, testRootKey, type World } from "../support/world.js";

let world: World;
let tenants: TestTenant[];
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
  tenants = [world.home, await world.tenant()];
});
afterAll(() => world.stop());

test("requests of two tenants on the same few connections never see each other's rows, whatever fails between them", async () => {
  const owners = tenants.map((tenant) => tenant.id);
  for (const [n, tenant] of tenants.entries())
    await world.client(tenant.key).threads.create({ metadata: { owner: owners[n] } });
  let looked = 0;
  const one = async (n: number): Promise<void> => {
    const at = n % 2;
    const { key } = tenants[at] as TestTenant;
    const post = (path: string, body: unknown, signal?: AbortSignal) =>
      world.fetch(path, { method: "POST", key, body: JSON.stringify(body), ...(signal ? { signal } : {}) });
    if (n % 5 === 0) {
      // Gone before the answer.
      const leave = new AbortController();
      const asked = post("/runs/wait", { assistant_id: "echo", input: { owner: owners[at] } }, leave.signal);
      setImmediate(() => leave.abort());
      await asked.then((response) => response.text()).catch(() => {});
    } else if (n % 5 === 1) {
      // Fails in the database's transaction.
      expect((await post("/threads", { thread_id: "00000000-0000-4000-8000-000000000001" })).status).not.toBe(500);
    } else if (n % 5 === 2) {
      const values = await (await post("/runs/wait", { assistant_id: "echo", input: { owner: owners[at] } })).json();
      expect(values).toEqual({ owner: owners[at] });
    } else {
      const found = (await (await post("/threads/search", { metadata: {}, limit: 100 })).json()) as {
        metadata: { owner?: string };
      }[];
      expect(found.map((thread) => thread.metadata.owner ?? owners[at])).toEqual(found.map(() => owners[at]));
      expect(found.length).toBeGreaterThan(0);
      looked++;
    }
  };
  let next = 0;
  await Promise.all(
    Array.from({ length: 24 }, async () => {
      while (next < 600) await one(next++);
    }),
  );
  expect(looked).toBe(240);
});

test("a revoked key is refused everywhere within five seconds", async () => {
  const key = await world.key(world.home, ["runs:read"]);
  const ask = async () => (await world.fetch("/threads/search", { method: "POST", key })).status;
  expect(await ask()).toBe(200);
  const id = await withAdmin(world.database.adminUrl, async (admin) => {
    const handle = key.split("_")[2];
    const found = await admin.query<{ id: string }>("select id from api_key where public_id = $1", [handle]);
    return found.rows[0]?.id as string;
  });
  // Told to nobody: what other replicas have kept must lapse by itself.
  const { stores, clock } = world.plane;
  const office = { stores, clock, rootKey: testRootKey, changed: () => {} };
  await revokeCredential(office, systemScope(world.home.id), "api_key", id);
  await until("the key is refused", async () => (await ask()) === 401, 5_000);
});
