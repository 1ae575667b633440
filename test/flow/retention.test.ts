import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiScopes } from "../../src/domain/scope.js";
import { purgeDeleted } from "../../src/store/retention.js";
import { askGraphql } from "../support/graphql.js";
import { sampleAgents } from "../support/sample-agents.js";
import { until } from "../support/until.js";
import { startWorld, type World } from "../support/world.js";

// What was deleted goes from the database, and nothing else does. Time is made to pass by moving the rows' own times back.

let world: World;
let admin: pg.Client;

async function open(purgeEveryMs: number): Promise<void> {
  world = await startWorld({ agents: sampleAgents, limits: { purgeEveryMs } });
  admin = new pg.Client({ connectionString: world.database.adminUrl });
  await admin.connect();
}
async function close(): Promise<void> {
  await admin.end();
  await world.stop();
}

const sql = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
  (await admin.query(text, values)).rows;

/** Rows with what a run and its thread held. */
async function contentsOf(runId: string): Promise<Record<string, number>> {
  const [row] = await sql(
    `select (select count(*)::int from run_event e where e.run_id = r.id) as events, (select count(*)::int from run_delta d where d.run_id = r.id) as deltas,
       (select count(*)::int from checkpoint c where c.thread_id = r.thread_id) as checkpoints, (select count(*)::int from interrupt i where i.run_id = r.id) as questions,
       num_nonnulls(r.input, r.values, t.values, t.interrupts) as payloads, (t.metadata::text like '%secret%')::int as metadata
     from run r join thread t on t.tenant_id = r.tenant_id and t.id = r.thread_id where r.id = $1`,
    [runId],
  );
  return row as Record<string, number>;
}
const nothing = { events: 0, deltas: 0, checkpoints: 0, questions: 0, payloads: 0, metadata: 0 };
const age = (runId: string, by: string) =>
  sql("update run set ended_at = ended_at - $2::interval, deleted_at = deleted_at - $2::interval where id = $1", [
    runId,
    by,
  ]);

/** A run on a thread of its own, ended. */
async function runOnThread(
  input: unknown = { text: "secret" },
  agent = "echo",
): Promise<{ threadId: string; runId: string }> {
  const { threads, runs } = world.client();
  const { thread_id: threadId } = await threads.create({ metadata: { a: "secret" } });
  const { run_id: runId } = await runs.create(threadId, agent, { input: input as Record<string, unknown> });
  await runs.join(threadId, runId);
  return { threadId, runId };
}

/** A run without a thread of the client's, ended. */
async function stateless(input: unknown = { words: ["se", "cret"] }, agent = "talking"): Promise<string> {
  const runId = randomUUID();
  const response = await world.fetch("/runs/wait", {
    method: "POST",
    body: JSON.stringify({ assistant_id: agent, input, run_id: runId, stream_mode: ["messages", "values"] }),
  });
  expect(response.status).toBe(200);
  return runId;
}

describe("a plane that purges", () => {
  beforeAll(() => open(50));
  afterAll(close);

  test("removes what deleted threads and stateless runs held after a day, keeps their rows, and leaves the rest alone", async () => {
    const asked = await runOnThread({ questions: 1 }, "asking");
    const kept = await runOnThread();
    const young = await stateless();
    const old = [asked.runId, await stateless(), await stateless({ questions: 2 }, "asking")];
    await world.client().threads.delete(asked.threadId);
    const before = await Promise.all([kept.runId, young].map(contentsOf));
    for (const contents of before) expect(contents["events"]).toBeGreaterThan(0);
    await age(kept.runId, "3 days");
    await age(young, "23 hours");
    for (const runId of old) {
      expect((await contentsOf(runId))["events"]).toBeGreaterThan(0);
      await age(runId, "25 hours");
    }
    for (const runId of old)
      await until(
        "the run is purged",
        async () => (await sql("select purged_at from run where id = $1", [runId]))[0]?.["purged_at"],
      );
    for (const runId of old) expect(await contentsOf(runId)).toEqual(nothing);
    expect(await Promise.all([kept.runId, young].map(contentsOf))).toEqual(before);

    expect((await world.fetch(`/runs/${old[1]}`)).status).toBe(404);
    expect((await world.fetch(`/runs/${old[1]}/stream`)).status).toBe(404);
    const key = await world.key(world.home, apiScopes);
    expect((await askGraphql(world.url, key, `{ run(id: "${old[1]}") { status } }`)).data.run).toEqual({
      status: "SUCCESS",
    });
  });

  test("keeps the state of a thread whose run was deleted", async () => {
    const { threadId, runId } = await runOnThread({ text: "state" });
    await world.client().runs.delete(threadId, runId);
    await age(runId, "25 hours");
    await until("the log is gone", async () => (await contentsOf(runId))["events"] === 0);
    expect((await world.client().threads.get(threadId)).values).toEqual({ text: "state" });
    expect((await world.client().threads.getState(threadId)).values).toEqual({ text: "state" });
  });

  test("remembers an Idempotency-Key for a day, and the idempotencyKey of a GraphQL create for 30", async () => {
    const create = async (): Promise<string> => {
      const response = await world.fetch("/runs", {
        method: "POST",
        body: JSON.stringify({ assistant_id: "echo", input: {} }),
        headers: { "idempotency-key": "again" },
      });
      return ((await response.json()) as { run_id: string }).run_id;
    };
    const first = await create();
    await sql("update idempotency_key set created_at = created_at - interval '23 hours'");
    expect(await create()).toBe(first);
    const key = await world.key(world.home, apiScopes);
    const make = async (): Promise<string> =>
      (
        await askGraphql(
          world.url,
          key,
          'mutation { apiKeyCreate(input: {name: "k", scopes: [RUNS_READ], idempotencyKey: "x"}) { apiKey { id } } }',
        )
      ).data.apiKeyCreate.apiKey.id;
    const made = await make();
    await sql("update create_request set created_at = created_at - interval '29 days'");
    await sql("update idempotency_key set created_at = created_at - interval '2 hours'");
    await until("the old key is gone", async () => (await sql("select 1 from idempotency_key")).length === 0);
    expect(await create()).not.toBe(first);
    expect(await make()).toBe(made);
    await sql("update create_request set created_at = created_at - interval '2 days'");
    await until("the old request is gone", async () => (await sql("select 1 from create_request")).length === 0);
    expect(await make()).not.toBe(made);
  });
});

describe("one purge", () => {
  beforeAll(() => open(60_000));
  afterAll(close);

  test("removes no more rows than it may, waits for nobody, and its successors finish what it began", async () => {
    const big = await stateless({ count: 400, bytes: 10 }, "counting");
    const held = await stateless();
    const pool = world.plane.stores.sweep;
    expect(await purgeDeleted(pool, 3_600_000, 100)).toBe(0);
    const rows = Object.values(await contentsOf(big)).reduce((sum, n) => sum + n, 0);
    expect(rows).toBeGreaterThan(2);
    await sql("begin");
    await sql("select 1 from run where id = $1 for update", [held]);
    let calls = 0;
    while ((await purgeDeleted(pool, 0, 1)) === 1) calls++;
    expect(calls).toBeGreaterThan(1);
    await sql("rollback");
    expect(await contentsOf(big)).toEqual(nothing);
    expect((await contentsOf(held))["events"]).toBeGreaterThan(0);
    expect(await purgeDeleted(pool, 0, 100)).toBeGreaterThan(1);
    expect(await contentsOf(held)).toEqual(nothing);
  });
});
