import { createRunner, type Runner, silentLogger } from "@fairlead/runner";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiScopes, systemScope } from "../../src/domain/scope.js";
import { createApiKey } from "../../src/governance/edit-api-keys.js";
import { openStores } from "../../src/store/client.js";
import { askGraphql, type GraphqlAnswer } from "../support/graphql.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane } from "../support/processes.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenant, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";
import { testRootKey } from "../support/world.js";

// Three plane processes on one database, a runner at each, and clients that never stop asking.

let database: TestDatabase;
let world: TestTenants;
let acme: TestTenant;
let beta: TestTenant;
let admin: string;
const planes: PlaneProcess[] = [];
const runners: Runner[] = [];

beforeAll(async () => {
  database = await testDatabase();
  world = await makeTenants(database.appUrl, ["acme", "beta"]);
  [acme, beta] = world.tenants as [TestTenant, TestTenant];
  const stores = openStores(database.appUrl, database.appUrl, pino({ level: "silent" }));
  const key = { name: "admin", scopes: apiScopes, expiresAt: null };
  admin = (await createApiKey(stores, testRootKey, systemScope(acme.id), key)).text;
  await stores.close();
  // When a run was claimed, by the clock that dates the halts.
  await sql(`create table claimed (tenant_id uuid, run_id uuid, at timestamptz);
    create function note_claim() returns trigger language plpgsql security definer as $$
      begin insert into claimed values (new.tenant_id, new.id, clock_timestamp()); return new; end $$;
    create trigger note_claim after update of status on run for each row when (old.status = 'pending' and new.status = 'running') execute function note_claim()`);
  for (let n = 0; n < 3; n++) planes.push(await startPlane({ database, ports: await planePorts() }));
  for (const { grpcAddress } of planes) runners.push(await runnerAt(grpcAddress, world.sharedToken));
}, 120_000);
afterAll(async () => {
  await Promise.all(runners.map((runner) => runner.stop({ drainMs: 0 })));
  await Promise.all(planes.map((plane) => plane.end()));
  await database?.drop();
});

async function runnerAt(address: string, token: string): Promise<Runner> {
  const slow = (run: { signal: AbortSignal }) =>
    new Promise<never>((_resolve, reject) => {
      run.signal.addEventListener("abort", () => reject(run.signal.reason as Error));
    });
  const runner = createRunner({
    ...{ address, token, kind: "typescript", capacity: 60, logger: silentLogger },
    agents: { echo: async (run) => run.input, slow, other: async (run) => run.input },
  });
  await runner.start();
  return runner;
}

async function sql<Row = Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
  return withAdmin(database.adminUrl, async (client) => (await client.query(text, values)).rows as Row[]);
}

interface Answer {
  readonly status: number;
  readonly body: { readonly run_id?: string; readonly code?: string };
}

async function create(plane: PlaneProcess, key: string, graph: string): Promise<Answer> {
  const answer = await fetch(`${plane.url}/runs`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: graph, input: { a: 1 }, on_completion: "keep" }),
  });
  return { status: answer.status, body: (await answer.json()) as Answer["body"] };
}

async function halt(plane: PlaneProcess, input: string): Promise<{ id: string; affected: GraphqlAnswer["data"] }> {
  const { data, errors } = await askGraphql(
    plane.url,
    admin,
    `mutation { haltCreate(input: {reason: "drill", ${input}}) { halt { uuid } affected { pending running } userErrors { code message } } }`,
  );
  expect([errors, data?.haltCreate.userErrors]).toEqual([[], []]);
  return { id: data.haltCreate.halt.uuid as string, affected: data.haltCreate.affected };
}

async function lift(plane: PlaneProcess, id: string): Promise<void> {
  const { data } = await askGraphql(
    plane.url,
    admin,
    `mutation { haltLift(input: {id: "${id}"}) { halt { liftedBy } userErrors { code } } }`,
  );
  expect(data.haltLift).toMatchObject({ halt: { liftedBy: expect.stringContaining("api_key:") }, userErrors: [] });
}

const statusOf = async (runId: string | undefined): Promise<string> =>
  (await sql<{ status: string }>("select status from run where id = $1", [runId]))[0]?.status ?? "none";

