import { afterEach, describe, expect, test } from "vitest";
import { auditDatabase, describeAudit } from "../support/audit.js";
import { type ClientLoad, startClients } from "../support/client-load.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { protocolClient } from "../support/protocol-client.js";
import { redisAvailable } from "../support/redis.js";
import { type RestartableRedis, restartableRedis } from "../support/restartable-stores.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

// A real Redis is killed, emptied and frozen under load. It holds hints alone, so nothing may be lost, and whoever asks whether it is there is told.

const clients = 16;
const recoverMs = 10_000;
const seed = Number(process.env["FAIRLEAD_TEST_SEED"] ?? Math.floor(performance.timeOrigin) % 2 ** 31);

let redis: RestartableRedis;
let database: TestDatabase;
let world: TestTenants;
let planes: PlaneProcess[] = [];
let runners: TestProcess[] = [];

async function begin(env: Record<string, string>): Promise<ClientLoad> {
  redis = await restartableRedis();
  database = await testDatabase();
  world = await makeTenants(database.appUrl, ["acme", "globex"]);
  for (let n = 0; n < 2; n++) {
    const plane = await startPlane({ database, ports: await planePorts(), redisUrl: redis.url, env });
    planes.push(plane);
    runners.push(await startRunner({ address: plane.grpcAddress, token: world.sharedToken, capacity: 30 }));
  }
  return startClients({ urls: planes.map(({ url }) => url), tenants: world.tenants, clients, seed });
}

afterEach(async () => {
  await Promise.all([...planes, ...runners].map((process) => process.end()));
  planes = [];
  runners = [];
  await redis?.remove();
  await database?.drop();
});

/** What every plane says of itself. */
async function readiness(): Promise<number[]> {
  const answers = planes.map((plane) => protocolClient(plane.url, "").json("GET", "/readyz"));
  return (await Promise.all(answers)).map(({ status }) => status);
}

function allSay(status: number): Promise<boolean> {
  return until(
    `every plane answers ${status} when asked whether it is ready`,
    async () => (await readiness()).every((one) => one === status),
    recoverMs,
  );
}

async function more(load: ClientLoad, runs: number, withinMs: number): Promise<void> {
  const goal = load.acknowledged.length + runs;
  await until(
    `${runs} more runs are acknowledged`,
    () => load.acknowledged.length >= goal || load.broken.length > 0,
    withinMs,
  );
  expect(load.broken).toEqual([]);
}

/** A run that is created now has ended within the time in which dispatch must be back. */
async function dispatches(): Promise<void> {
  await Promise.all(
    planes.map(async (plane, n) => {
      const client = protocolClient(plane.url, world.tenants[n % 2]!.apiKey);
      const since = performance.now();
      const { status } = await client.json("POST", "/runs/wait", { assistant_id: "patient", input: { events: 1 } });
      expect(status).toBe(200);
      expect(performance.now() - since).toBeLessThan(recoverMs);
    }),
  );
}

async function auditAfter(load: ClientLoad): Promise<void> {
  await load.stop();
  await until(
    "every run is final",
    () =>
      withAdmin(database.adminUrl, async (admin) => {
        const { rows } = await admin.query("select count(*)::int as n from run where status in ('pending', 'running')");
        return rows[0].n === 0;
      }),
    60_000,
  );
  expect(load.broken).toEqual([]);
  const audit = await auditDatabase(database.adminUrl, load.acknowledged);
  process.stdout.write(`seed ${seed}, ${describeAudit(audit)}\n`);
  expect(audit.complaints).toEqual([]);
}

describe.skipIf(!redisAvailable())("a Redis under load (no redis-server on the PATH)", () => {
  test("that is killed and comes back empty costs no run: Postgres dispatches meanwhile, and readiness tells", async () => {
    const load = await begin({});
    await more(load, 30, 60_000);
    for (let round = 0; round < 2; round++) {
      await redis.kill();
      await allSay(503);
      await dispatches();
      await more(load, 20, 30_000);
      await redis.start();
      await allSay(200);
      await dispatches();
      await more(load, 20, 30_000);
    }
    await auditAfter(load);
  }, 180_000);

  test("that is emptied again and again, and then stands still for seconds, costs no run either (F049)", async () => {
    const load = await begin({});
    await more(load, 30, 60_000);
    for (let round = 0; round < 5; round++) {
      await redis.ask((one) => one.flushall());
      await more(load, 10, 30_000);
    }
    await dispatches();
    redis.freeze();
    const since = performance.now();
    await allSay(503);
    await dispatches();
    await more(load, 20, 30_000);
    await until("it stood still for eight seconds", () => performance.now() - since > 8_000, 30_000);
    redis.thaw();
    await allSay(200);
    await dispatches();
    await more(load, 20, 30_000);
    await auditAfter(load);
    await until("no job is left behind", () =>
      redis.ask(async (one) => (await one.keys("fairlead:*:[0-9]*")).length === 0),
    );
  }, 180_000);

  test("on which alone all dispatch rests is at work again within ten seconds, killed, emptied or frozen", async () => {
    const load = await begin({ FAIRLEAD_DISPATCH: "queue" });
    await more(load, 30, 60_000);
    await redis.kill();
    await allSay(503);
    await redis.start();
    await dispatches();
    await redis.ask((one) => one.flushall());
    await dispatches();
    redis.freeze();
    await allSay(503);
    redis.thaw();
    await dispatches();
    await allSay(200);
    await auditAfter(load);
  }, 180_000);
});
