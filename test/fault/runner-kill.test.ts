import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane, startRunner, type TestProcess } from "../support/processes.js";
import { type ProtocolClient, protocolClient, type SseFrame } from "../support/protocol-client.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

const events = 12;

describe("a runner that is killed", () => {
  let database: TestDatabase;
  let plane: PlaneProcess;
  let world: TestTenants;
  let client: ProtocolClient;
  let runner: TestProcess;
  const acknowledged: RunName[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme"]);
    plane = await startPlane({ database, ports: await planePorts() });
    runner = await startRunner({ address: plane.grpcAddress, token: world.sharedToken, capacity: 20 });
    client = protocolClient(plane.url, world.tenants[0]!.apiKey);
  }, 120_000);
  afterAll(async () => {
    await runner?.end();
    await plane?.end();
    await database?.drop();
  });

  test("leaves runs that another one finishes on the same stream, each event once and in order, however many events were sent", async () => {
    const runs = await Promise.all(
      Array.from({ length: events + 1 }, async (_, k) => {
        const { body: thread } = await client.json<{ thread_id: string }>("POST", "/threads", {});
        const stream = await client.stream("POST", `/threads/${thread.thread_id}/runs/stream`, {
          assistant_id: "count",
          input: { events, hangAfter: k },
          stream_mode: ["custom", "values"],
        });
        acknowledged.push({ tenantId: world.tenants[0]!.id, runId: stream.runId });
        return { k, stream, threadId: thread.thread_id };
      }),
    );
    for (const { k, stream, threadId } of runs) {
      await until(`the first runner stands behind event ${k}`, async () => {
        const { body } = await client.json<{ status: string }>("GET", `/threads/${threadId}/runs/${stream.runId}`);
        return body.status === "running" && countOf(stream.frames) === k;
      });
    }

    // A run that was offered and not begun would come back in its first attempt.
    await until("every run was begun", () =>
      withAdmin(database.adminUrl, async (admin) => {
        const { rows } = await admin.query("select bool_and(confirmed) as begun from run where status = 'running'");
        return rows[0].begun === true;
      }),
    );
    runner.kill("SIGKILL");
    runner = await startRunner({ address: plane.grpcAddress, token: world.sharedToken, capacity: 20 });

    for (const { k, stream, threadId } of runs) {
      expect(await stream.whole).toBe(true);
      const ids = stream.frames.map((frame) => Number(frame.id));
      expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
      const attempt = (n: number) => ({
        event: "metadata",
        data: { run_id: stream.runId, thread_id: threadId, attempt: n },
      });
      const counted = (n: number, of: number) => ({
        event: "custom",
        data: expect.objectContaining({ n, attempt: of }),
      });
      const told = stream.frames.map(({ event, data }) => ({ event, data: JSON.parse(data) }));
      expect(told.filter(({ event }) => event !== "values")).toEqual([
        attempt(1),
        ...Array.from({ length: k }, (_, at) => counted(at + 1, 1)),
        attempt(2),
        ...Array.from({ length: events }, (_, at) => counted(at + 1, 2)),
        { event: "end", data: { status: "success" } },
      ]);
    }
  }, 120_000);

  test("leaves the database in order", async () => {
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
    expect(audit.counts).toMatchObject({ acknowledged: events + 1, final: events + 1 });
  });
});

function countOf(frames: readonly SseFrame[]): number {
  return frames.filter((frame) => frame.event === "custom").length;
}
