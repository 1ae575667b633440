import { type AgentDefinition, langgraph } from "@fairlead/runner";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  Command,
  DeltaChannel,
  END,
  MessagesAnnotation,
  messagesDeltaReducer,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  type EventBatch,
  Outcome,
  Purpose,
  Recovery,
  type StreamEventsRequest,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";
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
const viewOf = (
  run: StoredRun,
): { values: object; next: string[]; tasks: { error: string | null }[]; metadata: object } =>
  JSON.parse(
    run.checkpoints
      .filter(({ namespace }) => namespace === "")
      .at(-1)!
      .view.toString(),
  );

test("each step leaves a checkpoint with its parent, its view and the blobs that were new", async () => {
  const { plane } = await world({ counting: langgraph(counting) });
  const run = await plane.ended(plane.assign({ graphId: "counting", json: { input: { n: 1 } } }));
  const views = run.checkpoints.map(({ view }) => JSON.parse(view.toString()) as { values: unknown; next: string[] });
  expect(views.map(({ values, next }) => [values, next])).toEqual([
    [{ log: [] }, ["__start__"]],
    [{ n: 1, log: [] }, ["one"]],
    [{ n: 2, log: ["one"] }, ["two"]],
    [{ n: 3, log: ["one", "two"] }, []],
  ]);
  expect(run.checkpoints.map(({ parentId, step, lineage }) => [parentId, step, lineage])).toEqual(
    run.checkpoints.map((_, index) => [run.checkpoints[index - 1]?.id ?? "", index - 1, "langgraph-js/json"]),
  );
  expect(views.at(-1)).toMatchObject({
    metadata: {
      source: "loop",
      step: 2,
      run_id: run.assignment.run!.runId,
      thread_id: run.assignment.threadId,
      graph_id: "counting",
      assistant_id: "agent-1",
    },
    created_at: expect.stringMatching(/^\d{4}-/),
  });
});

test("a value of several MiB travels in parts of at most 1 MiB, and the next run reads it whole", async () => {
  const Big = Annotation.Root({ big: Annotation<string>(), length: Annotation<number>() });
  const graph = new StateGraph(Big)
    .addNode("measure", async ({ big }) =>
      big === undefined ? { big: "é☃x".repeat(900_000) } : { length: big.length },
    )
    .addEdge(START, "measure")
    .compile();
  const { plane } = await world({ big: langgraph(graph) });
  const first = await plane.ended(plane.assign({ graphId: "big", json: { input: { length: 0 } } }), 20_000);
  const messages = plane.calls.filter(({ method, request }) => method === "streamEvents" && request !== undefined);
  const batches: EventBatch[] = messages.flatMap(({ request }) => (request as StreamEventsRequest).batches);
  const parts = batches.flatMap(({ blobs }) => blobs).filter((blob) => blob.parts > 1);
  expect(parts.length).toBe(parts[0]!.parts);
  expect(parts.length).toBeGreaterThan(4);
  const { threadId } = first.assignment;
  const second = plane.assign({
    ...plane.store.lineage(threadId),
    threadId,
    graphId: "big",
    json: { input: { length: 1 } },
  });
  await plane.ended(second, 20_000);
  expect(valuesOf(second)["length"]).toBe(2_700_000);
});

test("an edit of the state goes through the graph's own reducers and names the node that comes next", async () => {
  const { plane } = await world({ counting: langgraph(counting) });
  const first = await plane.ended(plane.assign({ graphId: "counting", json: { input: { n: 1 } } }));
  const { threadId } = first.assignment;
  const stateUpdate = { values: { n: 10, log: ["edited"] }, as_node: "one" };
  const fields = { ...plane.store.lineage(threadId), threadId, graphId: "counting" };
  const edit = plane.assign({ ...fields, purpose: Purpose.PURPOSE_UPDATE_STATE, json: { stateUpdate } });
  await plane.ended(edit);
  expect(edit.outcome).toBe(Outcome.OUTCOME_SUCCESS);
  expect(valuesOf(edit)).toEqual({ n: 10, log: ["one", "two", "edited"] });
  expect(edit.checkpoints).toHaveLength(1);
  expect(edit.checkpoints[0]!.parentId).toBe(first.checkpoints.at(-1)!.id);
  expect(viewOf(edit)).toMatchObject({ next: ["two"], metadata: { source: "update" } });
  const onwards = plane.assign({ ...fields, ...plane.store.lineage(threadId) });
  await plane.ended(onwards);
  expect(valuesOf(onwards)).toEqual({ n: 11, log: ["one", "two", "edited", "two"] });
  const wrong = { values: {}, as_node: "nobody" };
  const refused = plane.assign({ ...fields, purpose: Purpose.PURPOSE_UPDATE_STATE, json: { stateUpdate: wrong } });
  await plane.ended(refused);
  expect(refused.report!.failure!.message).toMatch(/nobody/);
});

