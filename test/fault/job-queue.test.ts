import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Outcome } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { pace } from "../support/pace.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { type ProtocolClient, protocolClient } from "../support/protocol-client.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { redisAvailable, testRedis } from "../support/redis.js";
import { startTcpProxy, type TcpProxy, throughProxy } from "../support/tcp-proxy.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

const queueName = "runs.typescript";
const lockMs = 1_000;

describe.skipIf(!redisAvailable())("a job's lock that is lost (no redis-server on the PATH)", () => {
  let database: TestDatabase;
  let redis: Awaited<ReturnType<typeof testRedis>>;
  let admin: Redis;
  let toRedis: TcpProxy;
  let toPostgres: TcpProxy;
  let world: TestTenants;
  /** The one that is hurt, and the one that is not. */
  let hurt: PlaneProcess;
  let sound: PlaneProcess;
  const serving: { stop(): Promise<void> }[] = [];
  const acknowledged: RunName[] = [];
  /** How often each generation of each run was given out. */
  const deliveries = new Map<string, number>();

  beforeAll(async () => {
    database = await testDatabase();
    redis = await testRedis();
    admin = new Redis(redis.url, { maxRetriesPerRequest: null });
    world = await makeTenants(database.appUrl, ["acme"]);
    toRedis = await startTcpProxy({ host: "127.0.0.1", port: Number(new URL(redis.url).port) });
    const server = new URL(database.appUrl);
    toPostgres = await startTcpProxy({ host: server.hostname, port: Number(server.port) });
    const env = {
      // Nothing but the queue may wake a runner here.
      FAIRLEAD_DISPATCH: "queue",
      FAIRLEAD_JOB_LOCK_MS: String(lockMs),
    };
    const slow = { ...database, appUrl: throughProxy(database.appUrl, toPostgres) };
    hurt = await startPlane({
      database: slow,
      ports: await planePorts(),
      redisUrl: throughProxy(redis.url, toRedis),
      env,
    });
    sound = await startPlane({ database, ports: await planePorts(), redisUrl: redis.url, env });
    for (const plane of [hurt, sound]) {
      const runner = rawRunner({ address: plane.grpcAddress, token: world.sharedToken, maxAttempts: 20 });
      await runner.getJob({ waitMs: 0 });
      serving.push(serve(runner));
    }
  }, 120_000);
  afterAll(async () => {
    await Promise.all(serving.map((one) => one.stop()));
    await Promise.all([hurt, sound].map((plane) => plane?.end()));
    admin?.disconnect();
    await toRedis?.stop();
    await toPostgres?.stop();
    await redis?.stop();
    await database?.drop();
  });

  /** Takes whatever comes, says so once, and ends it well. */
  function serve(runner: RawRunner): { stop(): Promise<void> } {
    let leaving = false;
    const work = async (): Promise<void> => {
      while (!leaving) {
        try {
          const { assignments } = await runner.getJob({ freeSlots: 3, waitMs: 1_000 });
          for (const { run } of assignments) {
            const name = `${run!.runId} ${run!.generation}`;
            deliveries.set(name, (deliveries.get(name) ?? 0) + 1);
          }
          for (const { run } of assignments) {
            const values = Buffer.from('{"ok":true}');
            await runner.report({ run, outcome: Outcome.OUTCOME_SUCCESS, events: 0, values });
          }
        } catch {
          await pace(50);
        }
      }
    };
    const working = work();
    return {
      stop: async () => {
        leaving = true;
        await working;
        runner.close();
      },
    };
  }

  async function counts(): Promise<Record<string, number>> {
    const queue = new Queue(queueName, { prefix: "fairlead", connection: admin });
    try {
      return await queue.getJobCounts("waiting", "active", "delayed", "failed", "completed", "prioritized");
    } finally {
      await queue.close();
    }
  }
  const none = { waiting: 0, active: 0, delayed: 0, failed: 0, completed: 0, prioritized: 0 };

  const ways: [string, () => Promise<void>][] = [
    [
      "its process stands still",
      async () => {
        hurt.kill("SIGSTOP");
        const since = performance.now();
        await until("two times of a lock have passed", () => performance.now() - since > 2 * lockMs);
        hurt.kill("SIGCONT");
      },
    ],
    [
      "its process stumbles again and again",
      async () => {
        for (let n = 0; n < 5; n++) {
          hurt.kill("SIGSTOP");
          await pace(200);
          hurt.kill("SIGCONT");
          await pace(100);
        }
      },
    ],
    [
      "its way to Redis is blocked",
      async () => {
        toRedis.stall();
        const since = performance.now();
        await until("two times of a lock have passed", () => performance.now() - since > 2 * lockMs);
        toRedis.heal();
      },
    ],
    [
      "Redis forgets it",
      async () => {
        // A claim takes so long that no lock lives to its end.
        toPostgres.delay(50);
        let forgotten = 0;
        await until("many locks were forgotten", async () => {
          const locks = await admin.keys(`fairlead:${queueName}:*:lock`);
          if (locks.length > 0) forgotten += await admin.del(...locks);
          return forgotten >= 5;
        });
        await until("jobs are left behind", async () => (await counts())["active"] !== 0);
        toPostgres.delay(0);
      },
    ],
  ];
  test.each(ways)(
    "because %s, gives no run out twice in one generation, and no job stays behind (F052)",
    async (_how, lose) => {
      const client = protocolClient(sound.url, world.tenants[0]!.apiKey);
      const before = acknowledged.length;
      const create = async (): Promise<void> => {
        const { status, body } = await client.json<{ run_id: string }>("POST", "/runs", {
          assistant_id: "raw",
          input: {},
          on_completion: "keep",
        });
        expect(status).toBe(200);
        acknowledged.push({ tenantId: world.tenants[0]!.id, runId: body.run_id });
      };
      const creating = Promise.all(
        Array.from({ length: 4 }, async () => {
          for (let n = 0; n < 10; n++) await create();
        }),
      );
      await until("runs are being given out", () => deliveries.size > before);
      await lose();
      await creating;
      expect(acknowledged.length).toBe(before + 40);
      await allFinal(database.adminUrl);
      expect([...deliveries].filter(([, times]) => times !== 1)).toEqual([]);
      await until(
        "the queue is empty",
        async () => JSON.stringify(sorted(await counts())) === JSON.stringify(sorted(none)),
        30_000,
      );
    },
    90_000,
  );

  test("leaves the database in order", async () => {
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
    expect(audit.counts.acknowledged).toBe(160);
  });
});

