import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Outcome, ReportVerdict } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { pace } from "../support/pace.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { type ProtocolClient, protocolClient } from "../support/protocol-client.js";
import { batchOf, type RawRunner, rawRunner } from "../support/raw-runner.js";
import { redisAvailable, testRedis } from "../support/redis.js";
import { startTcpProxy, type TcpProxy, throughProxy } from "../support/tcp-proxy.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

const leaseMs = 1_500;

/** Starts runs until told to stop; 503 and broken connections are fair, everything else is not. */
function load(client: ProtocolClient, tenantId: string, acknowledged: RunName[], broken: string[], graph = "count") {
  let stopping = false;
  const worker = async (): Promise<void> => {
    while (!stopping) {
      try {
        const { status, body } = await client.json<{ run_id: string }>("POST", "/runs", {
          assistant_id: graph,
          input: { events: 3, everyMs: 20 },
          on_completion: "keep",
        });
        if (status === 200) acknowledged.push({ tenantId, runId: body.run_id });
        else if (status !== 503) broken.push(`create answered ${status}: ${JSON.stringify(body)}`);
      } catch (error) {
        // Nothing was promised; but an answer is owed.
        if (/no answer/.test((error as Error).message)) broken.push((error as Error).message);
      }
      await pace(20);
    }
  };
  const workers = Array.from({ length: 6 }, worker);
  return async (): Promise<void> => {
    stopping = true;
    await Promise.all(workers);
  };
}

async function allFinal(adminUrl: string): Promise<void> {
  await until(
    "every run is final",
    () =>
      withAdmin(adminUrl, async (admin) => {
        const { rows } = await admin.query("select count(*)::int as n from run where status in ('pending', 'running')");
        return rows[0].n === 0;
      }),
    120_000,
  );
}

describe("a Postgres that cannot be reached", () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let world: TestTenants;
  let plane: PlaneProcess;
  let client: ProtocolClient;
  let patient: RawRunner;
  let runner: TestProcess;
  const acknowledged: RunName[] = [];
  const broken: string[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme"]);
    const server = new URL(database.appUrl);
    proxy = await startTcpProxy({ host: server.hostname, port: Number(server.port) });
    plane = await startPlane({
      database: {
        appUrl: throughProxy(database.appUrl, proxy),
        sweeperUrl: throughProxy(database.sweeperUrl, proxy),
        queueUrl: throughProxy(database.queueUrl, proxy),
      },
      ports: await planePorts(),
    });
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
    patient = rawRunner({ address: plane.grpcAddress, token: world.sharedToken, graphs: ["patient-raw"] });
    await patient.getJob({ waitMs: 0 });
  }, 120_000);
  afterAll(async () => {
    patient?.close();
    await Promise.all([plane, runner].map((process) => process?.end()));
    await proxy?.stop();
    await database?.drop();
  });

  const outages: [string, (proxy: TcpProxy) => void][] = [
    ["refuses connections", (one) => one.refuse()],
    ["stands still with its connections open", (one) => one.stall()],
  ];
  test.each(outages)(
    "because it %s, for longer than a lease, takes no run from a runner that keeps beating",
    async (_how, hurt) => {
      const { body } = await client.json<{ run_id: string }>("POST", "/runs", {
        assistant_id: "patient-raw",
        input: {},
        on_completion: "keep",
      });
      acknowledged.push({ tenantId: world.tenants[0]!.id, runId: body.run_id });
      const job = await patient.take();
      const beat = await patient.keepAlive(job.run!);
      const stream = patient.events();
      await stream.send(batchOf(job.run, 1, 2));

      hurt(proxy);
      const since = performance.now();
      await until("three leases have passed", () => performance.now() - since > 3 * leaseMs, 60_000);
      proxy.heal();

      const events = patient.events();
      await until(
        "the plane hears the runner again",
        () =>
          patient.heartbeat(job.run!).then(
            ([pulse]) => {
              expect(pulse).toMatchObject({ superseded: false });
              return true;
            },
            () => false,
          ),
        60_000,
      );
      // Time enough for a sweep that would take it.
      const healed = performance.now();
      await until("two more leases have passed", () => performance.now() - healed > 2 * leaseMs, 60_000);
      await events.send(batchOf(job.run, 3, 1));
      const values = Buffer.from('{"survived":true}');
      expect(await patient.report({ run: job.run, outcome: Outcome.OUTCOME_SUCCESS, events: 3, values })).toMatchObject(
        [{ verdict: ReportVerdict.REPORT_VERDICT_RECORDED }],
      );
      beat();
    },
    120_000,
  );

  test.each(outages)(
    "because it %s costs a runner of the SDK no attempt either",
    async (_how, hurt) => {
      const sdk = await startRunner({ address: plane.grpcAddress, token: world.sharedToken });
      const { body } = await client.json<{ run_id: string; thread_id: string }>("POST", "/runs", {
        assistant_id: "brittle",
        input: { events: 40, everyMs: 200 },
        on_completion: "keep",
      });
      acknowledged.push({ tenantId: world.tenants[0]!.id, runId: body.run_id });
      const path = `/threads/${body.thread_id}/runs/${body.run_id}`;
      const read = async (): Promise<string> => (await client.json<{ status: string }>("GET", path)).body.status;
      await until("the run is under way", async () => (await read()) === "running");
      hurt(proxy);
      const since = performance.now();
      await until("two leases have passed", () => performance.now() - since > 2 * leaseMs, 60_000);
      proxy.heal();
      await until("the run has ended", async () => /success|error/.test(await read()), 60_000);
      const { body: ended } = await client.json<{ status: string }>("GET", `${path}/join`);
      expect(ended).toMatchObject({ counted: 40, attempt: 1 });
      sdk.kill("SIGTERM");
      await sdk.ended;
    },
    120_000,
  );

  test("or is cut, gone or slow under load: clients get 2xx or 503, and what was acknowledged is done", async () => {
    runner = await startRunner({ address: plane.grpcAddress, token: world.sharedToken, capacity: 20 });
    const stop = load(client, world.tenants[0]!.id, acknowledged, broken);
    const more = async (n: number): Promise<void> => {
      const goal = acknowledged.length + n;
      await until(`${n} more runs are acknowledged`, () => acknowledged.length >= goal || broken.length > 0, 60_000);
      expect(broken).toEqual([]);
    };
    await more(30);
    proxy.cut();
    await more(30);
    proxy.delay(100);
    await more(20);
    proxy.refuse();
    const since = performance.now();
    await until("the outage lasted three seconds", () => performance.now() - since > 3_000, 30_000);
    proxy.heal();
    await more(30);
    await stop();
    await allFinal(database.adminUrl);
    expect(broken).toEqual([]);
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
  }, 240_000);
});

