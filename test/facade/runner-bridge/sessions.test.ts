import { afterAll, beforeAll, expect, test } from "vitest";
import { Outcome, ReportVerdict, type RunRef } from "../../../src/generated/proto/fairlead/runner/v1/runner.js";
import { rawRunner } from "../../support/raw-runner.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld({ limits: { admissionWindow: 400, leaseMs: 60_000 } });
});
afterAll(() => world.stop());

test("the names of runs that were reported elsewhere do not pile up, and those that are heard of stay", async () => {
  const runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken() });
  // What is reported without the runner's name is, to this process, reported to another one.
  const elsewhere = rawRunner({ address: world.grpcAddress, token: await world.runnerToken(), runnerId: "" });
  await runner.getJob({ waitMs: 100 });
  const take = async (count: number): Promise<RunRef[]> => {
    const made = Array.from({ length: count }, () =>
      world.fetch("/runs", { method: "POST", body: JSON.stringify({ assistant_id: "raw", input: {} }) }),
    );
    for (const { status } of await Promise.all(made)) expect(status).toBe(200);
    const taken: RunRef[] = [];
    while (taken.length < count) {
      const { assignments } = await runner.getJob({ freeSlots: 100, waitMs: 2_000 });
      taken.push(...assignments.map(({ run }) => run as RunRef));
    }
    return taken;
  };
  const [long] = (await take(1)) as [RunRef];
  for (let round = 0; round < 3; round++) {
    const runs = await take(90);
    await runner.heartbeat(long);
    for (const { verdict } of await elsewhere.report(...runs.map((run) => ({ run, outcome: Outcome.OUTCOME_SUCCESS }))))
      expect(verdict).toBe(ReportVerdict.REPORT_VERDICT_RECORDED);
  }
  const session = [...(world.running.bridge?.sessions.all() ?? [])].find(
    ({ runnerId }) => runnerId === runner.runnerId,
  );
  expect(session?.held.size).toBeLessThanOrEqual(200);
  expect([...(session?.held.values() ?? [])].map(({ runId }) => runId)).toContain(long.runId);
  runner.close();
  elsewhere.close();
}, 120_000);
