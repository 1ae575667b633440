import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { apiScopes } from "../../src/domain/scope.js";
import { Outcome } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { askGraphql } from "../support/graphql.js";
import { batchOf, rawRunner } from "../support/raw-runner.js";
import { until } from "../support/until.js";
import { startWorld, type World } from "../support/world.js";

// Budgets from the outside: over GraphQL, the Agent Protocol and a runner of any kind.

let world: World;
let admin: string;
beforeAll(async () => {
  world = await startWorld({ agents: { echo: async (run) => run.input } });
  admin = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());
afterEach(async () => {
  const { data } = await ask("{ budgets(first: 50, includeArchived: false) { nodes { uuid } } }");
  for (const { uuid } of data.budgets.nodes)
    await ask(`mutation { budgetArchive(input: {id: "${uuid}"}) { userErrors { code } } }`);
});

const ask = (query: string) => askGraphql(world.url, admin, query);
const fields = "{ uuid version amount current { posted held left asOf startsAt endsAt } }";
async function budget(input: string) {
  const { data, errors } = await ask(
    `mutation { budgetCreate(input: {name: "b", ${input}}) { budget ${fields} userErrors { code field message } } }`,
  );
  expect(errors).toEqual([]);
  return data.budgetCreate;
}
const current = async (uuid: string) =>
  (await ask(`{ budget(id: "${uuid}") { current { posted held left } } }`)).data.budget.current as Record<
    string,
    string
  >;
const run = () => world.client().runs.wait(null, "echo", { input: { a: 1 } });

test("an SDK that asks beyond the budget hears 402 and who can help; raised, it goes on at once", async () => {
  const { budget: made } = await budget('unit: RUNS, scope: TENANT, period: DAY, amount: 1, zone: "Europe/Berlin"');
  expect(await run()).toEqual({ a: 1 });
  const refused = (await run().catch((error: unknown) => error)) as Error & { status: number };
  expect([refused.status, refused.message]).toEqual([402, expect.stringContaining("budget")]);
  expect(await current(made.uuid)).toEqual({ posted: "1", held: "0", left: "0" });
  const raised = await ask(
    `mutation { budgetUpdate(input: {id: "${made.uuid}", amount: 2, expectedVersion: 1}) { budget { version } userErrors { code } } }`,
  );
  expect(raised.data.budgetUpdate).toEqual({ budget: { version: 2 }, userErrors: [] });
  expect(await run()).toEqual({ a: 1 });
});

test("a bad budget or price is refused by the field's name", async () => {
  const rest = "unit: TOKENS, scope: TENANT, period: DAY";
  for (const [field, input] of [
    ["amount", `${rest}, amount: -1`],
    ["amount", `${rest}, amount: "9999999999999999999999"`],
    ["runHold", `${rest}, amount: 5, runHold: 0`],
    ["runHold", "unit: RUNS, scope: TENANT, period: DAY, amount: 5, runHold: 2"],
    ["zone", `${rest}, amount: 5, zone: "Mars/Olympus"`],
    ["agentId", "unit: RUNS, scope: AGENT, period: DAY, amount: 5"],
    ["apiKeyId", "unit: RUNS, scope: KEY, period: DAY, amount: 5"],
    ["apiKeyId", `${rest}, amount: 5, apiKeyId: "${world.home.id}"`],
  ] as const) {
    const { budget: none, userErrors } = await budget(input);
    expect([input, none, userErrors[0]?.field]).toEqual([input, null, [field]]);
    expect(userErrors[0].message).toMatch(new RegExp(`^${field}: .{5,}`));
  }
  for (const [field, input] of [
    ["model", 'model: " ", inputPico: 1, outputPico: 1'],
    ["inputPico", 'model: "m", inputPico: -1, outputPico: 1'],
    ["outputPico", 'model: "m", inputPico: 1, outputPico: "1000000000001"'],
    ["effectiveFrom", 'model: "m", inputPico: 1, outputPico: 1, effectiveFrom: "2020-01-01T00:00:00Z"'],
  ] as const) {
    const { data } = await ask(
      `mutation { modelPriceSet(input: {${input}}) { modelPrice { uuid } userErrors { field } } }`,
    );
    expect([input, data.modelPriceSet]).toEqual([input, { modelPrice: null, userErrors: [{ field: [field] }] }]);
  }
});

test("a run that uses up its budget while it runs is told to stop, and what it used is posted", async () => {
  const raw = rawRunner({ address: world.grpcAddress, token: await world.runnerToken(), graphs: ["thinker"] });
  await raw.getJob({ waitMs: 0 });
  const { budget: made } = await budget("unit: TOKENS, scope: TENANT, period: MONTH, amount: 1000, runHold: 100");
  const { run_id: runId, thread_id: threadId } = await world.client().runs.create(null, "thinker", { input: {} });
  const { run: ref } = await raw.take();
  expect(await current(made.uuid)).toEqual({ posted: "0", held: "100", left: "900" });
  const step = (id: string, tokens: number) => ({
    ...{
      id,
      parentId: "",
      kind: "model",
      name: "gpt",
      status: "success",
      startedMs: 1,
      endedMs: 2,
      error: "",
      namespace: [],
    },
    usage: Buffer.from(JSON.stringify({ input_tokens: tokens, output_tokens: 0 })),
  });
  const stream = raw.events();
  await stream.send(batchOf(ref, 1, 1, { steps: [step("a", 600)] }));
  await until("the hold is raised", async () => (await current(made.uuid))["held"] === "600");
  await stream.send(batchOf(ref, 2, 1, { steps: [step("b", 600)] }));
  await until("the run is told to stop", async () => (await raw.heartbeat(ref!))[0]?.cancel === true);
  await raw.report({ run: ref!, outcome: Outcome.OUTCOME_CANCELLED, events: 2 });
  const { data } = await ask(`{ run(id: "${runId}") { status statusReason } }`);
  expect(data.run).toEqual({ status: "CANCELLED", statusReason: "budget_exhausted" });
  expect(await current(made.uuid)).toEqual({ posted: "1200", held: "0", left: "-200" });
  // What is told by agent or by day is what is posted; without a price it says that it is not the whole sum.
  const now = Date.now();
  const [from, to] = [now - 86_400_000, now + 86_400_000].map((ms) => new Date(ms).toISOString());
  const usage = async (by: string) =>
    (await ask(`{ usage(from: "${from}", to: "${to}", by: [${by}]) { model inputTokens runs nanoUsd partial } }`)).data
      .usage;
  const whole = { model: null, inputTokens: "1200", runs: "1", nanoUsd: "0", partial: true };
  expect(await usage("")).toEqual([whole]);
  expect(await usage("AGENT, KEY, DAY")).toEqual([whole]);
  expect(await usage("MODEL")).toEqual([{ ...whole, model: "gpt" }]);
  const wrong = await ask(`{ usage(from: "${to}", to: "${from}") { runs } }`);
  expect(wrong.errors[0]).toMatchObject({ extensions: { code: "INVALID_INPUT", field: "to" } });
  expect(await world.client().runs.get(threadId, runId)).toMatchObject({ status: "interrupted" });
  raw.close();
});
