import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/platform/embedded-postgres.js";
import { findRedis } from "../../src/platform/embedded-redis.js";
import { freePort } from "../../src/platform/free-port.js";
import { isAlive } from "../../src/platform/postmaster.js";
import { temporaryDirectory } from "./cluster.js";
import { until } from "./until.js";

// Servers of one test file's own, which are stopped, killed and started again under the same URL.

/** `fast` cuts the sessions and writes everything down; `immediate` is a crash, after which the server recovers from its log. */
export type PostgresStop = "fast" | "immediate";

export interface RestartablePostgres {
  /** Superuser, database postgres. */
  readonly adminUrl: string;
  stop(how: PostgresStop): Promise<void>;
  /** Resolves once it accepts logins again. */
  start(): Promise<void>;
  remove(): Promise<void>;
}

export async function restartablePostgres(): Promise<RestartablePostgres> {
  const directory = temporaryDirectory();
  const port = await freePort();
  const launch = (): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({
      directory: join(directory, "postgres"),
      port,
      // What has gone to the operating system survives a crash of the server; no power is cut here.
      settings: { fsync: "off", max_connections: "100", shared_buffers: "64MB" },
      log: () => {},
    });
  let server: EmbeddedPostgres | undefined;
  const stop = async (how: PostgresStop): Promise<void> => {
    const { pid } = server as EmbeddedPostgres;
    if (how === "immediate") {
      process.kill(pid, "SIGQUIT");
      await until("the server has crashed", () => !isAlive(pid), 30_000);
    }
    await server?.stop();
    server = undefined;
  };
  const remove = async (): Promise<void> => {
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    server = await launch();
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    adminUrl: server.url,
    stop,
    start: async () => {
      server = await launch();
    },
    remove,
  };
}

export interface RestartableRedis {
  readonly url: string;
  /** Stands still with its connections open, until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** With SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** Starts it empty; resolves once it answers. */
  start(): Promise<void>;
  /** A connection to the server as it runs now. */
  ask<Answer>(question: (redis: Redis) => Promise<Answer>): Promise<Answer>;
  remove(): Promise<void>;
}

export async function restartableRedis(): Promise<RestartableRedis> {
  const directory = temporaryDirectory();
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  const file = join(directory, "redis", "redis.conf");
  mkdirSync(join(directory, "redis"));
  const lines = ["bind 127.0.0.1", `port ${port}`, 'save ""', "appendonly no", `dir ${join(directory, "redis")}`];
  writeFileSync(file, `${lines.join("\n")}\n`);
  chmodSync(file, 0o644);
  let server: ChildProcess | undefined;

  const ask = async <Answer>(question: (redis: Redis) => Promise<Answer>): Promise<Answer> => {
    const redis = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => null });
    redis.on("error", () => {});
    try {
      return await question(redis);
    } finally {
      redis.disconnect();
    }
  };
  const endWithUs = (): void => void server?.kill("SIGKILL");
  process.once("exit", endWithUs);
  const start = async (): Promise<void> => {
    server = spawn(findRedis() as string, [file], { stdio: "ignore" });
    await until("Redis answers", () => ask((redis) => redis.ping()).catch(() => false), 20_000);
  };
  const kill = async (): Promise<void> => {
    const child = server;
    server = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise<void>((resolve) => child.once("close", () => resolve()));
    child.kill("SIGKILL");
    await gone;
  };
  await start();
  return {
    url,
    freeze: () => void server?.kill("SIGSTOP"),
    thaw: () => void server?.kill("SIGCONT"),
    kill,
    start,
    ask,
    remove: async () => {
      process.off("exit", endWithUs);
      await kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
