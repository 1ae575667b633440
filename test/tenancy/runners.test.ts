import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemScope } from "../../src/domain/scope.js";
import { Outcome, ReportVerdict, type RunRef } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { createRunnerToken } from "../../src/governance/edit-runner-tokens.js";
import { askGraphql } from "../support/graphql.js";
import { batchOf, type RawRunner, rawRunner } from "../support/raw-runner.js";
import { until } from "../support/until.js";
import { startWorld, type TestTenant, testRootKey, type World } from "../support/world.js";

// Two tenants with pools of their own, and in both a running run with the same id: only the tenant's name tells them apart on the wire.

let world: World;
let victim: TestTenant;
let held: RunRef;
let runners: RawRunner[];
let attacker: RawRunner;
let defender: RawRunner;

async function poolOf(tenant: TestTenant, graph: string, runnerId: string = randomUUID()): Promise<RawRunner> {
  const { text } = await createRunnerToken(world.plane.stores, testRootKey, systemScope(tenant.id), {
    name: "pool",
    kind: "typescript",
    expiresAt: null,
  });
  const runner = rawRunner({ address: world.grpcAddress, token: text, graphs: [graph], runnerId });
  // The first poll announces the graph.
  await runner.getJob({ waitMs: 100 });
  return runner;
}

async function startRun(tenant: TestTenant, graph: string, run: string): Promise<void> {
  const response = await world.fetch("/runs", {
    method: "POST",
    key: tenant.key,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: graph, input: {}, run_id: run }),
  });
  expect(response.status).toBe(200);
}

beforeAll(async () => {
  world = await startWorld();
  victim = await world.tenant();
  attacker = await poolOf(world.home, "home-raw");
  defender = await poolOf(victim, "victim-raw");
  runners = [attacker, defender];
  const run = randomUUID();
  await startRun(world.home, "home-raw", run);
  await startRun(victim, "victim-raw", run);
  const [mine, theirs] = await Promise.all([attacker.take(), defender.take()]);
  expect(mine.run).toMatchObject({ tenantId: world.home.id });
  expect(theirs.run).toMatchObject({ tenantId: victim.id });
  held = theirs.run as RunRef;
});
afterAll(async () => {
  for (const runner of runners) runner.close();
  await world.stop();
});

const state = async (): Promise<unknown> =>
  (await askGraphql(world.url, victim.key, `{ run(id: "${held.runId}") { status lastSeq attempt } }`)).data.run;

test("a runner cannot renew, write to or end another tenant's run by naming its tenant (F065)", async () => {
  await defender.heartbeat(held);
  const before = await state();
  const [pulse] = await attacker.heartbeat(held);
  expect(pulse).toMatchObject({ superseded: true });
  const stream = attacker.events();
  const [acknowledgement] = await stream.send(batchOf(held, 1, 3));
  expect(JSON.stringify(acknowledgement)).not.toContain('"upTo":3');
  const [verdict] = await attacker.report({ run: held, outcome: Outcome.OUTCOME_ERROR });
  expect([ReportVerdict.REPORT_VERDICT_RECORDED, ReportVerdict.REPORT_VERDICT_REPLAYED]).not.toContain(
    verdict?.verdict,
  );
  stream.call.cancel();
  expect(await state()).toEqual(before);
});

test("the runner that holds it still can", async () => {
  await defender.heartbeat(held);
  const [verdict] = await defender.report({ run: held, outcome: Outcome.OUTCOME_SUCCESS });
  expect(verdict?.verdict).toBe(ReportVerdict.REPORT_VERDICT_RECORDED);
  expect(await state()).toMatchObject({ status: "SUCCESS" });
});

test("a stop order reaches the runner of its pool alone, whoever else calls itself by that runner's id", async () => {
  const runnerId = randomUUID();
  const mine = await poolOf(victim, "victim-stop", runnerId);
  const other = await poolOf(world.home, "home-stop", runnerId.toUpperCase());
  runners.push(mine, other);
  const [heard, overheard] = [mine.watchCancels(), other.watchCancels()];
  const [stream, foreignStream] = [mine.events(), other.events()];
  const run = randomUUID();
  await startRun(victim, "victim-stop", run);
  const { run: ref } = await mine.take();
  await Promise.all([mine.heartbeat(ref as RunRef), other.heartbeat()]);
  const cancel = (id: string, tenant: TestTenant) =>
    world.fetch(`/runs/${id}/cancel`, { method: "POST", key: tenant.key });
  expect((await cancel(run, victim)).status).toBeLessThan(300);
  await until("the holder is told", () => heard.told.length > 0 && stream.controls.length > 0);
  // Whatever the other one was told came before what it is told now.
  const second = randomUUID();
  await startRun(world.home, "home-stop", second);
  await other.heartbeat((await other.take()).run as RunRef);
  expect((await cancel(second, world.home)).status).toBeLessThan(300);
  await until("the other is told of its own", () => overheard.told.length > 0 && foreignStream.controls.length > 0);
  expect(overheard.told.map(({ runId }) => runId)).toEqual([second]);
  expect(heard.told.map(({ runId }) => runId)).toEqual([run]);
  expect(JSON.stringify(foreignStream.controls)).not.toContain(run);
  for (const { call } of [heard, overheard, stream, foreignStream]) call.cancel();
});