test("after a halt no run of the tenant is created or claimed on any of three planes, and all that runs ends within seconds", async () => {
  for (let n = 0; n < 12; n++) await create(planes[n % 3]!, acme.apiKey, "slow");
  await until("the slow runs run", async () => {
    const [row] = await sql<{ n: number }>(
      "select count(*)::int as n from run where graph_id = 'slow' and status = 'running' and confirmed",
    );
    return row?.n === 12;
  });
  let isOver = false;
  let haltedAt = Number.POSITIVE_INFINITY;
  const counts = { created: 0, refused: 0, createdAfter: 0 };
  const others: Answer[] = [];
  const flood = Array.from({ length: 18 }, async (_, n) => {
    while (!isOver) {
      const askedAt = performance.now();
      const { status, body } = await create(planes[n % 3]!, acme.apiKey, "echo");
      if (status === 200) counts.created++;
      if (status === 200 && askedAt > haltedAt) counts.createdAfter++;
      if (status === 403) expect(body.code).toBe("HALTED");
      if (status === 403) counts.refused++;
    }
  });
  await until("the flood flows", () => counts.created > 60);
  const { id, affected } = await halt(planes[1]!, "scope: TENANT, mode: CANCEL");
  haltedAt = performance.now();
  expect(affected.running).toBeGreaterThanOrEqual(12);
  await until("it is refused everywhere", () => counts.refused > 60);
  for (const plane of planes) others.push(await create(plane, beta.apiKey, "echo"));
  isOver = true;
  await Promise.all(flood);
  expect(counts.createdAfter).toBe(0);

  await until("nothing of the tenant is open", async () => {
    const [row] = await sql<{ n: number }>(
      "select count(*)::int as n from run where tenant_id = $1 and status in ('pending', 'running')",
      [acme.id],
    );
    return row?.n === 0;
  });
  const [late] = await sql<{ created: number; claimed: number; unreasoned: number; seconds: number }>(
    `select (select count(*)::int from run r where r.tenant_id = h.tenant_id and r.created_at > h.created_at) as created,
      (select count(*)::int from claimed c where c.tenant_id = h.tenant_id and c.at > h.created_at) as claimed,
      (select count(*)::int from run r where r.tenant_id = h.tenant_id and r.status = 'cancelled' and r.status_reason is distinct from 'halted') as unreasoned,
      (select extract(epoch from max(r.ended_at) - h.created_at)::float8 from run r where r.tenant_id = h.tenant_id and r.graph_id = 'slow') as seconds
      from halt h where h.id = $1`,
    [id],
  );
  console.log(`halt: ${JSON.stringify({ ...counts, affected, secondsToStop: late?.seconds })}`);
  expect(late).toMatchObject({ created: 0, claimed: 0, unreasoned: 0 });
  expect(late?.seconds).toBeLessThan(3);
  // Another tenant's runs go on.
  for (const { body } of others)
    await until("the other tenant's run ends", async () => (await statusOf(body.run_id)) === "success");

  await lift(planes[2]!, id);
  for (const plane of planes) {
    const { status, body } = await create(plane, acme.apiKey, "echo");
    expect(status).toBe(200);
    await until("a run after the halt ends", async () => (await statusOf(body.run_id)) === "success");
  }
}, 120_000);

test("a halt of one agent keeps its runs waiting and lets others pass; lifted, or over by its time, they start at once", async () => {
  const agents = await sql<{ id: string }>("select id from agent where tenant_id = $1 and graph_id = 'other'", [
    acme.id,
  ]);
  const place = `scope: AGENT, agentId: "${agents[0]!.id}"`;
  // Nobody is there to take them before the halt stands.
  await Promise.all(runners.map((runner) => runner.stop({ drainMs: 1_000 })));
  const waiting = await Promise.all(planes.map((plane) => create(plane, acme.apiKey, "other")));
  const { id, affected } = await halt(planes[0]!, place);
  expect(affected).toEqual({ pending: 3, running: 0 });
  for (const [n, { grpcAddress }] of planes.entries()) runners[n] = await runnerAt(grpcAddress, world.sharedToken);
  const passed = await create(planes[0]!, acme.apiKey, "echo");
  await until("another agent's run ends", async () => (await statusOf(passed.body.run_id)) === "success");
  for (const { body } of waiting) expect(await statusOf(body.run_id)).toBe("pending");
  expect((await create(planes[1]!, acme.apiKey, "other")).body.code).toBe("HALTED");
  expect((await create(planes[1]!, beta.apiKey, "other")).status).toBe(200);
  await lift(planes[0]!, id);
  for (const { body } of waiting)
    await until("a run that waited ends", async () => (await statusOf(body.run_id)) === "success", 5_000);

  const expiresAt = new Date(Date.now() + 3_000).toISOString();
  await halt(planes[2]!, `${place}, expiresAt: "${expiresAt}"`);
  expect((await create(planes[0]!, acme.apiKey, "other")).body.code).toBe("HALTED");
  await until(
    "the halt is over by its time",
    async () => (await create(planes[0]!, acme.apiKey, "other")).status === 200,
  );
}, 60_000);

test("a plane that is killed while it stops what was halted leaves the rest to the others", async () => {
  await Promise.all(runners.map((runner) => runner.stop({ drainMs: 1_000 })));
  const made: Answer[] = [];
  for (let n = 0; n < 300; n += 50)
    made.push(
      ...(await Promise.all(Array.from({ length: 50 }, (_, m) => create(planes[m % 3]!, acme.apiKey, "echo")))),
    );
  expect(new Set(made.map(({ status }) => status))).toEqual(new Set([200]));
  await halt(planes[0]!, "scope: TENANT, mode: CANCEL");
  planes[0]!.kill("SIGKILL");
  await until("all are ended", async () => {
    const [row] = await sql<{ n: number }>(
      "select count(*)::int as n from run where id = any ($1) and status = 'cancelled' and status_reason = 'halted'",
      [made.map(({ body }) => body.run_id)],
    );
    return row?.n === 300;
  });
}, 60_000);
