import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BatchVerdict, Outcome, ReportVerdict } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { type ProtocolClient, protocolClient } from "../support/protocol-client.js";
import { batchOf, rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

describe("a runner that was stopped for longer than its lease", () => {
  let database: TestDatabase;
  let plane: PlaneProcess;
  let world: TestTenants;
  let client: ProtocolClient;
  const started: TestProcess[] = [];
  const acknowledged: RunName[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme"]);
    plane = await startPlane({ database, ports: await planePorts() });
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
  }, 120_000);
  afterAll(async () => {
    await Promise.all([...started, plane].map((process) => process?.end()));
    await database?.drop();
  });

  test("changes nothing when it wakes, stops by itself, and serves again; clients see the fresh result alone", async () => {
    const frozen = await startRunner({ address: plane.grpcAddress, token: world.sharedToken });
    started.push(frozen);
    const { body: thread } = await client.json<{ thread_id: string }>("POST", "/threads", {});
    const stream = await client.stream("POST", `/threads/${thread.thread_id}/runs/stream`, {
      assistant_id: "count",
      input: { events: 6, hangAfter: 3 },
      stream_mode: ["custom", "values"],
    });
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: stream.runId });
    const path = `/threads/${thread.thread_id}/runs/${stream.runId}`;
    const joined = await client.stream("GET", `${path}/stream`);
    const waiter = client.json<{ counted: number; attempt: number }>("GET", `${path}/join`);
    const custom = () => stream.frames.filter((frame) => frame.event === "custom").length;
    await until("three events were seen", () => custom() === 3, 60_000);

    frozen.kill("SIGSTOP");
    const second = await startRunner({ address: plane.grpcAddress, token: world.sharedToken });
    started.push(second);
    expect(await stream.whole).toBe(true);
    frozen.kill("SIGCONT");

    // By its own clock, or by word of the plane, whichever it gets to first.
    await until(
      "the woken runner says that it stops",
      () => /held by another runner|lease ended/.test(frozen.output()),
      60_000,
    );
    const outcome = await waiter;
    expect(outcome.body).toMatchObject({ counted: 6, attempt: 2 });
    expect(await joined.whole).toBe(true);
    for (const frames of [stream.frames, joined.frames]) {
      const attempts = frames.filter((f) => f.event === "custom").map((f) => JSON.parse(f.data).attempt as number);
      expect(attempts).toEqual([1, 1, 1, 2, 2, 2, 2, 2, 2]);
      expect(frames.filter((frame) => frame.event === "end")).toHaveLength(1);
    }
    // Alone again, it takes new work.
    await second.end();
    const { body } = await client.json("POST", "/runs/wait", { assistant_id: "count", input: { events: 1 } });
    expect(body).toMatchObject({ counted: 1 });
    await frozen.end();
  }, 120_000);

  test("is refused on every call that names its lease: heartbeat, events with checkpoints and steps, reports", async () => {
    const old = rawRunner({ address: plane.grpcAddress, token: world.sharedToken, graphs: ["zombie"] });
    await old.getJob({ waitMs: 0 });
    const { body: thread } = await client.json<{ thread_id: string }>("POST", "/threads", {});
    const { body: run } = await client.json<{ run_id: string }>("POST", `/threads/${thread.thread_id}/runs`, {
      assistant_id: "zombie",
      input: {},
    });
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: run.run_id });
    const first = (await old.take()).run!;
    const stream = old.events();
    expect(await stream.send(batchOf(first, 1, 2))).toMatchObject([{ verdict: BatchVerdict.BATCH_VERDICT_STORED }]);

    // It falls silent. Its connection stays open, so only the missing heartbeats end the lease.
    const fresh = rawRunner({ address: plane.grpcAddress, token: world.sharedToken, graphs: ["zombie"] });
    const second = await fresh.take();
    expect(second.attempt).toBe(2);
    expect(second.run!.generation).toBeGreaterThan(first.generation);
    const stopBeating = await fresh.keepAlive(second.run!);
    const before = await snapshot(database.adminUrl, run.run_id);

    expect(await old.heartbeat(first)).toMatchObject([{ superseded: true, trustedMs: 0 }]);
    const checkpoint = {
      namespace: "",
      id: "1ef-stale",
      parentId: "",
      lineage: "raw/json",
      schemaVersion: 1,
      step: 1,
      head: Buffer.from("{}"),
      metadata: Buffer.from("{}"),
      channels: [],
      view: Buffer.from('{"values":{"stale":true}}'),
      writes: [],
    };
    const step = {
      id: "stale",
      parentId: "",
      kind: "tool",
      name: "stale",
      status: "success",
      startedMs: 1,
      endedMs: 2,
      usage: Buffer.alloc(0),
      error: "",
      namespace: [],
    };
    const stale = batchOf(first, 3, 1, { checkpoints: [checkpoint], steps: [step] });
    expect(await stream.send(stale)).toMatchObject([{ verdict: BatchVerdict.BATCH_VERDICT_SUPERSEDED }]);
    const outcomes = [
      Outcome.OUTCOME_SUCCESS,
      Outcome.OUTCOME_ERROR,
      Outcome.OUTCOME_CANCELLED,
      Outcome.OUTCOME_RELEASED,
    ];
    for (const outcome of outcomes) {
      const values = Buffer.from('{"stale":true}');
      expect(await old.report({ run: first, outcome, events: 3, tail: stale, values })).toMatchObject([
        { verdict: ReportVerdict.REPORT_VERDICT_SUPERSEDED },
      ]);
    }
    expect(await snapshot(database.adminUrl, run.run_id)).toEqual(before);

    const values = Buffer.from('{"fresh":true}');
    expect(await fresh.report({ run: second.run, outcome: Outcome.OUTCOME_SUCCESS, events: 0, values })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
    ]);
    stopBeating();
    const { body } = await client.json("GET", `/threads/${thread.thread_id}/runs/${run.run_id}/join`);
    expect(body).toEqual({ fresh: true });
    old.close();
    fresh.close();
  }, 120_000);

  test("leaves the database in order", async () => {
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
    expect(audit.counts.acknowledged).toBe(2);
  });
});

/** Everything of a run that a late message could have touched. */
function snapshot(adminUrl: string, runId: string): Promise<unknown> {
  return withAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query(
      `select r.status, r.fence, r.attempt, r.last_seq, r.source_seq, r.values, r.confirmed,
         (select count(*)::int from run_event e where e.tenant_id = r.tenant_id and e.run_id = r.id) as chunks,
         (select count(*)::int from checkpoint c where c.tenant_id = r.tenant_id and c.thread_id = r.thread_id) as checkpoints,
         (select count(*)::int from step s where s.tenant_id = r.tenant_id and s.run_id = r.id) as steps
       from run r where r.id = $1`,
      [runId],
    );
    return rows;
  });
}
