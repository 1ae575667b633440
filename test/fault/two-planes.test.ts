import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Outcome } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane } from "../support/processes.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";

// Two plane processes on one database, which know nothing of each other but what is committed there.

const runsToClaim = 200;
const pollers = 8;

describe("two plane processes", () => {
  let database: TestDatabase;
  let world: TestTenants;
  const planes: PlaneProcess[] = [];
  const acknowledged: RunName[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    world = await makeTenants(database.appUrl, ["acme"]);
    // Long offers: what a slow machine lets lapse would be given again, and rightly so.
    const env = { FAIRLEAD_OFFER_MS: "60000" };
    for (let n = 0; n < 2; n++) planes.push(await startPlane({ database, ports: await planePorts(), env }));
  }, 120_000);
  afterAll(async () => {
    await Promise.all(planes.map((plane) => plane.end()));
    await database?.drop();
  });

  const create = async (n: number, graph: string, key?: string): Promise<{ status: number; runId: string }> => {
    const tenant = world.tenants[0]!;
    const answer = await fetch(`${planes[n % 2]!.url}/runs`, {
      method: "POST",
      headers: {
        "x-api-key": tenant.apiKey,
        "content-type": "application/json",
        ...(key ? { "idempotency-key": key } : {}),
      },
      body: JSON.stringify({ assistant_id: graph, input: {}, on_completion: "keep" }),
    });
    const { run_id: runId } = (await answer.json()) as { run_id: string };
    acknowledged.push({ tenantId: tenant.id, runId });
    return { status: answer.status, runId };
  };
  const runner = async (n: number, graph: string): Promise<RawRunner> => {
    const one = rawRunner({ address: planes[n % 2]!.grpcAddress, token: world.sharedToken, graphs: [graph] });
    await one.getJob({ waitMs: 0 });
    return one;
  };

  test("make one run of twenty equal creates that race under one idempotency key, ten times over", async () => {
    const one = await runner(0, "keyed");
    for (let round = 0; round < 10; round++) {
      const key = randomUUID();
      const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => create(n, "keyed", key)));
      expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
      expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
      const { run } = await one.take();
      expect(run?.runId).toBe(answers[0]!.runId);
      await one.report({ run, outcome: Outcome.OUTCOME_SUCCESS, values: Buffer.from("{}") });
    }
    const runs = await withAdmin(database.adminUrl, (admin) =>
      admin.query("select count(*)::int as n from run where graph_id = 'keyed'"),
    );
    expect(runs.rows[0].n).toBe(10);
    expect((await one.getJob({ waitMs: 0 })).assignments).toEqual([]);
    one.close();
  }, 120_000);

  test("never give a run twice, however many claims of both fight over the same pending runs", async () => {
    // Announced first, so that runs can be created; nobody asks for work until all wait.
    const group = await Promise.all(Array.from({ length: pollers }, (_, n) => runner(n, "fought")));
    const wanted: string[] = [];
    for (let n = 0; n < runsToClaim; n += 20)
      for (const { runId } of await Promise.all(Array.from({ length: 20 }, (_, m) => create(n + m, "fought"))))
        wanted.push(runId);
    const given: string[] = [];
    const work = async (one: RawRunner): Promise<void> => {
      while (given.length < runsToClaim) {
        const { assignments } = await one.getJob({ waitMs: 300, freeSlots: 5 });
        for (const { run, attempt } of assignments) {
          expect([run?.generation, attempt]).toEqual([1, 1]);
          given.push(run!.runId);
        }
        const ended = assignments.map(({ run }) => ({
          run,
          outcome: Outcome.OUTCOME_SUCCESS,
          values: Buffer.from("{}"),
        }));
        if (ended.length > 0) await one.report(...ended);
      }
    };
    await Promise.all(group.map(work));
    expect([...given].sort()).toEqual([...wanted].sort());
    const { rows } = await withAdmin(database.adminUrl, (admin) =>
      admin.query("select distinct status, fence, attempt, handbacks from run where graph_id = 'fought'"),
    );
    expect(rows).toEqual([{ status: "success", fence: 1, attempt: 1, handbacks: 0 }]);
    for (const one of group) one.close();
  }, 120_000);

  test("leave the database in order", async () => {
    const audit = await auditDatabase(database.adminUrl, acknowledged);
    expect(audit.complaints).toEqual([]);
  });
});
