import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findEmbeddedPostgres, startEmbeddedPostgres } from "../../src/platform/embedded-postgres.js";
import { endPostmaster, isAlive } from "../../src/platform/postmaster.js";

/** Debian's PostgreSQL 15, the oldest version that is supported. */
export const POSTGRES_15 = "/usr/lib/postgresql/15/bin";

const PREFIX = "fairlead-test-";

export interface TestCluster {
  /** Superuser, database postgres. */
  readonly adminUrl: string;
  stop(): Promise<void>;
}

/** A server of our own in a temporary directory, quick and forgetful: what a power cut would do to it is not tested. */
export async function startCluster(binaries?: string): Promise<TestCluster> {
  const directory = temporaryDirectory();
  try {
    const server = await startEmbeddedPostgres({
      directory: join(directory, "postgres"),
      ...(binaries === undefined ? {} : { binaries }),
      settings: { fsync: "off", full_page_writes: "off", max_connections: "300", shared_buffers: "128MB" },
      log: () => {},
    });
    const stop = async () => {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    };
    return { adminUrl: server.url, stop };
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}

/** Everybody may pass, because as root the server runs as another user. The name tells whose it is. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  chmodSync(directory, 0o755);
  return directory;
}

/** Ends and removes what test runs that were killed have left behind. */
export async function removeLeftovers(): Promise<void> {
  for (const name of readdirSync(tmpdir()).filter((one) => one.startsWith(PREFIX))) {
    const pid = Number.parseInt(name.slice(PREFIX.length), 10);
    if (Number.isNaN(pid) || isAlive(pid)) continue;
    const directory = join(tmpdir(), name);
    const servers = [directory, ...readdirSync(directory).map((below) => join(directory, below))];
    for (const below of servers.filter((one) => existsSync(join(one, "data")))) {
      const server = findEmbeddedPostgres(below);
      if (server !== undefined) await endPostmaster(server.pid, join(below, "data"));
    }
    rmSync(directory, { recursive: true, force: true });
  }
}