test("a run from an older checkpoint forks: the nodes after it run again, and its parent is that checkpoint", async () => {
  const { plane } = await world({ counting: langgraph(counting) });
  const first = await plane.ended(plane.assign({ graphId: "counting", json: { input: { n: 1 } } }));
  const { threadId } = first.assignment;
  const middle = first.checkpoints.find(({ step }) => step === 1)!;
  const newest = plane.store.lineage(threadId);
  const known = new Set(newest.blobs.map(({ digest }) => digest.toString("hex")));
  const more = middle.channels.filter(({ digest }) => !known.has(digest.toString("hex")));
  const blobs = [...newest.blobs, ...more.map(({ digest }) => plane.store.blob(digest))];
  const checkpoints = [
    { ...middle, writes: first.writes.filter(({ checkpointId }) => checkpointId === middle.id) },
    ...newest.checkpoints,
  ];
  const config = { configurable: { checkpoint_id: middle.id } };
  const fork = plane.assign({ checkpoints, blobs, threadId, graphId: "counting", json: { config } });
  await plane.ended(fork);
  expect(valuesOf(fork)).toEqual({ n: 3, log: ["one", "two"] });
  // LangGraph marks the fork with a checkpoint of its own.
  const line = fork.checkpoints.map(({ id, parentId }) => [id, parentId]);
  expect(line[0]![1]).toBe(middle.id);
  expect(fork.steps.map(({ name }) => name)).toEqual(["two"]);
  const lost = plane.assign({
    ...newest,
    threadId,
    graphId: "counting",
    json: { config: { configurable: { checkpoint_id: "1ef0" } } },
  });
  await plane.ended(lost);
  expect(lost.report!.failure!.message).toMatch(/1ef0 is not a checkpoint of this agent/);
});

test("a thread that an agent of another kind has used starts from its portable state", async () => {
  const { plane } = await world({
    counting: langgraph(counting),
    plain: async () => ({ n: 5, log: ["plain"], more: true }),
  });
  const plain = await plane.ended(plane.assign({ graphId: "plain" }));
  const { threadId } = plain.assignment;
  const threadValues = plain.report!.values;
  const run = plane.assign({
    ...plane.store.lineage(threadId),
    threadId,
    threadValues,
    graphId: "counting",
    json: { input: { log: ["asked"] } },
  });
  await plane.ended(run);
  expect(valuesOf(run)).toEqual({ n: 7, log: ["plain", "asked", "one", "two"] });
});

test("a failing node ends the run with its class and message, and the state names the node", async () => {
  class PriceError extends Error {
    override name = "PriceError";
  }
  const graph = new StateGraph(State)
    .addNode("one", async () => ({ n: 1 }))
    .addNode("bad", async (): Promise<object> => {
      throw new PriceError("no price");
    })
    .addEdge(START, "one")
    .addEdge("one", "bad")
    .compile();
  const { plane } = await world({ bad: langgraph(graph) });
  const run = await plane.ended(plane.assign({ graphId: "bad", json: { input: { n: 0 } } }));
  expect(run.outcome).toBe(Outcome.OUTCOME_ERROR);
  expect(run.report!.failure).toEqual({ type: "PriceError", message: "no price" });
  expect(valuesOf(run)).toEqual({ n: 1, log: [] });
  expect(viewOf(run)).toMatchObject({ next: ["bad"], tasks: [{ name: "bad", error: "no price" }] });
  expect(run.steps.map(({ name, status, error }) => [name, status, error])).toEqual([
    ["one", "success", ""],
    ["bad", "error", "PriceError: no price"],
  ]);
});

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

test("goto, alone and with an update, goes where it says; a target that is none is refused", async () => {
  const { plane } = await world({ counting: langgraph(counting) });
  const first = await plane.ended(plane.assign({ graphId: "counting", json: { input: { n: 1 } } }));
  const { threadId } = first.assignment;
  const go = async (command: object): Promise<StoredRun> =>
    plane.ended(plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "counting", json: { command } }));
  const jumped = await go({ goto: "two", update: { n: 100 } });
  expect(valuesOf(jumped)).toMatchObject({ n: 101 });
  const refused = await go({ goto: [3] });
  expect(refused.report!.failure!.message).toMatch(/^command\.goto: each target must be/);
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

test("a DeltaChannel is whole in the next run, although the plane hands out the newest checkpoint only", async () => {
  const Delta = Annotation.Root({
    messages: () => new DeltaChannel(messagesDeltaReducer),
    quiet: Annotation<number>(),
  });
  const graph = new StateGraph(Delta)
    .addNode("say", async () => ({ messages: [new AIMessage({ content: "said", id: crypto.randomUUID() })] }))
    .addNode("rest", async () => ({ quiet: 1 }))
    .addEdge(START, "say")
    .addEdge("say", "rest")
    .compile();
  const { plane } = await world({ delta: langgraph(graph) });
  const input = { messages: [{ type: "human", content: "x", id: "h" }] };
  const first = await plane.ended(plane.assign({ graphId: "delta", json: { input } }));
  const { threadId } = first.assignment;
  const second = await plane.ended(
    plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "delta", json: { input: { quiet: 0 } } }),
  );
  expect(second.report!.failure).toBeUndefined();
  expect((valuesOf(second)["messages"] as unknown[]).length).toBe(3);
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
