import { createRunner, type Runner, silentLogger } from "@fairlead/runner";
import { createPostgresBackend, Queue } from "bullmq";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compose, type RunningPlane } from "../../src/compose.js";
import { type DispatchPath, dispatchPaths, readConfig } from "../../src/platform/config.js";
import { createLog } from "../../src/platform/log.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { protocolClient } from "../support/protocol-client.js";
import { redisAvailable, testRedis } from "../support/redis.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";
import { testRootKey } from "../support/world.js";

// The same load, with each way of waking alone or switched off, on both backends of the queue: every run ends, and only the chosen ways were used.

const perTenant = 100;
const choices: DispatchPath[][] = [
  ["relay"],
  ["queue"],
  ["direct", "relay"],
  ["queue", "relay"],
  ["direct", "queue"],
  ["direct", "queue", "relay"],
];
describe("with the queue on postgres", () => {
  everyWay("postgres");
});
describe.skipIf(!redisAvailable())("with the queue on redis (no redis-server on the PATH)", () => {
  everyWay("redis");
});

function everyWay(backend: "postgres" | "redis"): void {
  let database: TestDatabase;
  let redis: Awaited<ReturnType<typeof testRedis>> | null = null;
  let world: TestTenants;
  const acknowledged: RunName[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme", "globex"]);
    if (backend === "redis") redis = await testRedis();
  }, 60_000);
  afterAll(async () => {
    await redis?.stop();
    await database?.drop();
  });

  const startPlane = (dispatch: readonly DispatchPath[]): Promise<RunningPlane> =>
    compose(
      readConfig(
        {},
        {
          databaseUrl: database.appUrl,
          sweeperDatabaseUrl: database.sweeperUrl,
          ...(redis ? { redisUrl: redis.url } : { queueDatabaseUrl: database.queueUrl }),
          rootKey: testRootKey,
          port: 0,
          grpcPort: 0,
          dispatch,
          limits: { relayEveryMs: 200 },
        },
      ),
      createLog("silent"),
    );
  const startRunner = async (plane: RunningPlane, token: string): Promise<Runner> => {
    const runner = createRunner({
      address: `127.0.0.1:${plane.bridge?.port}`,
      token,
      kind: "typescript",
      agents: { echo: async (run) => run.input },
      capacity: 5,
      logger: silentLogger,
    });
    await runner.start();
    return runner;
  };
  const dispatched = async (plane: RunningPlane): Promise<Record<DispatchPath, number>> => {
    const text = await (await fetch(`${plane.http?.url}/metrics`)).text();
    const count = (path: string): number =>
      Number(new RegExp(`fairlead_dispatch_total\\{path="${path}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
    return { direct: count("direct"), queue: count("queue"), relay: count("relay") };
  };
  const jobsLeft = async (): Promise<number> => {
    const connection = redis ? new Redis(redis.url, { maxRetriesPerRequest: null }) : undefined;
    const queue = connection
      ? new Queue("runs.typescript", { prefix: "fairlead", connection })
      : new Queue(
          "runs.typescript",
          { prefix: "fairlead", connection: { connectionString: database.queueUrl, migrate: false } as never },
          createPostgresBackend as never,
        );
    try {
      const counts = await queue.getJobCounts("waiting", "active", "delayed", "completed", "failed");
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    } finally {
      await queue.close();
      connection?.disconnect();
    }
  };

  test.each(choices.map((ways) => ({ ways, name: ways.join(" and ") })))(
    "every run is dispatched by $name",
    async ({ ways }) => {
      const planes = [await startPlane(ways), await startPlane(ways)];
      const runners: Runner[] = [];
      try {
        // A tenant's own pool has no queue: it is claimed from Postgres.
        const pools = ways.includes("relay") ? [world.sharedToken, world.tenants[0]!.poolToken] : [world.sharedToken];
        for (const plane of planes) for (const token of pools) runners.push(await startRunner(plane, token));
        // The metrics are this process's: both planes count into them.
        const before = await dispatched(planes[0]!);
        const clients = world.tenants.map(({ apiKey, id }, n) => ({
          id,
          http: protocolClient(planes[n]!.http!.url, apiKey),
        }));
        const create = async (n: number): Promise<void> => {
          const { id, http } = clients[n % 2]!;
          const { status, body } = await http.json<{ run_id: string }>("POST", "/runs", {
            assistant_id: "echo",
            input: { n },
            on_completion: "keep",
          });
          expect(status).toBe(200);
          acknowledged.push({ tenantId: id, runId: body.run_id });
          if (n === perTenant && redis) await withRedis(redis.url, (admin) => admin.flushall());
        };
        let next = 0;
        const worker = async (): Promise<void> => {
          while (next < 2 * perTenant) await create(next++);
        };
        await Promise.all(Array.from({ length: 16 }, worker));
        await until("every run is final", () => noneActive(database.adminUrl), 90_000);
        const after = await dispatched(planes[0]!);
        const by = (way: DispatchPath): number => after[way] - before[way];
        for (const way of dispatchPaths) if (!ways.includes(way)) expect(`${way} ${by(way)}`).toBe(`${way} 0`);
        expect(by("direct") + by("queue") + by("relay")).toBeGreaterThanOrEqual(2 * perTenant);
        if (ways.includes("queue")) await until("no job is left behind", async () => (await jobsLeft()) === 0, 60_000);
      } finally {
        await Promise.all(runners.map((runner) => runner.stop({ drainMs: 0 })));
        for (const plane of planes) await plane.stop();
      }
      const audit = await auditDatabase(database.adminUrl, acknowledged);
      expect(audit.complaints).toEqual([]);
    },
    180_000,
  );
}

function noneActive(adminUrl: string): Promise<boolean> {
  return withAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query("select count(*)::int as n from run where status in ('pending', 'running')");
    return rows[0].n === 0;
  });
}

async function withRedis(url: string, act: (admin: Redis) => Promise<unknown>): Promise<void> {
  const admin = new Redis(url);
  try {
    await act(admin);
  } finally {
    admin.disconnect();
  }
}
