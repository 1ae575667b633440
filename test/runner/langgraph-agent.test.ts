import { type AgentDefinition, langgraph } from "@fairlead/runner";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, Command, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import { Outcome, Recovery } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import type { StoredRun } from "./support/plane-store.js";
import { until } from "./support/until.js";
import { gate, world } from "./support/world.js";

const State = Annotation.Root({
  n: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const counting = new StateGraph(State)
  .addNode("one", async ({ n }) => ({ n: n + 1, log: ["one"] }))
  .addNode("two", async ({ n }) => ({ n: n + 1, log: ["two"] }))
  .addEdge(START, "one")
  .addEdge("one", "two")
  .compile();

const valuesOf = (run: StoredRun): Record<string, unknown> =>
  JSON.parse(run.report!.values.toString()) as Record<string, unknown>;
test("a graph that does not come to an end is stopped at the limit that the client set", async () => {
  const graph = new StateGraph(State)
    .addNode("loop", async () => ({ log: ["x"] }))
    .addEdge(START, "loop")
    .addEdge("loop", "loop")
    .compile();
  const { plane } = await world({ loop: langgraph(graph) });
  const run = await plane.ended(
    plane.assign({ graphId: "loop", json: { input: { n: 0 }, config: { recursion_limit: 4 } } }),
  );
  expect(run.report!.failure).toMatchObject({ type: "GraphRecursionError", message: /Recursion limit of 4/ });
  const wrong = await plane.ended(
    plane.assign({ graphId: "loop", json: { input: {}, config: { recursion_limit: 0 } } }),
  );
  expect(wrong.report!.failure!.message).toMatch(/^config\.recursion_limit: must be a whole number above 0, it is 0/);
});

test("a cancel aborts the node that runs, and the state before it is kept", async () => {
  const began = gate();
  const aborted = gate<unknown>();
  const graph = new StateGraph(State)
    .addNode("one", async () => ({ n: 1 }))
    .addNode("long", async (_state, config) => {
      began.open();
      await new Promise<void>((resolve) => config.signal!.addEventListener("abort", () => resolve()));
      aborted.open(config.signal!.aborted);
      return { n: 2 };
    })
    .addEdge(START, "one")
    .addEdge("one", "long")
    .compile();
  const { plane } = await world({ long: langgraph(graph) });
  const run = plane.assign({ graphId: "long", json: { input: { n: 0 } } });
  await began.passed;
  plane.cancelByWatch(run);
  await plane.ended(run);
  expect(await aborted.passed).toBe(true);
  expect([run.outcome, valuesOf(run)]).toEqual([Outcome.OUTCOME_CANCELLED, { n: 1, log: [] }]);
});

test("nodes, sub-graphs, models and tools are steps, with usage and parents", async () => {
  const search = tool(async ({ q }: { q: string }) => `found ${q}`, {
    name: "search",
    schema: z.object({ q: z.string() }),
  });
  const model = new FakeListChatModel({ responses: ["calling"] });
  const sub = new StateGraph(MessagesAnnotation)
    .addNode("within", async () => ({}))
    .addEdge(START, "within")
    .compile();
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }, config) => {
      await model.invoke(messages, config);
      return {
        messages: [
          new AIMessage({ content: "", id: "call", tool_calls: [{ id: "c1", name: "search", args: { q: "x" } }] }),
        ],
      };
    })
    .addNode("tools", new ToolNode([search]))
    .addNode("team", sub)
    .addEdge(START, "model")
    .addEdge("model", "tools")
    .addEdge("tools", "team")
    .addEdge("team", END)
    .compile();
  const { plane } = await world({ react: langgraph(graph) });
  const run = await plane.ended(
    plane.assign({ graphId: "react", json: { input: { messages: "hi" } }, streamModes: ["tools"] }),
  );
  const names = new Map(run.steps.map(({ id, name }) => [id, name]));
  const steps = run.steps.map(
    ({ kind, name, status, parentId }) => `${kind} ${name} ${status} in ${names.get(parentId) ?? "the run"}`,
  );
  expect(steps.toSorted()).toEqual([
    "agent team success in the run",
    "model FakeListChatModel success in model",
    "node model success in the run",
    "node tools success in the run",
    "tool search success in tools",
  ]);
  const told = run.events.filter(({ mode }) => mode === "tools");
  expect(told.map(({ legacy }) => [legacy.event, legacy.toolCallId, legacy.name])).toEqual([
    ["on_tool_start", "c1", "search"],
    ["on_tool_end", "c1", "search"],
  ]);
  expect(told.map(({ json }) => [json.event, json.tool_call_id])).toEqual([
    ["tool-started", "c1"],
    ["tool-finished", "c1"],
  ]);
});

