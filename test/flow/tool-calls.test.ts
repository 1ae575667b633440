import { isDenied, tool } from "@fairlead/runner";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createAsks } from "../../runners/typescript/src/asks.js";
import { systemScope } from "../../src/domain/scope.js";
import { draftToolPolicy, publishToolPolicy } from "../../src/governance/tool-policy/edit.js";
import { startWorld, type World } from "../support/world.js";

// The SDK's side: a wrapped function runs when the plane said so, with what the plane judged.

let world: World;
const called: string[] = [];

const schema = { type: "object", properties: { amount: { type: "number" } } };
const pay = tool("pay", schema, (args: { amount?: number; to?: string }) => {
  called.push(JSON.stringify(args));
  return { paid: args.amount ?? 0 };
});

beforeAll(async () => {
  world = await startWorld({
    agents: {
      shop: async (run) => {
        const results = [];
        for (const args of run.input.calls) {
          const result = await run.tool(pay, args);
          results.push(isDenied(result) ? { told: result.message } : result);
        }
        return { results };
      },
    },
  });
});
afterAll(() => world.stop());

const run = async (...calls: object[]) => {
  const values = await world.client().runs.wait(null, "shop", { input: { calls } });
  return (values as { results: unknown[] }).results;
};

test("a wrapped tool is called with what was judged, and a denial is a result for the model and no error", async () => {
  expect(await run({ to: "a", amount: 5 })).toEqual([{ paid: 5 }]);
  expect(called).toEqual(['{"amount":5,"to":"a"}']);
  const scope = systemScope(world.home.id);
  const every = { agents: null, users: null, expiresAtMs: null, tools: [{ server: "runner", name: "pay" }] };
  const rules = [
    { ...every, id: "all", effect: "allow", conditions: [] },
    {
      ...every,
      ...({ id: "limit", effect: "deny" } as const),
      conditions: [{ path: ["amount"], operator: "greater_than", value: 100 }],
    },
  ] as const;
  const content = { rules, cedar: "", tests: [] };
  const id = await draftToolPolicy(world.plane.tools, scope, { name: "p", content }, null);
  await publishToolPolicy(world.plane.tools, scope, { id, expectedVersion: 0 });
  called.length = 0;
  const told = "This tool is not available for this call.";
  expect(await run({ amount: 100 }, { amount: 101 }, {})).toEqual([{ paid: 100 }, { told }, { told }]);
  expect(called).toEqual(['{"amount":100}']);
});

const question = { tool: "pay", schemaDigest: Buffer.alloc(32), args: "{}" };
const ref = { tenantId: "t", runId: "r", generation: 1 };
const undecided = { allowed: false, message: "Whether this tool may be called could not be decided.", args: "" };

test("an ask without a stream, on a stream that ends, or without an answer is a denial", async () => {
  expect(await createAsks(() => false).ask(ref, question)).toEqual(undecided);
  const cut = createAsks(() => true);
  const open = cut.ask(ref, question);
  cut.lost();
  expect(await open).toEqual(undecided);
  expect(await createAsks(() => true, 1).ask(ref, question)).toEqual(undecided);
});

test("an answer to another ask permits nothing", async () => {
  const sent: string[] = [];
  const asks = createAsks(({ askId }) => sent.push(askId) > 0);
  const open = asks.ask(ref, question);
  const answer = { run: ref, message: "", arguments: Buffer.from("{}"), decisionId: "", allowed: true };
  asks.answered({ ...answer, askId: "another" });
  asks.answered({ ...answer, askId: sent[0] as string, allowed: false, message: "no" });
  expect(await open).toMatchObject({ allowed: false, message: "no" });
});

test("a tool has a name that a policy can name, and its schema is known whatever the order of its members", () => {
  expect(() => tool("delete repo", {}, () => null)).toThrow("is no name");
  const other = tool("pay", { properties: schema.properties, type: "object" }, () => null);
  expect(other.schemaDigest).toEqual(pay.schemaDigest);
  expect(tool("pay", { type: "object" }, () => null).schemaDigest).not.toEqual(pay.schemaDigest);
});
