import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../../src/platform/wait-for.js";
import { auditDatabase } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";

// The first proof of the whole: an unmodified SDK from the registry, the built server, and runner processes of which one dies.

const EVENTS = 20;
const HALF = 10;

let database: TestDatabase;
let world: TestTenants;
let plane: PlaneProcess;
const runners: TestProcess[] = [];

beforeAll(async () => {
  database = await testDatabase();
  world = await makeTenants(database.appUrl, ["acme"]);
  plane = await startPlane({ database, ports: await planePorts() });
}, 120_000);
afterAll(async () => {
  for (const runner of runners) await runner.end();
  await plane?.end();
  await database?.drop();
});

async function oneMoreRunner(): Promise<TestProcess> {
  const runner = await startRunner({ address: plane.grpcAddress, token: world.sharedToken });
  runners.push(runner);
  return runner;
}

interface Received {
  readonly id?: string;
  readonly event: string;
  readonly data: unknown;
}

test("when a runner is killed half-way, the client's open stream goes on with the same run, which another runner finishes", async () => {
  const tenant = world.tenants[0]!;
  const first = await oneMoreRunner();
  const client = new Client({ apiUrl: plane.url, apiKey: tenant.apiKey });
  const { thread_id: threadId } = await client.threads.create();
  const created: string[] = [];
  const received: Received[] = [];
  const reading = (async () => {
    const stream = client.runs.stream(threadId, "count", {
      input: { events: EVENTS, hangAfter: HALF },
      streamMode: ["custom", "values"],
      onRunCreated: ({ run_id }) => created.push(run_id),
    });
    for await (const event of stream) received.push(event as Received);
  })();
  const customs = () => received.filter(({ event }) => event === "custom");
  expect(await waitFor(() => customs().length === HALF, 60_000)).toBe(true);

  first.kill("SIGKILL");
  await first.ended;
  const second = await oneMoreRunner();
  await reading;

  const [runId] = created;
  expect(created).toEqual([runId]);
  // Attempts are announced in the stream, and both belong to the one run.
  const announced = received.filter(({ event }) => event === "metadata").map(({ data }) => data);
  expect(announced).toEqual([1, 2].map((attempt) => ({ run_id: runId, thread_id: threadId, attempt })));
  // Nothing lost, nothing doubled: each attempt's events come once, in order, and no number twice. The audit below looks for gaps in the log, which
  // also holds events that this stream did not ask for.
  const counted = (attempt: number, of: TestProcess, upTo: number) =>
    Array.from({ length: upTo }, (_, at) => ({ n: at + 1, attempt, of: of.pid }));
  expect(customs().map(({ data }) => data)).toEqual([...counted(1, first, HALF), ...counted(2, second, EVENTS)]);
  const ids = received.map(({ id }) => Number(id));
  expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
  expect(received.filter(({ event }) => event === "end")).toHaveLength(1);
  expect(received.at(-1)).toMatchObject({ event: "end", data: { status: "success" } });

  const run = await client.runs.get(threadId, runId as string);
  expect(run).toMatchObject({ run_id: runId, status: "success" });
  expect(await client.runs.join(threadId, runId as string)).toMatchObject({ counted: EVENTS, attempt: 2 });
  const audit = await auditDatabase(database.adminUrl, [{ tenantId: tenant.id, runId: runId as string }]);
  expect(audit.complaints).toEqual([]);
  expect(audit.counts).toMatchObject({ runs: 1, final: 1, lost: 0, doubled: 0, gaps: 0 });
}, 180_000);
