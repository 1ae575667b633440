import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Outcome, ReportVerdict } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase } from "../support/audit.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { startWorld, type World } from "../support/world.js";

let world: World;
let runner: RawRunner;
beforeAll(async () => {
  world = await startWorld();
  runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken() });
  await runner.getJob({ waitMs: 0 });
});
afterAll(async () => {
  runner?.close();
  const audit = await auditDatabase(world.database.adminUrl, []);
  await world?.stop();
  expect(audit.complaints).toEqual([]);
});

const recorded = [{ verdict: ReportVerdict.REPORT_VERDICT_RECORDED }];
const newThread = async (): Promise<string> => (await world.client().threads.create()).thread_id;
const asking = (id: string) => ({
  outcome: Outcome.OUTCOME_WAITING,
  values: Buffer.from('{"asked":true}'),
  interrupts: [{ id, namespace: [], taskId: id, value: Buffer.from('{"question":1}') }],
});

/** What stands in the tables of a thread's questions. */
async function questionsOf(thread: string): Promise<{ id: string; status: string }[]> {
  const { rows } = await withAdmin(world.database.adminUrl, (admin) =>
    admin.query("select id, status from interrupt where thread_id = $1 order by created_at, id", [thread]),
  );
  return rows;
}

describe("a rollback", () => {
  test("of a run that ends with a question all the same closes the question, and the thread waits for no answer", async () => {
    const { runs, threads } = world.client();
    const thread = await newThread();
    const { run_id: id } = await runs.create(thread, "raw", { input: {} });
    const { run } = await runner.take();
    const beat = await runner.keepAlive(run!);
    await runs.cancel(thread, id, false, "rollback");
    expect(await runner.report({ run, ...asking("a".repeat(32)) })).toMatchObject(recorded);
    beat();
    expect(await questionsOf(thread)).toEqual([{ id: "a".repeat(32), status: "superseded" }]);
    const { status, interrupts } = await threads.get(thread);
    expect({ status, interrupts: interrupts ?? {} }).toEqual({ status: "idle", interrupts: {} });
    await expect(runs.get(thread, id)).rejects.toThrow(/404/);
    const answer = await world.fetch(`/threads/${thread}/runs`, {
      method: "POST",
      body: JSON.stringify({ assistant_id: "raw", command: { resume: "too late" } }),
    });
    expect(answer.status).toBe(409);
  }, 60_000);

  test("of the run that a question was followed by leaves no question open", async () => {
    const { runs, threads } = world.client();
    const thread = await newThread();
    await runs.create(thread, "raw", { input: {} });
    const { run: first } = await runner.take();
    expect(await runner.report({ run: first, ...asking("b".repeat(32)) })).toMatchObject(recorded);
    expect((await threads.get(thread)).status).toBe("interrupted");
    const next = await runs.create(thread, "raw", { input: { instead: true } });
    const { run: second } = await runner.take();
    const beat = await runner.keepAlive(second!);
    await runs.cancel(thread, next.run_id, false, "rollback");
    expect(await runner.report({ run: second, outcome: Outcome.OUTCOME_CANCELLED })).toMatchObject(recorded);
    beat();
    expect((await questionsOf(thread)).map(({ status }) => status)).not.toContain("open");
    const { status, interrupts } = await threads.get(thread);
    expect({ status, interrupts: interrupts ?? {} }).toEqual({ status: "idle", interrupts: {} });
  }, 60_000);
});