describe.skipIf(!redisAvailable())("a Redis that is full (no redis-server on the PATH)", () => {
  let database: TestDatabase;
  let redis: Awaited<ReturnType<typeof testRedis>>;
  let admin: Redis;
  let world: TestTenants;
  let near: PlaneProcess;
  let far: PlaneProcess;
  let runner: TestProcess;
  let client: ProtocolClient;
  const acknowledged: RunName[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    redis = await testRedis();
    admin = new Redis(redis.url);
    world = await makeTenants(database.appUrl, ["acme"]);
    // Clients at one, the runner at the other: everything between them goes over the stores.
    near = await startPlane({ database, ports: await planePorts(), redisUrl: redis.url });
    far = await startPlane({ database, ports: await planePorts(), redisUrl: redis.url });
    runner = await startRunner({ address: far.grpcAddress, token: world.sharedToken });
    client = protocolClient(near.url, world.tenants[0]!.apiKey);
  }, 120_000);
  afterAll(async () => {
    await Promise.all([near, far, runner].map((process) => process?.end()));
    admin?.disconnect();
    await redis?.stop();
    await database?.drop();
  });

  async function run(input: object = { events: 3 }): Promise<void> {
    const stream = await client.stream("POST", "/runs/stream", {
      assistant_id: "count",
      input,
      stream_mode: ["custom"],
      on_completion: "keep",
    });
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: stream.runId });
    expect(await stream.whole).toBe(true);
    expect(stream.frames.at(-1)).toMatchObject({ event: "end", data: '{"status":"success"}' });
  }
  const usedBytes = async (): Promise<number> => Number(/used_memory:(\d+)/.exec(await admin.info("memory"))?.[1]);
  const readiness = (plane: PlaneProcess) =>
    protocolClient(plane.url, world.tenants[0]!.apiKey).json<object>("GET", "/readyz");
  const takenFromTheQueue = async (): Promise<number> => {
    const text = await (await fetch(`${far.url}/metrics`)).text();
    return Number(/fairlead_dispatch_total\{path="queue"\} (\d+)/.exec(text)?.[1] ?? 0);
  };

  test("is not filled by runs, however large: the queue holds names (F053)", async () => {
    await run();
    const before = await usedBytes();
    const padding = "x".repeat(300_000);
    for (let n = 0; n < 8; n++)
      await Promise.all(Array.from({ length: 8 }, () => run({ events: 5, holdMs: 1, padding })));
    // Less than a tenth of what the runs were given.
    await until("it is as empty as before", async () => (await usedBytes()) - before < 1_900_000, 10_000);
  }, 60_000);

  test("holds up no run; the planes say that they are not ready, and are again by themselves when there is room (F053)", async () => {
    expect(await readiness(near)).toMatchObject({ status: 200 });
    await admin.config("SET", "maxmemory", String((await usedBytes()) + 2_000_000));
    const filler = "x".repeat(500_000);
    let refused = "";
    for (let n = 0; n < 100 && refused === ""; n++)
      await admin.set(`filler:${n}`, filler).catch((error: Error) => {
        refused = error.message;
      });
    expect(refused).toMatch(/OOM/);
    // The last bit of room, too.
    await admin.config("SET", "maxmemory", "1000000");

    for (const plane of [near, far]) {
      await until("it says that it is not ready", async () => (await readiness(plane)).status === 503, 10_000);
      expect((await readiness(plane)).body).toEqual({ ok: false, postgres: true, queue: false });
    }
    for (let n = 0; n < 5; n++) await Promise.all(Array.from({ length: 4 }, () => run()));
    const { status, body } = await client.json("POST", "/runs/wait", { assistant_id: "count", input: { events: 1 } });
    expect({ status, body }).toMatchObject({ status: 200, body: { counted: 1 } });

    await admin.config("SET", "maxmemory", "0");
    const since = performance.now();
    for (const plane of [near, far])
      await until("it is ready again", async () => (await readiness(plane)).status === 200, 10_000);
    const before = await takenFromTheQueue();
    await until("the queue wakes runners again", async () => {
      await run();
      return (await takenFromTheQueue()) > before;
    });
    expect(performance.now() - since).toBeLessThan(10_000);
  }, 60_000);

  test("leaves the database in order", async () => {
    await allFinal(database.adminUrl);
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
    expect(audit.counts.acknowledged).toBeGreaterThan(80);
  });
});

function allFinal(adminUrl: string): Promise<unknown> {
  return until("every run is final", () =>
    withAdmin(adminUrl, async (admin) => {
      const { rows } = await admin.query("select count(*)::int as n from run where status in ('pending', 'running')");
      return rows[0].n === 0;
    }),
  );
}

function sorted(counts: Record<string, number>): [string, number][] {
  return Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1));
}
