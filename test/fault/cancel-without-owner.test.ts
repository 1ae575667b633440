import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Outcome, ReportVerdict, type RunRef } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { type ProtocolClient, protocolClient } from "../support/protocol-client.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

const leaseMs = 1_500;

let database: TestDatabase;
let world: TestTenants;
const acknowledged: RunName[] = [];
const started: TestProcess[] = [];
const open: RawRunner[] = [];

const keep = <Started extends TestProcess>(process: Started): Started => {
  started.push(process);
  return process;
};

interface Row {
  readonly status: string;
  readonly fence: number;
  readonly attempt: number;
  readonly isAsked: boolean;
}

function rowOf(runId: string): Promise<Row> {
  return withAdmin(database.adminUrl, async (admin) => {
    const { rows } = await admin.query<Row>(
      `select status, fence, attempt, cancel_requested_at is not null as "isAsked" from run where id = $1`,
      [runId],
    );
    return rows[0]!;
  });
}

beforeAll(async () => {
  database = await testDatabase();
  world = await makeTenants(database.appUrl, ["acme"]);
}, 120_000);
afterAll(async () => {
  for (const one of open) one.close();
  await Promise.all(started.map((process) => process.end()));
  await database?.drop();
});

describe("a cancel of a run whose runner is gone", () => {
  let plane: PlaneProcess;
  let client: ProtocolClient;

  beforeAll(async () => {
    // The lease must end the wait, not the patience with a runner that does not heed.
    const env = { FAIRLEAD_CANCEL_GRACE_MS: "10000" };
    plane = keep(await startPlane({ database, ports: await planePorts(), env }));
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
  }, 60_000);
  afterAll(() => plane?.end());

  /** A run behind its second event, on a runner of its own. */
  async function underWay(): Promise<{ runner: TestProcess; threadId: string; runId: string; path: string }> {
    const runner = keep(await startRunner({ address: plane.grpcAddress, token: world.sharedToken }));
    const { body: thread } = await client.json<{ thread_id: string }>("POST", "/threads", {});
    const stream = await client.stream("POST", `/threads/${thread.thread_id}/runs/stream`, {
      assistant_id: "count",
      input: { events: 4, hangAfter: 2 },
      stream_mode: ["custom"],
    });
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: stream.runId });
    await until("two events were seen", () => stream.frames.filter((frame) => frame.event === "custom").length === 2);
    const path = `/threads/${thread.thread_id}/runs/${stream.runId}`;
    return { runner, threadId: thread.thread_id, runId: stream.runId, path };
  }

  const statusAt = async (path: string): Promise<string> =>
    (await client.json<{ status: string }>("GET", path)).body.status;

  async function isFreeAgain(threadId: string, runId: string): Promise<void> {
    const before = await rowOf(runId);
    const runner = keep(await startRunner({ address: plane.grpcAddress, token: world.sharedToken }));
    const next = await client.json<{ run_id: string }>("POST", `/threads/${threadId}/runs`, {
      assistant_id: "count",
      input: { events: 1 },
      multitask_strategy: "reject",
    });
    expect(next.status).toBe(200);
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: next.body.run_id });
    expect((await client.json("GET", `/threads/${threadId}/runs/${next.body.run_id}/join`)).body).toMatchObject({
      counted: 1,
    });
    // The next runner was there for a whole run of another, and was not given this one.
    expect(await rowOf(runId)).toEqual(before);
    await runner.end();
  }

  test.each([
    ["was killed", "SIGKILL"],
    ["stands still with its connection open", "SIGSTOP"],
  ] as const)(
    "because it %s: asked for before the lease is over, it ends run and thread within lease + 2 s, and nobody is given the run again (F014)",
    async (_how, signal) => {
      const { runner, threadId, runId, path } = await underWay();
      runner.kill(signal);
      const since = performance.now();
      const cancel = await client.json("POST", `${path}/cancel?wait=1`);
      expect(cancel.status).toBe(204);
      expect(await statusAt(path)).toBe("interrupted");
      expect(await statusAt(`/threads/${threadId}`)).toBe("idle");
      expect(performance.now() - since).toBeLessThan(leaseMs + 2_000);
      expect(await rowOf(runId)).toMatchObject({ status: "cancelled", attempt: 1 });
      await runner.end();
      await isFreeAgain(threadId, runId);
    },
    60_000,
  );

  test("and that was taken back already ends run and thread at once, and nobody is given the run again (F014)", async () => {
    const { runner, threadId, runId, path } = await underWay();
    runner.kill("SIGKILL");
    await until("the run was taken back", async () => (await rowOf(runId)).status === "pending");
    expect((await client.json("POST", `${path}/cancel`)).status).toBe(204);
    expect(await statusAt(path)).toBe("interrupted");
    expect(await statusAt(`/threads/${threadId}`)).toBe("idle");
    await isFreeAgain(threadId, runId);
  }, 60_000);
});

