import { afterAll, beforeAll, expect, test } from "vitest";
import { Outcome, ReportVerdict } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase } from "../support/audit.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { until } from "../support/until.js";
import { startWorld, type World } from "../support/world.js";

const queueTimeoutMs = 1_000;

let world: World;
let runner: RawRunner;
beforeAll(async () => {
  world = await startWorld({ limits: { queueTimeoutMs, sweepEveryMs: 50 } });
  runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken() });
  await runner.getJob({ waitMs: 0 });
});
afterAll(async () => {
  runner?.close();
  const audit = await auditDatabase(world.database.adminUrl, []);
  await world?.stop();
  expect(audit.complaints).toEqual([]);
});

const success = { outcome: Outcome.OUTCOME_SUCCESS, values: Buffer.from('{"done":true}') };
const recorded = [{ verdict: ReportVerdict.REPORT_VERDICT_RECORDED }];
const newThread = async (): Promise<string> => (await world.client().threads.create()).thread_id;

test("a run that waits behind its thread's head uses up none of its queue timeout; it does once it is the head", async () => {
  const { runs } = world.client();
  const thread = await newThread();
  await runs.create(thread, "raw", { input: { n: 1 } });
  const { run: head } = await runner.take();
  const beat = await runner.keepAlive(head!);
  const second = await runs.create(thread, "raw", { input: { n: 2 } });
  // Another thread's run, for which nobody asks, is over when the time is.
  const lonely = await runs.create(await newThread(), "raw", { input: { n: 3 } });
  await until(
    "the time of the other run is up",
    async () => (await runs.get(lonely.thread_id, lonely.run_id)).status === "error",
  );
  expect((await runs.get(thread, second.run_id)).status).toBe("pending");

  const since = performance.now();
  expect(await runner.report({ run: head, ...success })).toMatchObject(recorded);
  beat();
  await until("nobody came for the second run", async () => (await runs.get(thread, second.run_id)).status === "error");
  expect(performance.now() - since).toBeGreaterThanOrEqual(queueTimeoutMs);
  const joined = await world.fetch(`/threads/${thread}/runs/${second.run_id}/join`);
  expect(await joined.json()).toMatchObject({ __error__: { error: "not_started" } });
  expect((await world.client().threads.get(thread)).status).toBe("error");
}, 60_000);
