import { once } from "node:events";
import { connect, type Http2Session } from "node:http2";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Outcome, ReportVerdict } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { type ProtocolClient, protocolClient } from "../support/protocol-client.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { startTcpProxy } from "../support/tcp-proxy.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

const pingMs = 1_000;
const pingTimeoutMs = 500;
/** Until people can read it: one look of the plane, and some time for a busy machine. */
const notedWithinMs = 3_000;

const success = { outcome: Outcome.OUTCOME_SUCCESS, events: 0, values: Buffer.from('{"ok":true}') };

describe("the connections of runners", () => {
  let database: TestDatabase;
  let world: TestTenants;
  let plane: PlaneProcess;
  let client: ProtocolClient;
  const acknowledged: RunName[] = [];
  const open: RawRunner[] = [];
  const started: TestProcess[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme"]);
    const env = {
      FAIRLEAD_RUNNER_PING_MS: String(pingMs),
      FAIRLEAD_RUNNER_PING_TIMEOUT_MS: String(pingTimeoutMs),
    };
    plane = await startPlane({ database, ports: await planePorts(), env });
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
  }, 120_000);
  afterAll(async () => {
    for (const one of open) one.close();
    await Promise.all([...started, plane].map((process) => process?.end()));
    await database?.drop();
  });

  const newRunner = (graph: string, more: { address?: string; pingEveryMs?: number } = {}): RawRunner => {
    const made = rawRunner({
      address: plane.grpcAddress,
      token: world.tenants[0]!.poolToken,
      graphs: [graph],
      ...more,
    });
    open.push(made);
    return made;
  };
  const create = async (graph: string, input: object = {}): Promise<{ runId: string; path: string }> => {
    const { status, body } = await client.json<{ run_id: string; thread_id: string }>("POST", "/runs", {
      assistant_id: graph,
      input,
      on_completion: "keep",
    });
    expect(status).toBe(200);
    acknowledged.push({ tenantId: world.tenants[0]!.id, runId: body.run_id });
    return { runId: body.run_id, path: `/threads/${body.thread_id}/runs/${body.run_id}` };
  };
  /** As the list of connected runners shows it. */
  const shownAs = (runnerId: string, status: string): Promise<boolean> =>
    withAdmin(database.adminUrl, async (admin) => {
      const { rows } = await admin.query("select status from runner where id = $1", [runnerId]);
      return rows[0]?.status === status;
    });

  test("are dropped, with all that waits on them, when the peer answers no ping in time; it comes back by connecting again (F044)", async () => {
    const proxy = await startTcpProxy({ host: "127.0.0.1", port: Number(plane.grpcAddress.split(":")[1]) });
    const silent = newRunner("swallowed", { address: `127.0.0.1:${proxy.port}` });
    await silent.getJob({ waitMs: 0 });
    const events = silent.events();
    const cancels = silent.watchCancels();
    const poll = silent.getJob({ waitMs: 30_000, freeSlots: 10 }).catch(() => undefined);
    await until("it is shown as connected", () => shownAs(silent.runnerId, "ready"));

    proxy.stall();
    const since = performance.now();
    await until("it is shown as gone", () => shownAs(silent.runnerId, "gone"));
    expect(performance.now() - since).toBeLessThan(pingMs + pingTimeoutMs + notedWithinMs);

    // Its poll is gone with it: whoever is there is given the run, in its first offer.
    const other = newRunner("swallowed");
    await other.getJob({ waitMs: 0 });
    await create("swallowed");
    const job = await other.take();
    expect(job).toMatchObject({ attempt: 1, run: { generation: 1 } });
    await other.report({ run: job.run, ...success });

    proxy.heal();
    expect(await events.ended).not.toMatchObject({ code: 0 });
    expect(await cancels.ended).not.toMatchObject({ code: 0 });
    await poll;
    const { runId } = await create("swallowed");
    const again = await silent.take();
    expect(again.run).toMatchObject({ runId, generation: 1 });
    expect(await silent.report({ run: again.run, ...success })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_RECORDED },
    ]);
    await proxy.stop();
  }, 60_000);

  test("that fall silent while a run is on its way to them lose no run and use up no attempt (F044)", async () => {
    const proxy = await startTcpProxy({ host: "127.0.0.1", port: Number(plane.grpcAddress.split(":")[1]) });
    const silent = newRunner("unheard", { address: `127.0.0.1:${proxy.port}` });
    await silent.getJob({ waitMs: 0 });
    const poll = silent.getJob({ waitMs: 30_000, freeSlots: 10 }).catch(() => undefined);
    await until("it is shown as connected", () => shownAs(silent.runnerId, "ready"));
    proxy.stall();
    const { runId } = await create("unheard");
    const other = newRunner("unheard");
    await other.getJob({ waitMs: 0 });
    const job = await other.take();
    expect(job).toMatchObject({ attempt: 1, run: { runId } });
    await other.report({ run: job.run, ...success });
    proxy.heal();
    await poll;
    await proxy.stop();
  }, 60_000);

  test("of a frozen runner process are dropped; thawed, it connects again by itself and serves (F044)", async () => {
    const frozen = await startRunner({ address: plane.grpcAddress, token: world.tenants[0]!.poolToken });
    started.push(frozen);
    const runnerId = /runner ready (\S+)/.exec(frozen.output())?.[1] as string;
    await until("it is shown as connected", () => shownAs(runnerId, "ready"));
    frozen.kill("SIGSTOP");
    const since = performance.now();
    await until("it is shown as gone", () => shownAs(runnerId, "gone"));
    expect(performance.now() - since).toBeLessThan(pingMs + pingTimeoutMs + notedWithinMs);
    frozen.kill("SIGCONT");
    const { path } = await create("count", { events: 2 });
    expect((await client.json("GET", `${path}/join`)).body).toMatchObject({ counted: 2, attempt: 1 });
    await until("it is shown as connected again", () => shownAs(runnerId, "ready"));
  }, 60_000);

  test("are not cut because the runner pings, calls or no calls, however often (F045)", async () => {
    const pings = 200;
    const session: Http2Session = connect(`http://${plane.grpcAddress}`);
    const complaints: unknown[] = [];
    session.on("goaway", (code) => complaints.push(`goaway ${code}`));
    session.on("error", (error) => complaints.push(error));
    session.on("close", () => complaints.push("closed"));
    await once(session, "connect");
    for (let n = 0; n < pings; n++)
      await new Promise<void>((resolve, reject) => {
        session.ping((error) => (error ? reject(error) : resolve()));
      });
    expect(complaints).toEqual([]);
    session.destroy();

    const eager = newRunner("eager", { pingEveryMs: 50 });
    await eager.getJob({ waitMs: 0 });
    const watch = eager.watchCancels();
    let end: unknown;
    void watch.ended.then((status) => {
      end = status;
    });
    const since = performance.now();
    await until("a hundred pings were sent", () => performance.now() - since > 100 * 50);
    expect(end).toBeUndefined();

    // The same connection, on which the watch stands, serves a run and its cancel.
    const { runId, path } = await create("eager");
    const { run } = await eager.take();
    expect(run).toMatchObject({ runId });
    await eager.heartbeat(run!);
    await client.json("POST", `${path}/cancel`);
    await until("the cancel was told", () => watch.told.length > 0);
    await eager.report({ run, outcome: Outcome.OUTCOME_CANCELLED, events: 0 });
    expect(end).toBeUndefined();
  }, 60_000);

  test("leave the database in order", async () => {
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
    expect(audit.counts.acknowledged).toBe(5);
  });
});