describe("a cancel whose order does not get through", () => {
  let plane: PlaneProcess;
  let client: ProtocolClient;
  let runner: RawRunner;

  beforeAll(async () => {
    const env = { FAIRLEAD_CANCEL_GRACE_MS: "60000", FAIRLEAD_CANCEL_WAIT_MS: "8000" };
    plane = keep(await startPlane({ database, ports: await planePorts(), env }));
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
    // It never opens an event stream: on it, too, a runner is told to stop.
    runner = rawRunner({ address: plane.grpcAddress, token: world.sharedToken, graphs: ["deaf"] });
    open.push(runner);
    await runner.getJob({ waitMs: 0 });
  }, 60_000);

  async function cancelled(): Promise<{ run: RunRef; path: string; answer: () => number | undefined; stop(): void }> {
    const { body } = await client.json<{ run_id: string; thread_id: string }>("POST", "/runs", {
      assistant_id: "deaf",
      input: {},
      on_completion: "keep",
    });
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: body.run_id });
    const run = (await runner.take()).run!;
    const stop = await runner.keepAlive(run);
    let status: number | undefined;
    const path = `/threads/${body.thread_id}/runs/${body.run_id}`;
    void client.json("POST", `${path}/cancel?wait=1`).then((answer) => {
      status = answer.status;
    });
    await until("the wish is written down", async () => (await rowOf(run.runId)).isAsked);
    return { run, path, answer: () => status, stop };
  }
  const statusAt = async (path: string): Promise<string> =>
    (await client.json<{ status: string }>("GET", path)).body.status;
  const endOf = async (run: RunRef): Promise<void> => {
    expect(await runner.report({ run, outcome: Outcome.OUTCOME_CANCELLED, events: 0 })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
    ]);
  };

  test("arrives when the runner watches again; until the run has ended, who waits for it is not answered (F015)", async () => {
    const { run, path, answer, stop } = await cancelled();
    const since = performance.now();
    await until("two leases have passed", () => performance.now() - since > 2 * leaseMs);
    expect(answer()).toBeUndefined();
    expect(await statusAt(path)).toBe("running");

    const watch = runner.watchCancels();
    await until("the order has arrived", () => watch.told.length > 0, 5_000);
    expect(watch.told).toEqual([run]);
    expect(answer()).toBeUndefined();
    await endOf(run);
    expect(await until("the cancel is answered", answer, 5_000)).toBe(204);
    expect(await statusAt(path)).toBe("interrupted");
    watch.call.cancel();
    stop();
  }, 60_000);

  test("arrives with the next heartbeat when the runner never watches again (F015)", async () => {
    const { run, path, answer, stop } = await cancelled();
    expect(await runner.heartbeat(run)).toMatchObject([{ cancel: true, superseded: false }]);
    // It is said again until it is heeded.
    expect(await runner.heartbeat(run)).toMatchObject([{ cancel: true, superseded: false }]);
    expect(answer()).toBeUndefined();
    await endOf(run);
    expect(await until("the cancel is answered", answer, 5_000)).toBe(204);
    expect(await statusAt(path)).toBe("interrupted");
    stop();
  }, 60_000);

  test("is answered as not done when the time to wait is over, and is done later (F015)", async () => {
    const { run, path, answer, stop } = await cancelled();
    expect(await until("the cancel is answered", answer, 20_000)).toBe(504);
    expect(await statusAt(path)).toBe("running");
    const watch = runner.watchCancels();
    await until("the order has arrived", () => watch.told.length > 0, 5_000);
    await endOf(run);
    expect(await statusAt(path)).toBe("interrupted");
    watch.call.cancel();
    stop();
  }, 60_000);
});

test("leaves the database in order", async () => {
  const audit = await auditDatabase(database.adminUrl, acknowledged);
  expect(audit.complaints).toEqual([]);
  expect(audit.counts.acknowledged).toBe(9);
});
