import { afterAll, beforeAll, expect, test } from "vitest";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import {
  type PlanePorts,
  type PlaneProcess,
  planePorts,
  startPlane,
  startRunner,
  type TestProcess,
} from "../support/processes.js";
import { protocolClient } from "../support/protocol-client.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

// Long enough that a new run has ended before the old ones may be taken back, on a busy machine too.
const leaseMs = 6_000;
// A tenant whose dead runs were counted could start nothing else.
const env = { FAIRLEAD_LEASE_MS: String(leaseMs), FAIRLEAD_ADMISSION_WINDOW: "1" };

let database: TestDatabase;
let world: TestTenants;
let ports: PlanePorts;
let plane: PlaneProcess;
let runner: TestProcess;

beforeAll(async () => {
  database = await testDatabase();
  world = await makeTenants(database.appUrl, ["acme"]);
  ports = await planePorts();
  plane = await startPlane({ database, ports, env });
  runner = await startRunner({ address: plane.grpcAddress, token: world.sharedToken });
}, 120_000);
afterAll(async () => {
  await Promise.all([runner, plane].map((process) => process?.end()));
  await database?.drop();
});

interface Row {
  readonly id: string;
  readonly status: string;
  readonly fence: number;
  readonly attempt: number;
  readonly isGhost: boolean;
}

function rows(): Promise<Row[]> {
  return withAdmin(database.adminUrl, async (admin) => {
    const found = await admin.query<Row>(
      `select id, status, fence, attempt, status = 'running' and lease_until < clock_timestamp() as "isGhost" from run`,
    );
    return found.rows;
  });
}

test("runs whose plane and runner die in the same second hold up no new run, and are given out again, each with its next fence (F001)", async () => {
  const client = protocolClient(plane.url, world.tenants[0]!.apiKey);
  const acknowledged: RunName[] = [];
  const remember = (runId: string): void => {
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId });
  };
  const old = await Promise.all(
    [1, 2].map(() =>
      client.stream("POST", "/runs/stream", {
        assistant_id: "count",
        input: { events: 6, hangAfter: 3 },
        stream_mode: ["custom"],
        on_completion: "keep",
      }),
    ),
  );
  for (const { runId } of old) remember(runId);
  for (const { frames } of old)
    await until("three events were seen", () => frames.filter((frame) => frame.event === "custom").length === 3);

  plane.kill("SIGKILL");
  runner.kill("SIGKILL");
  await Promise.all([plane.ended, runner.ended]);
  plane = await startPlane({ database, ports, env });
  const since = performance.now();
  runner = await startRunner({ address: plane.grpcAddress, token: world.sharedToken });
  expect((await client.json("GET", "/readyz")).status).toBe(200);

  const fresh = await client.stream("POST", "/runs/stream", {
    assistant_id: "count",
    input: { events: 1 },
    stream_mode: ["custom"],
    on_completion: "keep",
  });
  remember(fresh.runId);
  expect(await fresh.whole).toBe(true);
  const atItsEnd = await rows();
  expect(atItsEnd.find((row) => row.id === fresh.runId)).toMatchObject({ status: "success", fence: 1, attempt: 1 });
  for (const { runId } of old)
    expect(atItsEnd.find((row) => row.id === runId)).toMatchObject({ status: "running", fence: 1 });

  await until("every old run has ended", async () => {
    const now = await rows();
    if (performance.now() - since > 2 * leaseMs) expect(now.filter((row) => row.isGhost)).toEqual([]);
    return now.every((row) => row.status === "success");
  });
  expect(performance.now() - since).toBeLessThan(3 * leaseMs);
  for (const { runId } of old) {
    // Claimed, taken away, claimed again.
    expect((await rows()).find((row) => row.id === runId)).toMatchObject({ attempt: 2, fence: 3 });
    expect((await client.json("GET", `/runs/${runId}/join`)).body).toMatchObject({ counted: 6, attempt: 2 });
  }
  const audit = await auditDatabase(database.adminUrl, acknowledged);
  expect(audit.complaints).toEqual([]);
}, 120_000);
