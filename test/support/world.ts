import { createRunner, type Runner, type RunnerOptions, silentLogger } from "@fairlead/runner";
import { Client } from "@langchain/langgraph-sdk";
import { createTenant } from "../../src/catalog/edit-tenants.js";
import { compose, type RunningPlane } from "../../src/compose.js";
import { operatorTenantId, type TenantId } from "../../src/domain/ids.js";
import { type ApiScope, systemScope } from "../../src/domain/scope.js";
import { createApiKey } from "../../src/governance/edit-api-keys.js";
import { createRunnerToken } from "../../src/governance/edit-runner-tokens.js";
import { type Limits, readConfig } from "../../src/platform/config.js";
import { createLog } from "../../src/platform/log.js";
import { type TestDatabase, testDatabase } from "./postgres.js";
import { testRedis } from "./redis.js";

// A whole plane in this process, on a database of its own, with real runners of the TypeScript SDK: what most tests of facades and flows need.

export const testRootKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const runnerKind = "typescript";

export interface WorldOptions {
  /** What the first runner executes. None: no runner is started. */
  readonly agents?: RunnerOptions["agents"];
  readonly limits?: Partial<Limits>;
  /** BullMQ and live hints on a Redis of its own, instead of on Postgres. */
  readonly redis?: boolean;
  readonly capacity?: number;
}

/** A tenant with one key that may do everything a client may. */
export interface TestTenant {
  readonly id: TenantId;
  readonly key: string;
}

export interface World {
  readonly url: string;
  readonly grpcAddress: string;
  readonly database: TestDatabase;
  readonly running: RunningPlane;
  readonly plane: RunningPlane["plane"];
  /** The first tenant. */
  readonly home: TestTenant;
  /** Another tenant; the agents of the runners appear there too. */
  tenant(): Promise<TestTenant>;
  /** A key of a tenant with some scopes. */
  key(tenant: TestTenant, scopes: readonly ApiScope[]): Promise<string>;
  /** The LangGraph SDK with a key: the first tenant's, unless told otherwise. */
  client(key?: string): Client;
  /** A plain request with a key: the first tenant's, unless told otherwise. */
  fetch(path: string, init?: RequestInit & { readonly key?: string | null }): Promise<Response>;
  /** The URL of another plane on the same stores, which serves clients only. */
  replica(): Promise<string>;
  /** A runner of the operator's shared pool, which serves all tenants. */
  runner(agents: RunnerOptions["agents"], options?: { readonly capacity?: number }): Promise<Runner>;
  /** A token for runners of the shared pool. */
  runnerToken(kind?: string): Promise<string>;
  stop(): Promise<void>;
}

export async function startWorld(options: WorldOptions = {}): Promise<World> {
  const database = await testDatabase();
  const redis = options.redis ? await testRedis() : null;
  const others: RunningPlane[] = [];
  const config = readConfig(
    {},
    {
      databaseUrl: database.appUrl,
      sweeperDatabaseUrl: database.sweeperUrl,
      ...(redis ? { redisUrl: redis.url } : {}),
      rootKey: testRootKey,
      roles: ["api", "bridge", "worker"],
      port: 0,
      grpcPort: 0,
      logLevel: "silent",
      limits: { ...options.limits },
    },
  );
  const running = await compose(config, createLog("silent"));
  const { plane } = running;
  const url = running.http?.url as string;
  const grpcAddress = `127.0.0.1:${running.bridge?.port}`;
  const runners: Runner[] = [];
  let tenants = 0;

  const key = async (tenantId: TenantId, scopes: readonly ApiScope[]): Promise<string> =>
    (await createApiKey(plane.stores, testRootKey, systemScope(tenantId), { name: "test", scopes, expiresAt: null }))
      .text;
  const tenant = async (): Promise<TestTenant> => {
    tenants++;
    const { id } = await createTenant(plane.stores, { slug: `tenant-${tenants}`, name: `Tenant ${tenants}` });
    return { id, key: await key(id, ["runs:read", "runs:write"]) };
  };
  const runnerToken = async (kind = runnerKind): Promise<string> =>
    (
      await createRunnerToken(plane.stores, testRootKey, systemScope(operatorTenantId), {
        name: "test",
        kind,
        expiresAt: null,
      })
    ).text;

  const world: World = {
    url,
    grpcAddress,
    database,
    running,
    plane,
    home: await tenant(),
    tenant,
    key: (of, scopes) => key(of.id, scopes),
    client: (apiKey = world.home.key) => new Client({ apiUrl: url, apiKey, callerOptions: { maxRetries: 0 } }),
    fetch: (path, { key: given, headers, ...init } = {}) => {
      const all = new Headers(headers);
      const sent = given === undefined ? world.home.key : given;
      if (sent !== null) all.set("x-api-key", sent);
      return fetch(`${url}${path}`, { ...init, headers: all });
    },
    replica: async () => {
      const other = await compose({ ...config, roles: ["api"] }, createLog("silent"));
      others.push(other);
      return other.http?.url as string;
    },
    runner: async (agents, { capacity = 20 } = {}) => {
      const token = await runnerToken();
      const runner = createRunner({
        address: grpcAddress,
        token,
        kind: runnerKind,
        agents,
        capacity,
        logger: silentLogger,
      });
      runners.push(runner);
      await runner.start();
      return runner;
    },
    runnerToken,
    stop: async () => {
      await Promise.all(runners.map((runner) => runner.stop({ drainMs: 0 })));
      await Promise.all([running, ...others].map((one) => one.stop()));
      await redis?.stop();
      await database.drop();
    },
  };
  if (options.agents) {
    await world.runner(options.agents, options.capacity === undefined ? {} : { capacity: options.capacity });
  }
  return world;
}
