import { readdirSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRunner, type RunnerOptions, silentLogger } from "@fairlead/runner";
import { Redis } from "ioredis";
import pg from "pg";
import { startEmbeddedPostgres } from "../../src/platform/embedded-postgres.js";
import { temporaryDirectory } from "../support/cluster.js";
import { testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane } from "../support/processes.js";
import { testRedis } from "../support/redis.js";
import { makeTenants } from "../support/tenants.js";

// The built plane as a process, on a PostgreSQL that counts statements and really flushes, and on a Redis of its own. A gate is a count per run, or
// processor time: both hold on a noisy machine, where a rate does not.

export interface MeasuredPlane {
  readonly plane: PlaneProcess;
  readonly apiKey: string;
  /** For runners of kind `typescript`. */
  readonly runnerToken: string;
  /** Statements that the plane's own connections have sent since the last `resetStatements`. */
  statements(): Promise<number>;
  resetStatements(): Promise<void>;
  /** The same by text, the most frequent first: what to read when a gate fails. */
  statementTexts(): Promise<string[]>;
  /** Tenants whose last records are not signed yet: work that is left of what happened before. */
  unsignedChains(): Promise<number>;
  /** Flushes of the write-ahead log that statements waited for, since the server began. */
  walFlushes(): Promise<number>;
  /** Connections of the plane to its database. */
  connections(): Promise<number>;
  /** Commands that clients sent; what scripts call inside Redis is no round trip. */
  redisRoundTrips(): Promise<number>;
  redisKeys(): Promise<number>;
  /** A runner of the SDK in this process. */
  runner(agents: RunnerOptions["agents"], capacity?: number): Promise<void>;
  /**
   * So many runs of an agent through /runs/wait, by so many clients, with `more` in their requests. Each must end with what `agent` returns for its
   * input.
   */
  runs(agent: string, count: number, clients: number, more?: object): Promise<void>;
  /** Rows of what runs leave behind, by table. */
  rows(): Promise<Record<(typeof tablesOfRuns)[number], number>>;
  stop(): Promise<void>;
}

const tablesOfRuns = ["run_event", "run_delta", "checkpoint", "checkpoint_write", "checkpoint_blob", "step"] as const;

/** What the plane sends itself; BullMQ does everything else inside its scripts. */
const sentByPlane = /^cmdstat_(evalsha|eval|publish|bzpopmin|ping)$/;

const ofThePlane = `where toplevel and userid <> (select oid from pg_roles where rolname = current_user)
  and dbid = (select oid from pg_database where datname = current_database())`;

export async function startMeasuredPlane(env: Readonly<Record<string, string>> = {}): Promise<MeasuredPlane> {
  const folder = temporaryDirectory();
  const server = await startEmbeddedPostgres({
    directory: join(folder, "postgres"),
    settings: { shared_preload_libraries: "pg_stat_statements", fsync: "on", shared_buffers: "128MB" },
    log: () => {},
  });
  const database = await testDatabase(server.url);
  const redis = await testRedis();
  const { tenants, sharedToken } = await makeTenants(database.appUrl, ["gates"]);
  const admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  await admin.query("create extension pg_stat_statements");
  const keys = new Redis(redis.url);
  const plane = await startPlane({
    database,
    ports: await planePorts(),
    redisUrl: redis.url,
    // The times of production: the short ones of the fault tests would be counted as idle work.
    env: {
      FAIRLEAD_LEASE_MS: "10000",
      FAIRLEAD_HEARTBEAT_MS: "3000",
      FAIRLEAD_OFFER_MS: "5000",
      FAIRLEAD_SWEEP_EVERY_MS: "1000",
      FAIRLEAD_RELAY_EVERY_MS: "1000",
      ...env,
    },
  });
  const apiKey = tenants[0]?.apiKey ?? "";
  const runners: { stop(options: { drainMs: number }): Promise<void> }[] = [];
  const number = async (text: string): Promise<number> =>
    Number((await admin.query<{ n: string }>(text)).rows[0]?.n ?? 0);
  return {
    plane,
    apiKey,
    runnerToken: sharedToken,
    statements: () => number(`select coalesce(sum(calls), 0) as n from pg_stat_statements ${ofThePlane}`),
    statementTexts: async () => {
      const { rows } = await admin.query<{ calls: string; query: string }>(
        `select calls, query from pg_stat_statements ${ofThePlane} order by calls desc limit 25`,
      );
      return rows.map(({ calls, query }) => `${calls} × ${query.replaceAll(/\s+/g, " ").slice(0, 120)}`);
    },
    resetStatements: async () => {
      await admin.query("select pg_stat_statements_reset()");
    },
    unsignedChains: () => number("select count(*) as n from audit_head where seq > signed_seq"),
    walFlushes: () =>
      number("select sum(fsyncs) as n from pg_stat_io where object = 'wal' and backend_type = 'client backend'"),
    connections: () =>
      number(
        "select count(*) as n from pg_stat_activity where datname = current_database() and application_name like 'fairlead%'",
      ),
    redisRoundTrips: async () => {
      let sum = 0;
      for (const line of (await keys.info("commandstats")).split("\r\n")) {
        const [name = "", rest = ""] = line.split(":");
        if (sentByPlane.test(name)) sum += Number(/calls=(\d+)/.exec(rest)?.[1] ?? 0);
      }
      return sum;
    },
    redisKeys: () => keys.dbsize(),
    runner: async (agents, capacity = 100) => {
      const runner = createRunner({
        address: plane.grpcAddress,
        token: sharedToken,
        kind: "typescript",
        agents,
        capacity,
        logger: silentLogger,
      });
      runners.push(runner);
      await runner.start();
    },
    runs: (agent, count, clients, more = {}) =>
      waitRuns(plane.url, apiKey, { assistant_id: agent, ...more }, count, clients),
    rows: async () => {
      const counts = tablesOfRuns.map((table) => `(select count(*)::int from ${table}) as ${table}`);
      return (await admin.query(`select ${counts.join(", ")}`)).rows[0];
    },
    stop: async () => {
      await Promise.all(runners.map((runner) => runner.stop({ drainMs: 0 })));
      await plane.end();
      keys.disconnect();
      await admin.end();
      await redis.stop();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function waitRuns(url: string, apiKey: string, fields: object, count: number, clients: number): Promise<void> {
  const connections = new Agent({ keepAlive: true, maxSockets: clients });
  let next = 0;
  const once = (n: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({ ...fields, input: { said: `said-${n}` } });
      const call = request(`${url}/runs/wait`, {
        method: "POST",
        agent: connections,
        headers: { "x-api-key": apiKey, "content-type": "application/json", "content-length": Buffer.byteLength(body) },
      });
      call.once("error", reject);
      call.once("response", (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
        });
        response.once("error", reject);
        response.once("end", () => {
          if (response.statusCode === 200 && text.includes(`said-${n}`)) resolve();
          else reject(new Error(`run ${n}: ${response.statusCode} ${text.slice(0, 200)}`));
        });
      });
      call.end(body);
    });
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (next < count) await once(next++);
    }),
  );
  connections.destroy();
}

/** Processor time of a process so far, in microseconds. */
export function cpuMicros(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

export function openDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

export const jsonSpy = fileURLToPath(new URL("json-spy.mjs", import.meta.url));
