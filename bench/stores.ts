import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { startChild } from "./child.js";
import { built, temporaryFolder } from "./place.js";

interface EmbeddedPostgresModule {
  startEmbeddedPostgres(options: {
    directory: string;
    settings: Record<string, string>;
    log: (line: string) => void;
  }): Promise<{ url: string; pid: number; stop(): Promise<void> }>;
}

export interface Stores {
  /** Superuser, database postgres. */
  readonly adminUrl: string;
  readonly redisUrl: string;
  readonly postgresPid: number;
  readonly redisPid: number;
  readonly redisVersion: string;
  /** An empty database of a fresh name: the superuser's URL of it. */
  emptyDatabase(): Promise<string>;
  stop(): Promise<void>;
}

/** A PostgreSQL that keeps its promises (fsync on) and a Redis that keeps nothing, both fresh. */
export async function startStores({ inner }: { inner: boolean }): Promise<Stores> {
  const folder = temporaryFolder("stores");
  const { startEmbeddedPostgres } = await built<EmbeddedPostgresModule>("platform/embedded-postgres.js");
  const { freePort } = await built<{ freePort(): Promise<number> }>("platform/free-port.js");
  const postgres = await startEmbeddedPostgres({
    directory: join(folder, "postgres"),
    settings: {
      fsync: "on",
      synchronous_commit: "on",
      shared_buffers: "256MB",
      max_wal_size: "4GB",
      shared_preload_libraries: "pg_stat_statements",
      // What runs inside of functions costs 5 % more to count; only a profile asks for it.
      "pg_stat_statements.track": inner ? "all" : "top",
      track_io_timing: "off",
    },
    log: () => {},
  });
  const redisPort = await freePort();
  const redis = startChild("redis-server", [
    "--port",
    String(redisPort),
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
  ]);
  const [, redisVersion = "unknown"] = await redis.line(/Redis version=([\d.]+)[\s\S]*Ready to accept connections/);
  return {
    adminUrl: postgres.url,
    redisUrl: `redis://127.0.0.1:${redisPort}`,
    postgresPid: postgres.pid,
    redisPid: redis.pid,
    redisVersion,
    emptyDatabase: async () => {
      const name = `bench_${randomBytes(4).toString("hex")}`;
      await query(postgres.url, `create database ${name}`);
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      return url.toString();
    },
    stop: async () => {
      await redis.stop();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** One statement on a connection of its own. */
export async function query<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}