test("while the lease is in doubt no tool of a graph starts", async () => {
  const go = gate();
  const called: number[] = [];
  const charge = tool(() => called.push(performance.now()), { name: "charge", schema: z.object({}) });
  const graph = new StateGraph(State)
    .addNode("pay", async (_state, config) => {
      await go.passed;
      await charge.invoke({}, config);
      return {};
    })
    .addEdge(START, "pay")
    .compile();
  const { plane } = await world({ pay: langgraph(graph) });
  const run = plane.assign({ graphId: "pay", json: { input: { n: 0 } }, heartbeatMs: 100, leaseMs: 4_000 });
  const beats = (): number => plane.calls.filter(({ method }) => method === "heartbeat").length;
  await until("it is held", () => beats() > 0);
  plane.switches.unavailable.add("heartbeat");
  const deafAt = performance.now();
  await until("two thirds are over", () => performance.now() - deafAt > 2_800);
  const before = beats();
  go.open();
  await until("it asks again", () => beats() > before);
  expect(called).toEqual([]);
  plane.switches.unavailable.clear();
  await plane.ended(run);
  expect([called.length, run.outcome]).toEqual([1, Outcome.OUTCOME_SUCCESS]);
});

test("a graph may be a builder, a promise, or made per run from its config; what is none of these is refused", async () => {
  const builder = new StateGraph(State).addNode("one", async () => ({ n: 1 })).addEdge(START, "one");
  const made: unknown[] = [];
  const agents: Record<string, AgentDefinition> = {
    builder: langgraph(builder),
    promise: langgraph(Promise.resolve(builder.compile())),
    factory: langgraph(async (config: { configurable?: object }) => {
      made.push(config.configurable);
      return builder;
    }),
  };
  const { plane } = await world(agents);
  const json = { input: { n: 0 }, config: { configurable: { user: "u" } } };
  const runs = Object.keys(agents).map((graphId) => plane.assign({ graphId, json }));
  for (const run of runs) expect(valuesOf(await plane.ended(run))["n"]).toBe(1);
  expect(made).toEqual([{ user: "u" }]);
  await expect(world({ wrong: langgraph({ not: "a graph" }) })).rejects.toThrow(
    /agents\.wrong: is not a LangGraph graph/,
  );
});

test("a graph announces that it can be continued, and the shape of its state", async () => {
  const zod = new StateGraph(z.object({ city: z.string(), days: z.number().default(3) }))
    .addNode("a", async () => ({}))
    .addEdge(START, "a")
    .compile();
  const { plane } = await world({
    zod: langgraph(zod),
    plain: langgraph(counting, { description: "counts", maxAttempts: 5 }),
  });
  const [plain, typed] = plane.announced[0]!;
  expect(plain).toMatchObject({
    graphId: "plain",
    description: "counts",
    maxAttempts: 5,
    recovery: Recovery.RECOVERY_CHECKPOINT,
  });
  expect(JSON.parse(plain!.stateSchema.toString())).toMatchObject({ type: "object", properties: { n: {}, log: {} } });
  expect(JSON.parse(typed!.stateSchema.toString())).toMatchObject({
    properties: { city: { type: "string" }, days: { type: "number" } },
  });
});

test("a node that returns a command is followed", async () => {
  const graph = new StateGraph(State)
    .addNode("pick", async () => new Command({ goto: "right", update: { log: ["picked"] } }), {
      ends: ["left", "right"],
    })
    .addNode("left", async () => ({ log: ["left"] }))
    .addNode("right", async () => ({ log: ["right"] }))
    .addEdge(START, "pick")
    .compile();
  const { plane } = await world({ pick: langgraph(graph) });
  const run = await plane.ended(plane.assign({ graphId: "pick", json: { input: { n: 0 } } }));
  expect(valuesOf(run)["log"]).toEqual(["picked", "right"]);
});
