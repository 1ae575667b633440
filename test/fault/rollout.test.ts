import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BatchVerdict, Outcome, ReportVerdict } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { protocolClient } from "../support/protocol-client.js";
import { batchOf, rawRunner } from "../support/raw-runner.js";
import { startTcpProxy } from "../support/tcp-proxy.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

describe("orderly stops, replicas and rotating connections", () => {
  let database: TestDatabase;
  let world: TestTenants;
  let started: TestProcess[] = [];
  let acknowledged: RunName[] = [];

  const keep = <Started extends TestProcess>(process: Started): Started => {
    started.push(process);
    return process;
  };
  const rowOf = (runId: string): Promise<{ status: string; attempt: number; fence: number; source: number }> =>
    withAdmin(database.adminUrl, async (admin) => {
      const { rows } = await admin.query(
        "select status, attempt, fence, source_seq::int as source from run where id = $1",
        [runId],
      );
      return rows[0];
    });
  const create = async (plane: PlaneProcess, body: object): Promise<string> => {
    const client = protocolClient(plane.url, world.tenants[0]!.apiKey);
    const answer = await client.json<{ run_id: string }>("POST", "/runs", { on_completion: "keep", ...body });
    expect(answer.status).toBe(200);
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: answer.body.run_id });
    return answer.body.run_id;
  };

  beforeEach(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme"]);
    started = [];
    acknowledged = [];
  }, 60_000);
  afterEach(async () => {
    await Promise.all(started.map((process) => process.end()));
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    await database.drop();
    expect(audit.complaints).toEqual([]);
  });

  test("a run that three rollouts of planes and runners pass over ends well, in its first attempt", async () => {
    const ports = await planePorts();
    // One plane alone is away for as long as its restart takes, and a lease must outlast that; with the short lease it would be a lost runner.
    const env = { FAIRLEAD_LEASE_MS: "10000" };
    let plane = keep(await startPlane({ database, ports, env }));
    let runner = keep(await startRunner({ address: plane.grpcAddress, token: world.sharedToken }));
    const runId = await create(plane, { assistant_id: "brittle", input: { events: 80, everyMs: 250 } });
    for (let rollout = 1; rollout <= 3; rollout++) {
      const { fence } = await rowOf(runId);
      await until(
        "the run is under way",
        async () => {
          const row = await rowOf(runId);
          // Behind its first heartbeat: before, there is only the offer, which is shorter than a restart.
          return row.status === "running" && row.fence >= fence && row.source > 4;
        },
        60_000,
      );
      plane.kill("SIGTERM");
      expect(await plane.ended).toEqual({ code: 0, signal: null });
      plane = keep(await startPlane({ database, ports, env }));
      const before = (await rowOf(runId)).fence;
      runner.kill("SIGTERM");
      expect(await runner.ended).toEqual({ code: 0, signal: null });
      await until("the run was given back", async () => (await rowOf(runId)).fence > before, 60_000);
      runner = keep(await startRunner({ address: plane.grpcAddress, token: world.sharedToken }));
    }
    await until("the run has ended", async () => !/pending|running/.test((await rowOf(runId)).status), 60_000);
    expect(await rowOf(runId)).toMatchObject({ status: "success", attempt: 1 });
  }, 180_000);

  test("a run that was taken through one replica is carried on and ended through another, in its first lease", async () => {
    const one = keep(await startPlane({ database, ports: await planePorts() }));
    const two = keep(await startPlane({ database, ports: await planePorts() }));
    const first = rawRunner({ address: one.grpcAddress, token: world.sharedToken });
    const second = rawRunner({ address: two.grpcAddress, token: world.sharedToken, runnerId: first.runnerId });
    await first.getJob({ waitMs: 0 });
    await second.getJob({ waitMs: 0 });
    const runId = await create(one, { assistant_id: "raw", input: {} });
    const { run } = await first.take();
    const beat = await second.keepAlive(run!);
    const cancels = second.watchCancels();
    const stream = second.events();
    expect(await stream.send(batchOf(run, 1, 2))).toMatchObject([{ verdict: BatchVerdict.BATCH_VERDICT_STORED }]);
    one.kill("SIGKILL");
    await one.ended;
    const since = performance.now();
    await until("three leases have passed", () => performance.now() - since > 4_500, 60_000);
    // A cancel that is asked for at the other replica reaches its holder here.
    const client = protocolClient(two.url, world.tenants[0]!.apiKey);
    await client.json("POST", `/runs/${runId}/cancel`);
    await until("the holder was told", () => cancels.told.length > 0, 30_000);
    expect(await second.report({ run, outcome: Outcome.OUTCOME_CANCELLED, events: 2 })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
    ]);
    expect(await rowOf(runId)).toMatchObject({ status: "cancelled", attempt: 1, fence: 1 });
    beat();
    first.close();
    second.close();
  }, 120_000);

  test("runs whose runner's connections are all cut every 300 ms go on: nothing is taken over, lost or doubled, cancels arrive", async () => {
    const plane = keep(await startPlane({ database, ports: await planePorts() }));
    const proxy = await startTcpProxy({ host: "127.0.0.1", port: Number(plane.grpcAddress.split(":")[1]) });
    keep(await startRunner({ address: `127.0.0.1:${proxy.port}`, token: world.sharedToken, capacity: 20 }));
    const client = protocolClient(plane.url, world.tenants[0]!.apiKey);
    const cutter = setInterval(proxy.cut, 300);
    try {
      const streams = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          client.stream("POST", "/runs/stream", {
            assistant_id: "count",
            // The last two go on until they are told to stop.
            input: n < 6 ? { events: 40, everyMs: 50 } : { events: 1, holdMs: 600_000 },
            stream_mode: ["custom"],
            on_completion: "keep",
          }),
        ),
      );
      for (const { runId } of streams) acknowledged.push({ tenantId: world.tenants[0]!.id, runId });
      for (const stream of streams.slice(6)) {
        await until("it is under way", () => stream.frames.some((frame) => frame.event === "custom"), 60_000);
        const { status } = await client.json("POST", `/runs/${stream.runId}/cancel?wait=1`);
        expect(status).toBe(204);
        expect(await rowOf(stream.runId)).toMatchObject({ status: "cancelled", attempt: 1 });
      }
      for (const stream of streams.slice(0, 6)) {
        expect(await stream.whole).toBe(true);
        const numbers = stream.frames.filter((f) => f.event === "custom").map((f) => JSON.parse(f.data).n as number);
        expect(numbers).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
        expect(await rowOf(stream.runId)).toMatchObject({ status: "success", attempt: 1 });
      }
    } finally {
      clearInterval(cutter);
      await proxy.stop();
    }
  }, 180_000);
});