describe.skipIf(!redisAvailable())(
  "a Redis that is emptied, stopped or restarted (no redis-server on the PATH)",
  () => {
    let database: TestDatabase;
    let redis: Awaited<ReturnType<typeof testRedis>>;
    let proxy: TcpProxy;
    let admin: Redis;
    let world: TestTenants;
    const planes: PlaneProcess[] = [];
    const runners: TestProcess[] = [];
    const acknowledged: RunName[] = [];
    const broken: string[] = [];

    beforeAll(async () => {
      database = await testDatabase();
      redis = await testRedis();
      admin = new Redis(redis.url);
      const server = new URL(redis.url);
      proxy = await startTcpProxy({ host: server.hostname, port: Number(server.port) });
      world = await makeTenants(database.appUrl, ["acme"]);
      for (let n = 0; n < 2; n++) {
        const plane = await startPlane({
          database,
          ports: await planePorts(),
          redisUrl: throughProxy(redis.url, proxy),
        });
        planes.push(plane);
        runners.push(await startRunner({ address: plane.grpcAddress, token: world.sharedToken, capacity: 10 }));
      }
    }, 120_000);
    afterAll(async () => {
      admin?.disconnect();
      await Promise.all([...planes, ...runners].map((process) => process.end()));
      await proxy?.stop();
      await redis?.stop();
      await database?.drop();
    });

    test("delays runs and loses none; the planes serve on, say that the queue is away, and recover by themselves", async () => {
      const client = protocolClient(planes[0]!.url, world.tenants[0]!.apiKey);
      const stop = load(client, world.tenants[0]!.id, acknowledged, broken);
      const more = async (n: number): Promise<void> => {
        const goal = acknowledged.length + n;
        await until(`${n} more runs are acknowledged`, () => acknowledged.length >= goal || broken.length > 0, 60_000);
        expect(broken).toEqual([]);
      };
      await more(20);
      for (let n = 0; n < 5; n++) {
        await admin.flushall();
        await more(5);
      }
      const pid = Number(/process_id:(\d+)/.exec(await admin.info("server"))?.[1]);
      process.kill(pid, "SIGSTOP");
      const since = performance.now();
      try {
        await more(20);
        await until("readiness tells", async () => (await client.json("GET", "/readyz")).status === 503, 60_000);
        await until("Redis stood still for 20 s", () => performance.now() - since > 20_000, 60_000);
      } finally {
        process.kill(pid, "SIGCONT");
      }
      proxy.refuse();
      await more(20);
      proxy.heal();
      await until(
        "the planes are ready again",
        async () => (await client.json("GET", "/readyz")).status === 200,
        60_000,
      );
      await more(20);
      await stop();
      await allFinal(database.adminUrl);
      expect(broken).toEqual([]);
      const audit = await auditDatabase(database.adminUrl, acknowledged);
      expect(audit.complaints).toEqual([]);
      await until("no job is left behind", async () => (await admin.keys("fairlead:*:[0-9]*")).length === 0, 60_000);
    }, 240_000);
  },
);
