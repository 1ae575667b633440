import { afterAll, beforeAll, expect, test } from "vitest";
import { Outcome } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { auditDatabase, type RunName } from "../support/audit.js";
import { protocolClient } from "../support/protocol-client.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { startWorld, type World } from "../support/world.js";

const burst = 300;

let world: World;
let runner: RawRunner;

beforeAll(async () => {
  world = await startWorld();
  runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken() });
  await runner.getJob({ waitMs: 0 });
});
afterAll(async () => {
  runner?.close();
  await world?.stop();
});

test("a tenant's burst delays another tenant's single run by no more than its window", async () => {
  const quiet = await world.tenant();
  const acknowledged: RunName[] = [];
  const create = async (tenant: { id: string; key: string }): Promise<string> => {
    const { status, body } = await protocolClient(world.url, tenant.key).json<{ run_id: string }>("POST", "/runs", {
      assistant_id: "raw",
      input: {},
      on_completion: "keep",
    });
    expect(status).toBe(200);
    acknowledged.push({ tenantId: tenant.id, runId: body.run_id });
    return body.run_id;
  };
  let left = burst;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await create(world.home);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  const single = await create(quiet);

  const order: string[] = [];
  while (order.length <= burst) {
    const { run } = await runner.take();
    order.push(run!.runId);
    const [verdict] = await runner.report({ run, outcome: Outcome.OUTCOME_SUCCESS, values: Buffer.from("{}") });
    expect(verdict?.stored).toBe(Outcome.OUTCOME_SUCCESS);
  }
  const place = order.indexOf(single) + 1;
  expect(place).toBeGreaterThan(0);
  expect(place).toBeLessThanOrEqual(world.plane.limits.admissionWindow + 2);
  expect(new Set(order).size).toBe(burst + 1);
  expect((await auditDatabase(world.database.adminUrl, acknowledged)).complaints).toEqual([]);
}, 120_000);
