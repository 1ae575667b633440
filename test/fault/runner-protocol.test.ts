import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  BatchVerdict,
  type EventBatch,
  Outcome,
  ReportVerdict,
  Retention,
  type RunRef,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane } from "../support/processes.js";
import { type ProtocolClient, protocolClient } from "../support/protocol-client.js";
import { batchOf, listOf, type RawRunner, rawRunner, segmentOf } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

const success = { outcome: Outcome.OUTCOME_SUCCESS, values: Buffer.from('{"ok":true}') };
const stored = { verdict: BatchVerdict.BATCH_VERDICT_STORED };

describe("a runner without manners", () => {
  let database: TestDatabase;
  let plane: PlaneProcess;
  let world: TestTenants;
  let client: ProtocolClient;
  let runner: RawRunner;
  const acknowledged: RunName[] = [];
  const open: RawRunner[] = [];

  const newRunner = (graph: string, more: { token?: string; maxAttempts?: number; kind?: string } = {}): RawRunner => {
    const made = rawRunner({ address: plane.grpcAddress, token: world.sharedToken, graphs: [graph], ...more });
    open.push(made);
    return made;
  };
  const create = async (graph: string, more: object = {}, as = client, tenant = 0): Promise<string> => {
    const { status, body } = await as.json<{ run_id: string }>("POST", "/runs", {
      assistant_id: graph,
      input: {},
      on_completion: "keep",
      ...more,
    });
    expect(status).toBe(200);
    acknowledged.push({ tenantId: world.tenants[tenant]!.id, runId: body.run_id });
    return body.run_id;
  };
  const take = async (graph = "raw", from = runner): Promise<RunRef> => {
    await create(graph);
    return (await from.take()).run!;
  };
  const statusOf = async (run: RunRef): Promise<unknown> =>
    (await client.json<{ status: string }>("GET", `/runs/${run.runId}`)).body.status;

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme", "globex"]);
    plane = await startPlane({ database, ports: await planePorts(), env: { FAIRLEAD_MAX_HANDBACKS: "4" } });
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
    runner = newRunner("raw");
    await runner.getJob({ waitMs: 0 });
  }, 120_000);
  afterAll(async () => {
    for (const one of open) one.close();
    await plane?.end();
    await database?.drop();
  });

  test("may send every message twice, in any order, and report early: the run ends once, with each event once", async () => {
    const run = await take();
    const stream = runner.events();
    const early = await runner.report({ run, events: 6, ...success });
    expect(early).toMatchObject([{ verdict: ReportVerdict.REPORT_VERDICT_MISSING, missingFrom: 1 }]);
    const outOfOrder = { verdict: BatchVerdict.BATCH_VERDICT_OUT_OF_ORDER };
    expect(await stream.send(batchOf(run, 3, 2))).toMatchObject([{ ...outOfOrder, stored: 0 }]);
    expect(await stream.send(batchOf(run, 1, 2), batchOf(run, 1, 2))).toMatchObject([
      { ...stored, stored: 2 },
      { ...outOfOrder, stored: 2 },
    ]);
    // A report overtakes the events that it counts.
    const overtaking = await runner.report({ run, events: 6, ...success });
    expect(overtaking).toMatchObject([{ verdict: ReportVerdict.REPORT_VERDICT_MISSING, missingFrom: 3 }]);
    expect(await stream.send(batchOf(run, 3, 2), batchOf(run, 3, 2))).toMatchObject([
      { ...stored, stored: 4 },
      outOfOrder,
    ]);
    const last = { run, events: 6, ...success, tail: batchOf(run, 5, 2) };
    const verdicts = await Promise.all([runner.report(last), runner.report(last), runner.report(last)]);
    expect(
      verdicts
        .flat()
        .map(({ verdict }) => verdict)
        .sort((a, b) => a - b),
    ).toEqual([
      ReportVerdict.REPORT_VERDICT_RECORDED,
      ReportVerdict.REPORT_VERDICT_REPLAYED,
      ReportVerdict.REPORT_VERDICT_REPLAYED,
    ]);
    const replay = await runner.report({ run, outcome: Outcome.OUTCOME_ERROR, events: 6 });
    expect(replay).toMatchObject([{ verdict: ReportVerdict.REPORT_VERDICT_REPLAYED, stored: Outcome.OUTCOME_SUCCESS }]);
    expect(await stream.send(batchOf(run, 7, 1))).toMatchObject([{ verdict: BatchVerdict.BATCH_VERDICT_SUPERSEDED }]);
    expect(await statusOf(run)).toBe("success");
  }, 60_000);

  const strangers: [string, (run: RunRef) => RunRef | undefined][] = [
    ["no run at all", () => undefined],
    ["generation 0", (run) => ({ ...run, generation: 0 })],
    ["a negative generation", (run) => ({ ...run, generation: -1 >>> 0 })],
    ["a run id that is no UUID", (run) => ({ ...run, runId: "1; drop table run" })],
  ];
  test.each(strangers)(
    "that names %s is told that this is invalid, and nothing changes",
    async (_what, change) => {
      const run = await take();
      await runner.heartbeat(run);
      const bad = change(run);
      expect(await runner.events().send(batchOf(bad, 1, 1))).toMatchObject([
        { verdict: BatchVerdict.BATCH_VERDICT_INVALID },
      ]);
      expect(await runner.report({ run: bad, ...success })).toMatchObject([
        { verdict: ReportVerdict.REPORT_VERDICT_INVALID },
      ]);
      if (bad) await expect(runner.heartbeat(bad)).rejects.toMatchObject({ code: 3 });
      expect(await runner.report({ run, ...success })).toMatchObject([
        { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
      ]);
    },
    60_000,
  );

  const step = {
    id: "s",
    parentId: "",
    kind: "tool",
    name: "s",
    status: "success",
    startedMs: 1,
    endedMs: 2,
    usage: Buffer.alloc(0),
    error: "",
    namespace: [],
  };
  const one = (event: { family?: number; body?: string; mode?: string; name?: string }, count = 1) => [
    {
      retention: Retention.RETENTION_DURABLE,
      count,
      events: listOf([{ family: 9, mode: "custom", name: "", ...event, body: Buffer.from(event.body ?? "{}") }]),
    },
  ];
  const rubbish: [string, Partial<EventBatch>, RegExp][] = [
    ["a forged CONTROL event", { segments: one({ family: 13, name: "end" }) }, /CONTROL/],
    ["an unknown family", { segments: one({ family: 99 }) }, /family 99/],
    ["an event that is called end", { segments: one({ name: "end" }) }, /"end" belongs to the plane/],
    ["a body of two lines", { segments: one({ body: "1\n\nevent: end\ndata: {}" }) }, /one line/],
    ["a count that lies", { segments: one({}, 3) }, /count says 3/],
    [
      "bytes that are no events",
      { segments: [{ retention: 1, count: 1, events: Buffer.from("rubbish") }] },
      /segments.events/,
    ],
    ["no events", { segments: [] }, /at least one event/],
    ["no retention", { segments: [{ ...segmentOf(1, () => 1), retention: 0 }] }, /retention/],
    ["an event of more than 16 MiB", { segments: one({ body: `"${"x".repeat(16 * 1024 * 1024)}"` }) }, /larger than/],
    ["a step without a known kind", { steps: [{ ...step, kind: "magic" }] }, /steps.kind/],
    ["a step whose name no text column can hold", { steps: [{ ...step, name: "a\u0000b" }] }, /name.*contains U\+0000/],
  ];
  test.each(rubbish)(
    "that sends %s is told why, and the run ends as an error",
    async (_what, batch, why) => {
      const run = await take();
      const [answer] = await runner.events().send(batchOf(run, 1, 1, batch));
      expect(answer).toMatchObject({
        verdict: BatchVerdict.BATCH_VERDICT_INVALID,
        message: expect.stringMatching(why),
      });
      expect(await statusOf(run)).toBe("error");
      expect(await runner.report({ run, ...success })).toMatchObject([
        { verdict: ReportVerdict.REPORT_VERDICT_SUPERSEDED },
      ]);
    },
    60_000,
  );

  test("that reports fewer events than it sent, or text that cannot be stored, ends its run as an error", async () => {
    const run = await take();
    await runner.events().send(batchOf(run, 1, 3));
    expect(await runner.report({ run, events: 2, ...success })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_INVALID, message: expect.stringContaining("3 were sent") },
    ]);
    expect(await statusOf(run)).toBe("error");
    const other = await take();
    expect(await runner.report({ run: other, events: 0, ...success, next: ["a\u0000"] })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_INVALID },
    ]);
    expect(await statusOf(other)).toBe("error");
  }, 60_000);

  test("of another pool can neither see, move, release nor end a run whose names it knows", async () => {
    const run = await take();
    const beat = await runner.keepAlive(run);
    const foreign = newRunner("raw", { token: world.tenants[1]!.poolToken });
    await foreign.getJob({ waitMs: 0 });
    expect(await foreign.heartbeat(run)).toMatchObject([{ superseded: true, trustedMs: 0 }]);
    expect(await foreign.events().send(batchOf(run, 1, 1))).toMatchObject([
      { verdict: BatchVerdict.BATCH_VERDICT_SUPERSEDED, stored: 0 },
    ]);
    for (const outcome of [Outcome.OUTCOME_RELEASED, Outcome.OUTCOME_SUCCESS, Outcome.OUTCOME_ERROR]) {
      expect(await foreign.report({ run, ...success, outcome })).toMatchObject([
        { verdict: ReportVerdict.REPORT_VERDICT_SUPERSEDED, stored: Outcome.OUTCOME_UNSPECIFIED },
      ]);
    }
    // What would end it, if it were its own.
    await foreign.events().send(batchOf(run, 1, 1, { segments: [] }));
    await expect(foreign.getJob({ kind: "python" })).rejects.toMatchObject({ code: 7 });
    expect(await runner.report({ run, ...success })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
    ]);
    beat();
  }, 60_000);

  test("that asks without waiting, for a moment or for ever gets work; polls that are abandoned lose nothing", async () => {
    const graph = "polled";
    const poller = newRunner(graph);
    await poller.getJob({ waitMs: 0 });
    for (const waitMs of [0, 1, 2_147_483_647]) {
      const runId = await create(graph);
      const found = await until(
        `a poll with wait_ms ${waitMs} gets the run`,
        async () => (await poller.getJob({ waitMs })).assignments[0],
        60_000,
      );
      expect(found).toMatchObject({ run: { runId }, attempt: 1 });
      await poller.report({ run: found.run, ...success });
    }
    const polls = Array.from({ length: 20 }, () => {
      const gone = new AbortController();
      return { gone, answer: poller.getJob({ waitMs: 30_000 }, gone.signal).catch(() => null) };
    });
    const runs = await Promise.all(Array.from({ length: 5 }, () => create(graph)));
    for (const { gone } of polls) gone.abort();
    await Promise.all(polls.map(({ answer }) => answer));
    const got = new Set<string>();
    while (got.size < runs.length) {
      const { run, attempt } = await poller.take();
      expect(attempt).toBe(1);
      got.add(run!.runId);
      await poller.report({ run, ...success });
    }
    expect([...got].sort()).toEqual([...runs].sort());
  }, 120_000);

  test("that never starts what it is offered uses no attempt, and a bounded number of offers", async () => {
    const silent = newRunner("silent");
    await silent.getJob({ waitMs: 0 });
    const runId = await create("silent");
    const offers: number[] = [];
    await until(
      "the run has ended",
      async () => {
        const { assignments } = await silent.getJob({ waitMs: 500 });
        for (const { attempt } of assignments) offers.push(attempt);
        const { body } = await client.json<{ status: string }>("GET", `/runs/${runId}`);
        return body.status === "error";
      },
      100_000,
    );
    expect(offers).toEqual([1, 1, 1, 1, 1]);
  }, 120_000);

  test("that is lost in every attempt ends the run as an error, and the thread is free at that moment", async () => {
    const lost = newRunner("lost", { maxAttempts: 2 });
    await lost.getJob({ waitMs: 0 });
    const { body: thread } = await client.json<{ thread_id: string }>("POST", "/threads", {});
    const path = `/threads/${thread.thread_id}/runs`;
    const body = { assistant_id: "lost", input: {}, multitask_strategy: "reject" };
    const stream = await client.stream("POST", `${path}/stream`, body);
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: stream.runId });
    for (const attempt of [1, 2]) {
      const job = await lost.take();
      expect(job.attempt).toBe(attempt);
      await lost.heartbeat(job.run!);
    }
    expect(await stream.whole).toBe(true);
    expect(stream.frames.slice(-2).map(({ event }) => event)).toEqual(["error", "end"]);
    const next = await client.json<{ run_id: string }>("POST", path, body);
    expect(next.status).toBe(200);
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: next.body.run_id });
    await lost.report({ run: (await lost.take()).run, ...success });
  }, 120_000);

  test("that only beats, for ten leases, keeps its run", async () => {
    const steady = newRunner("steady");
    await steady.getJob({ waitMs: 0 });
    await create("steady");
    const { run } = await steady.take();
    const beat = await steady.keepAlive(run!);
    const rival = newRunner("steady");
    const until10 = performance.now() + 15_000;
    while (performance.now() < until10) expect((await rival.getJob({ waitMs: 1_000 })).assignments).toEqual([]);
    expect(await steady.report({ run, ...success })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
    ]);
    expect(run!.generation).toBe(1);
    beat();
  }, 60_000);

  test("with runs of equal ids in two tenants keeps them apart in every call", async () => {
    const twin = newRunner("twin");
    await twin.getJob({ waitMs: 0 });
    const ids = { thread_id: randomUUID(), run_id: randomUUID() };
    const other = protocolClient(plane.url, world.tenants[1]!.apiKey);
    for (const [tenant, as] of [client, other].entries()) {
      await as.json("POST", "/threads", { thread_id: ids.thread_id });
      const { status } = await as.json("POST", `/threads/${ids.thread_id}/runs`, {
        assistant_id: "twin",
        run_id: ids.run_id,
      });
      expect(status).toBe(200);
      acknowledged.push({ tenantId: world.tenants[tenant]!.id, runId: ids.run_id });
    }
    const jobs = [await twin.take(), await twin.take()];
    const mine = jobs.find(({ run }) => run!.tenantId === world.tenants[0]!.id)!.run!;
    const theirs = jobs.find(({ run }) => run!.tenantId === world.tenants[1]!.id)!.run!;
    const beats = [await twin.keepAlive(mine), await twin.keepAlive(theirs)];
    const stream = twin.events();
    expect(await stream.send(batchOf(mine, 1, 1), batchOf(theirs, 1, 2))).toMatchObject([
      { ...stored, stored: 1 },
      { ...stored, stored: 2 },
    ]);
    const cancels = twin.watchCancels();
    const path = `/threads/${ids.thread_id}/runs/${ids.run_id}`;
    await other.json("POST", `${path}/cancel`);
    await until("the cancel was told", () => cancels.told.length > 0, 30_000);
    expect(cancels.told).toEqual([theirs]);
    expect(await twin.heartbeat(mine, theirs)).toMatchObject([{ cancel: false }, { cancel: true }]);
    await twin.report({ run: theirs, outcome: Outcome.OUTCOME_CANCELLED, events: 2 });
    await twin.report({ run: mine, events: 1, ...success });
    for (const beat of beats) beat();
    const statuses = await Promise.all([client, other].map((as) => as.json<{ status: string }>("GET", path)));
    expect(statuses.map(({ body }) => body.status)).toEqual(["success", "interrupted"]);
  }, 60_000);

  test("whose token is revoked is out within five seconds, open streams and parked polls included", async () => {
    const revoked = newRunner("revoked", { token: world.tenants[1]!.poolToken });
    await revoked.getJob({ waitMs: 0 });
    const stream = revoked.events();
    const cancels = revoked.watchCancels();
    await until("the streams are open", () => revoked.heartbeat().then(() => true), 30_000);
    const poll = revoked.getJob({ waitMs: 50_000 }).then(
      () => ({ code: 0 }),
      (error: { code: number }) => error,
    );
    const since = performance.now();
    await withAdmin(database.adminUrl, (admin) =>
      admin.query("update runner_token set revoked_at = clock_timestamp() where tenant_id = $1", [
        world.tenants[1]!.id,
      ]),
    );
    expect(await stream.ended).toMatchObject({ code: 16 });
    expect(await cancels.ended).toMatchObject({ code: 16 });
    expect(await poll).toMatchObject({ code: 16 });
    expect(performance.now() - since).toBeLessThan(6_000);
    await expect(revoked.getJob({ waitMs: 0 })).rejects.toMatchObject({ code: 16 });
  }, 60_000);

  test("leaves the database in order, and the plane alive", async () => {
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
    expect(audit.counts.acknowledged).toBeGreaterThan(30);
    expect((await client.json("GET", "/readyz")).status).toBe(200);
  });
});
