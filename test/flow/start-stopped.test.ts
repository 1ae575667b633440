import { rmSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { freePort, isFree } from "../../src/platform/free-port.js";
import { waitFor } from "../../src/platform/wait-for.js";
import { temporaryDirectory } from "../support/cluster.js";
import { type DevProcess, endDev, post, readDevFile, startDev, stillAlive } from "../support/dev-process.js";
import { type EmptyDatabase, emptyDatabase } from "../support/postgres.js";

let base: string;
let data: string;
let port: number;
let dev: DevProcess | undefined;
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
afterEach(async () => {
  if (dev !== undefined) await endDev(dev);
  dev = undefined;
  rmSync(base, { recursive: true, force: true });
});

function start(env: Record<string, string> = {}, args: string[] = []): DevProcess {
  dev = startDev({ args: ["--port", String(port), "--data-dir", data, ...args], env });
  return dev;
}

test.for([
  "Starting PostgreSQL",
  "Creating a PostgreSQL",
  "Migrating",
  "Starting the plane",
  "Starting the sample runner",
  "A first run",
])(
  'Ctrl-C while it says "%s" ends everything within seconds, and the next start succeeds',
  { timeout: 120_000 },
  async (words) => {
    const interrupted = start();
    await interrupted.says(words);
    const processes = interrupted.descendants();
    const pressedAt = performance.now();
    interrupted.interrupt();
    expect(await interrupted.ended).toEqual({ code: 0, signal: null });
    expect(performance.now() - pressedAt).toBeLessThan(15_000);
    expect(interrupted.output()).toMatch(/Stopping …[\s\S]*Stopped\./);
    expect(stillAlive(processes)).toEqual([]);
    expect(await isFree(port)).toBe(true);

    await start({}, ["--no-demo"]).ready(120_000);
  },
);

test("a plane on DATABASE_URL connects as its own roles, never as the owner who migrated", async () => {
  await start({ DATABASE_URL: database.adminUrl }, ["--no-demo"]).ready(120_000);
  const admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  try {
    const { rows } = await admin.query<{ who: string; super: boolean; bypass: boolean }>(
      `select distinct usename::text as who, rolsuper as super, rolbypassrls as bypass from pg_stat_activity join pg_roles on rolname = usename
        where datname = current_database() and pid <> pg_backend_pid()`,
    );
    const own = ["app", "queue", "sweeper"].map((part) => `${database.name}_${part}`);
    expect(rows.map(({ who }) => who)).toContain(own[0]);
    expect(rows.filter(({ who }) => !own.includes(who))).toEqual([]);
    expect(rows.filter((row) => row.super || row.bypass)).toEqual([]);
  } finally {
    await admin.end();
  }
}, 120_000);

test("a sample runner that is killed is started again, and runs go on", async () => {
  const running = start({ DATABASE_URL: database.adminUrl }, ["--no-demo"]);
  await running.ready(120_000);
  const [runner] = running.descendants();
  expect(running.descendants()).toHaveLength(1);
  process.kill(runner as number, "SIGKILL");
  await running.says("The sample runner was ended by SIGKILL; starting it again");
  expect(await waitFor(() => running.descendants().some((pid) => pid !== runner), 30_000)).toBe(true);

  const { url, tenants } = readDevFile(data);
  const input = { messages: [{ role: "user", content: "still there?" }] };
  const answer = await post(`${url}/runs/wait`, tenants[0]?.apiKey ?? "", { assistant_id: "echo", input });
  expect(JSON.parse(answer.text)).toMatchObject({ messages: [{}, { content: "still there?" }] });
}, 120_000);
