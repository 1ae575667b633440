import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane } from "../support/processes.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

// A LangGraph.js graph behind the built runner command, killed in the middle of each of its nodes: the next runner continues from the last checkpoint.

const cli = fileURLToPath(new URL("../../runners/typescript/dist/cli.js", import.meta.url));
const file = fileURLToPath(new URL("../fixtures/langgraph/steps.mjs", import.meta.url));
const nodes = ["one", "two", "three", "inner1", "inner2", "five"] as const;

let database: TestDatabase;
let plane: PlaneProcess;
let world: TestTenants;
let directory: string;
const runners: ChildProcess[] = [];
const acknowledged: RunName[] = [];

function startRunner(): ChildProcess {
  const config = join(directory, "runner.json");
  writeFileSync(config, JSON.stringify({ kind: "typescript", capacity: 20, agents: { steps: `${file}:graph` } }));
  const child = spawn(process.execPath, [cli, "--config", config], {
    env: {
      PATH: process.env["PATH"] ?? "",
      FAIRLEAD_RUNNER_ADDRESS: plane.grpcAddress,
      FAIRLEAD_RUNNER_TOKEN: world.sharedToken,
    },
    stdio: "ignore",
  });
  runners.push(child);
  return child;
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "fairlead-steps-"));
  database = await testDatabase();
  world = await makeTenants(database.appUrl, ["acme"]);
  plane = await startPlane({ database, ports: await planePorts() });
}, 120_000);
afterAll(async () => {
  for (const runner of runners) runner.kill("SIGKILL");
  await plane?.end();
  await database?.drop();
  rmSync(directory, { recursive: true, force: true });
});

test("a graph whose runner is killed inside any of its nodes goes on from its last checkpoint: what was done is not done again", async () => {
  const tenant = world.tenants[0]!;
  const client = new Client({ apiUrl: plane.url, apiKey: tenant.apiKey });
  const first = startRunner();
  await until("the graph is listed", async () => (await client.assistants.search({ graphId: "steps" })).length === 1);

  const runs = await Promise.all(
    nodes.map(async (hangIn) => {
      const log = join(directory, `${hangIn}.log`);
      const { thread_id: threadId } = await client.threads.create();
      const { run_id: runId } = await client.runs.create(threadId, "steps", { input: { log, hangIn } });
      acknowledged.push({ tenantId: tenant.id, runId });
      return { hangIn, log, threadId, runId };
    }),
  );
  const begun = (log: string): string[] => readFileSync(log, { encoding: "utf8", flag: "a+" }).trim().split("\n");
  for (const { hangIn, log } of runs) {
    await until(`node ${hangIn} stands still`, () => Promise.resolve(begun(log).at(-1) === hangIn));
  }
  // The last checkpoint before each standing node is with the plane.
  for (const { hangIn, threadId } of runs) {
    const before = nodes.indexOf(hangIn);
    await until(`what was done before ${hangIn} is stored`, async () => {
      const { done } = (await client.threads.getState<{ done?: string[] }>(threadId)).values;
      return (done ?? []).length >= Math.min(before, 3);
    });
  }
  first.kill("SIGKILL");
  startRunner();

  for (const { hangIn, log, threadId, runId } of runs) {
    const values = (await client.runs.join(threadId, runId)) as { done: string[] };
    expect([hangIn, values.done]).toEqual([hangIn, [...nodes]]);
    // Only the node that the crash interrupted began twice.
    expect([hangIn, begun(log)]).toEqual([hangIn, nodes.flatMap((node) => (node === hangIn ? [node, node] : [node]))]);
    const history = await client.threads.getHistory<{ done: string[] }>(threadId, { limit: 50 });
    expect(history[0]?.next).toEqual([]);
  }
}, 120_000);

test("and the database is in order", async () => {
  const audit = await auditDatabase(database.adminUrl, acknowledged);
  expect(audit.complaints).toEqual([]);
});
