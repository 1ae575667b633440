import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { freePort } from "../../src/platform/free-port.js";
import { temporaryDirectory } from "../support/cluster.js";
import { endDev, type StartDev, startDev } from "../support/dev-process.js";
import { type EmptyDatabase, emptyDatabase } from "../support/postgres.js";

const AS_ROOT = process.geteuid?.() === 0;
const NOBODY = { uid: 65_534, gid: 65_534 };

let base: string;
let data: string;
let port: number;
let database: EmptyDatabase;

beforeAll(async () => {
  database = await emptyDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  base = temporaryDirectory();
  data = join(base, "data");
  port = await freePort();
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

/** What a start says that must not succeed. It says it without a stack, ends by itself, and leaves nothing running. */
async function refusal(options: Partial<StartDev> = {}): Promise<string> {
  const dev = startDev({ args: ["--port", String(port), "--data-dir", data, "--no-demo"], ...options });
  try {
    expect(await dev.ended).toEqual({ code: 1, signal: null });
    expect(dev.output()).not.toMatch(/^ +at /m);
    return dev.output().slice(dev.output().indexOf("fairlead dev:"));
  } finally {
    await endDev(dev);
  }
}

const onPort = (number: number | string) => ({ args: ["--port", String(number), "--data-dir", data, "--no-demo"] });

test("a port that another program holds is named at once, with one to take instead", async () => {
  const stranger = createServer();
  await new Promise<void>((resolve) => stranger.listen(port, "127.0.0.1", resolve));
  try {
    const said = await refusal();
    expect(said).toContain(`Port ${port} on 127.0.0.1 is in use by another program.`);
    expect(said).toMatch(/choose another port: npm start -- --port \d+/);
    expect(existsSync(join(data, "postgres"))).toBe(false);
  } finally {
    await closed(stranger);
  }
});

test.for([
  [["--port", "abc"], '--port: "abc" is not a port'],
  [["--port", "70000"], '--port: "70000" is not a port'],
  [["--data-dir", ""], "--data-dir: is empty"],
  [["--colour"], "Unknown option '--colour'"],
] as const)("options that cannot be understood are named: %j", async ([args, words]) => {
  expect(await refusal({ args })).toContain(words);
});

test("a data directory that is a file is refused with its name", async () => {
  writeFileSync(data, "");
  expect(await refusal()).toContain(`The data directory ${data} cannot be used (a file is in the way).`);
});

test("a second start on the same directory is told which process has it", async () => {
  const first = startDev({ ...onPort(port), env: { DATABASE_URL: database.adminUrl } });
  try {
    await first.ready(120_000);
    const said = await refusal(onPort(await freePort()));
    expect(said).toContain(`The data directory ${data} is in use by process ${first.child.pid}.`);
    expect(said).toContain("Stop it first, or choose another --data-dir.");
  } finally {
    await endDev(first);
  }
});

test("a DATABASE_URL is refused with what is wrong about it, and without its password", async () => {
  const nobodyListens = await freePort();
  const missing = new URL(database.adminUrl);
  missing.pathname = "/no_such_database";
  const wrongPassword = new URL(database.adminUrl);
  wrongPassword.password = "hunter2";
  const cases = [
    [
      `postgres://u:hunter2@127.0.0.1:${nobodyListens}/d`,
      `127.0.0.1:${nobodyListens}/d cannot be used: nothing listens`,
    ],
    ["postgres://u:hunter2@no-such-host.invalid/d", "no-such-host.invalid/d cannot be used: the host is unknown"],
    [missing.toString(), "/no_such_database cannot be used: there is no such database"],
    [wrongPassword.toString(), "cannot be used: user or password is wrong"],
    ["hunter2", "DATABASE_URL is not the URL of a PostgreSQL server"],
  ] as const;
  for (const [url, words] of cases) {
    const said = await refusal({ env: { DATABASE_URL: url } });
    expect(said).toContain(words);
    expect(said).not.toContain("hunter2");
  }
}, 60_000);

test("a REDIS_URL at which nothing listens is refused", async () => {
  const nobodyListens = await freePort();
  const env = { DATABASE_URL: database.adminUrl, REDIS_URL: `redis://:hunter2@127.0.0.1:${nobodyListens}` };
  const said = await refusal({ env });
  expect(said).toContain(`The Redis 127.0.0.1:${nobodyListens} of REDIS_URL cannot be used: nothing listens there.`);
  expect(said).not.toContain("hunter2");
});

test("--redis without a Redis on the PATH says what to install", async () => {
  const env = { DATABASE_URL: database.adminUrl, PATH: "/nowhere" };
  const said = await refusal({ args: [...onPort(port).args, "--redis"], env });
  expect(said).toContain("Neither redis-server nor valkey-server is on the PATH.");
});

test("a broken dev.json is put aside, and the start makes new keys", async () => {
  mkdirSync(data);
  chmodSync(data, 0o755);
  writeFileSync(join(data, "dev.json"), '{"url": ');
  const dev = startDev({ ...onPort(port), env: { DATABASE_URL: database.adminUrl } });
  try {
    await dev.ready(120_000);
    expect(dev.output()).toMatch(
      /dev\.json cannot be understood \(.+\): it is now .+dev\.json\.broken, and new keys are made/,
    );
    expect(existsSync(join(data, "dev.json.broken"))).toBe(true);
  } finally {
    await endDev(dev);
  }
});

test("a root key that was cut short is refused before anything is hashed with it", async () => {
  mkdirSync(data);
  writeFileSync(join(data, "root-key"), "short\n");
  expect(await refusal()).toMatch(/The root key in .+root-key is too short/);
});

test.runIf(AS_ROOT)(
  "as root, a parent that the server's user cannot enter is named, with the command that opens it",
  async () => {
    chmodSync(base, 0o700);
    const said = await refusal();
    expect(said).toContain(`cannot enter ${base} on the way to ${data}/postgres`);
    expect(said).toContain(`Run chmod o+x ${base}, or choose another --data-dir`);
  },
);

test.runIf(AS_ROOT)("a directory in which this user may not write is refused", async () => {
  expect(await refusal({ as: NOBODY })).toContain(`The data directory ${data} cannot be used (EACCES).`);
});

test.runIf(AS_ROOT)(
  "an ordinary user starts everything without root, also after root has",
  async () => {
    mkdirSync(data);
    chownSync(data, NOBODY.uid, NOBODY.gid);
    const env = { DATABASE_URL: database.adminUrl };
    for (const as of [{ uid: 0, gid: 0 }, NOBODY]) {
      const dev = startDev({ ...onPort(port), env, as });
      try {
        await dev.ready(120_000);
      } finally {
        await endDev(dev);
      }
    }
    expect(existsSync(join(data, "dev.json"))).toBe(true);
  },
  60_000,
);

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
