import { randomBytes } from "node:crypto";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { type Child, runChild, startChild } from "./child.js";
import { benchFolder, built, root } from "./place.js";
import { query, type Stores } from "./stores.js";
import type { Audit, System } from "./system.js";

export type AgentSet = "bare" | "graph";

export interface PlaneOptions {
  readonly agents: AgentSet;
  /** Ways of waking; all by default. */
  readonly dispatch?: string;
  /** Where BullMQ and the news between processes live. */
  readonly backend?: "redis" | "postgres";
  /** Runner processes. */
  readonly runners?: number;
  /** Extra arguments of node for the plane and for the runner, for profiles. */
  readonly planeFlags?: readonly string[];
  readonly runnerFlags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface PlaneSystem extends System {
  readonly adminUrl: string;
  readonly grpcAddress: string;
  readonly runnerToken: string;
  readonly kind: string;
  readonly plane: Child;
  readonly runners: readonly Child[];
  /** Milliseconds from the start of the plane's process. */
  readonly startedMs: { readonly ready: number; readonly runner: number };
}

interface Logins {
  readonly appUrl: string;
  readonly sweeperUrl: string;
  readonly queueUrl: string;
}

const rootKey = randomBytes(32).toString("hex");
const kind = "bench";

/** The built plane with its runners, on a fresh database. */
export async function startPlane(stores: Stores, options: PlaneOptions): Promise<PlaneSystem> {
  const adminUrl = await stores.emptyDatabase();
  const logins = await loginsOf(adminUrl);
  await runChild(process.execPath, [join(root, "dist/main.js"), "migrate"], {
    DATABASE_ADMIN_URL: adminUrl,
    DATABASE_URL: logins.appUrl,
    SWEEPER_DATABASE_URL: logins.sweeperUrl,
    QUEUE_DATABASE_URL: logins.queueUrl,
  });
  await query(adminUrl, "create extension if not exists pg_stat_statements");
  const { freePort } = await built<{ freePort(): Promise<number> }>("platform/free-port.js");
  const [port, grpcPort] = [await freePort(), await freePort()];
  const credentials = await makeCredentials(logins);
  const startedAt = performance.now();
  const plane = startChild(process.execPath, [...(options.planeFlags ?? []), join(root, "dist/main.js"), "serve"], {
    env: {
      DATABASE_URL: logins.appUrl,
      SWEEPER_DATABASE_URL: logins.sweeperUrl,
      ...(options.backend === "postgres" ? { QUEUE_DATABASE_URL: logins.queueUrl } : { REDIS_URL: stores.redisUrl }),
      FAIRLEAD_ROOT_KEY: rootKey,
      FAIRLEAD_PORT: String(port),
      FAIRLEAD_GRPC_PORT: String(grpcPort),
      FAIRLEAD_LOG_LEVEL: "warn",
      ...(options.dispatch ? { FAIRLEAD_DISPATCH: options.dispatch } : {}),
      ...options.env,
    },
  });
  await plane.line(/Fairlead serves/);
  const ready = performance.now() - startedAt;
  const grpcAddress = `127.0.0.1:${grpcPort}`;
  installRunnerSdk();
  const runners: Child[] = [];
  for (let n = 0; n < (options.runners ?? 1); n++) {
    runners.push(
      startChild(process.execPath, [...(options.runnerFlags ?? []), join(benchFolder, "agents/runner.mjs")], {
        env: {
          RUNNER_ADDRESS: grpcAddress,
          RUNNER_TOKEN: credentials.runnerToken,
          RUNNER_KIND: kind,
          RUNNER_AGENTS: options.agents,
          LANGSMITH_TRACING: "false",
        },
      }),
    );
  }
  await Promise.all(runners.map((runner) => runner.line(/ready/)));
  const runner = performance.now() - startedAt;
  return {
    name: `fairlead ${options.agents}`,
    url: `http://127.0.0.1:${port}`,
    headers: { "x-api-key": credentials.apiKey },
    groups: {
      plane: [plane.pid],
      postgres: [stores.postgresPid],
      redis: [stores.redisPid],
      runner: runners.map((one) => one.pid),
    },
    adminUrl,
    grpcAddress,
    runnerToken: credentials.runnerToken,
    kind,
    plane,
    runners,
    startedMs: { ready: Math.round(ready), runner: Math.round(runner) },
    audit: () => audit(adminUrl),
    stop: async () => {
      await Promise.all(runners.map((one) => one.stop()));
      await plane.stop();
      await query(stores.adminUrl, `drop database ${new URL(adminUrl).pathname.slice(1)} with (force)`);
    },
  };
}

/** As a project has it that depends on the SDK: a copy, which finds the project's own LangChain. A link would find the one of this checkout. */
function installRunnerSdk(): void {
  for (const part of ["package.json", "dist"])
    cpSync(join(root, "runners/typescript", part), join(benchFolder, "node_modules/@fairlead/runner", part), {
      recursive: true,
    });
}

async function loginsOf(adminUrl: string): Promise<Logins> {
  const { withCredentials } = await built<{ withCredentials(url: string, user: string, password: string): string }>(
    "store/roles.js",
  );
  const login = (user: string): string => withCredentials(adminUrl, `fairlead_bench_${user}`, "fairlead-bench");
  return { appUrl: login("app"), sweeperUrl: login("sweeper"), queueUrl: login("queue") };
}

interface BuiltStores {
  close(): Promise<void>;
}

/** A tenant with its key, and a token of the shared pool, through the built modules that the commands use too. */
async function makeCredentials(logins: Logins): Promise<{ apiKey: string; runnerToken: string }> {
  const { openStores } = await built<{ openStores(url: string, sweeperUrl: string, log: unknown): BuiltStores }>(
    "store/client.js",
  );
  const { createLog } = await built<{ createLog(level: string): unknown }>("platform/log.js");
  const { createTenant } = await built<{
    createTenant(stores: BuiltStores, input: { slug: string; name: string }): Promise<{ id: string }>;
  }>("catalog/edit-tenants.js");
  const { createApiKey } = await built<{
    createApiKey(stores: BuiltStores, rootKey: string, scope: unknown, input: object): Promise<{ text: string }>;
  }>("governance/edit-api-keys.js");
  const { createRunnerToken } = await built<{
    createRunnerToken(stores: BuiltStores, rootKey: string, scope: unknown, input: object): Promise<{ text: string }>;
  }>("governance/edit-runner-tokens.js");
  const { systemScope } = await built<{ systemScope(tenantId: string): unknown }>("domain/scope.js");
  const { operatorTenantId } = await built<{ operatorTenantId: string }>("domain/ids.js");
  const stores = openStores(logins.appUrl, logins.sweeperUrl, createLog("silent"));
  try {
    const tenant = await createTenant(stores, { slug: "bench", name: "Bench" });
    const key = await createApiKey(stores, rootKey, systemScope(tenant.id), {
      name: "bench",
      scopes: ["runs:read", "runs:write"],
      expiresAt: null,
    });
    const token = await createRunnerToken(stores, rootKey, systemScope(operatorTenantId), {
      name: "bench",
      kind,
      expiresAt: null,
    });
    return { apiKey: key.text, runnerToken: token.text };
  } finally {
    await stores.close();
  }
}

const STUCK_MS = 10_000;
const AUDIT_EVERY_MS = 200;

/** Runs that nobody waits for end after the load does: they have as long as they get fewer. */
async function audit(adminUrl: string): Promise<Audit> {
  let found = await countRuns(adminUrl);
  for (let stuckMs = 0; found.notFinal > 0 && stuckMs < STUCK_MS; ) {
    await new Promise((resolve) => setTimeout(resolve, AUDIT_EVERY_MS));
    const now = await countRuns(adminUrl);
    stuckMs = now.notFinal < found.notFinal ? 0 : stuckMs + AUDIT_EVERY_MS;
    found = now;
  }
  return found;
}

async function countRuns(adminUrl: string): Promise<Audit> {
  const [row] = await query<{ total: number; success: number; open: number; repeated: number }>(
    adminUrl,
    `select count(*)::int as total, count(*) filter (where status = 'success')::int as success,
      count(*) filter (where status in ('pending', 'running'))::int as open, count(*) filter (where attempt > 1 or fence > 1)::int as repeated from run`,
  );
  return { total: row?.total ?? 0, success: row?.success ?? 0, notFinal: row?.open ?? 0, repeated: row?.repeated ?? 0 };
}
