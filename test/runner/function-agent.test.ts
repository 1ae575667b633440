import { agent, type RunContext, RunnerError } from "@fairlead/runner";
import { expect, test } from "vitest";
import { Family, Outcome, Purpose, Retention } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import type { StoredRun } from "./support/plane-store.js";
import { until } from "./support/until.js";
import { gate, world } from "./support/world.js";

/** Name, legacy body and v2 body of every event that is for legacy streams, and only the v2 body of the others. */
function told(run: StoredRun): unknown[] {
  return run.events
    .filter((event) => event.family !== Family.FAMILY_CHECKPOINTS)
    .map((event) => (event.mode === "" ? event.json : [event.name || event.mode, event.legacy ?? event.json]));
}

test("a plain function gets its input and its result becomes the thread's state", async () => {
  const { plane } = await world({
    echo: async (run) => ({
      said: run.input.text,
      before: run.values.count,
      user: run.context.user,
      limit: run.config.limit,
    }),
  });
  const run = plane.assign({
    json: {
      input: { text: "hallo ☃" },
      threadValues: { count: 3 },
      context: { user: "u1" },
      agentConfig: { limit: 1, tags: ["a"] },
      config: { limit: 2, tags: ["b"] },
    },
  });
  await plane.ended(run);
  const state = { said: "hallo ☃", before: 3, user: "u1", limit: 2 };
  expect(run.outcome).toBe(Outcome.OUTCOME_SUCCESS);
  expect(JSON.parse(run.report!.values.toString())).toEqual(state);
  expect(told(run)).toEqual([["values", state]]);
});

test("a short run needs no message on the stream: its events and its state travel with one report", async () => {
  const { plane } = await world({ echo: async (run) => ({ got: run.input }) });
  const run = plane.assign({ json: { input: 1 } });
  await plane.ended(run);
  expect(plane.calls.filter(({ method }) => method === "reportStatus")).toHaveLength(1);
  expect(plane.calls.filter(({ method }) => method === "heartbeat")).toHaveLength(0);
  const batches = plane.calls.flatMap(({ request }) => (request as { batches?: unknown[] } | undefined)?.batches ?? []);
  expect(batches).toEqual([]);
  expect(run.report!.tail!.first).toBe(1);
  expect(run.report!.events).toBe(run.events.length);
});

test("what a function emits comes in order, in both grammars, for the modes that were asked for", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => {
      await run.emit.custom({ step: 1 });
      await run.emit.custom({ name: "progress", payload: 50 });
      await run.emit.updates("node", { a: 1 });
      await run.emit.values({ a: 1 });
      return { a: 2 };
    },
  });
  const all = plane.assign({ streamModes: ["values", "updates", "custom"] });
  const none = plane.assign({ streamModes: ["tasks"] });
  await Promise.all([plane.ended(all), plane.ended(none)]);
  expect(told(all)).toEqual([
    ["custom", { step: 1 }],
    ["custom", { name: "progress", payload: 50 }],
    ["updates", { node: { a: 1 } }],
    ["values", { a: 1 }],
    ["values", { a: 2 }],
  ]);
  expect(all.events[0]!.json).toEqual({ payload: { step: 1 } });
  expect(all.events[2]).toMatchObject({ node: "node", json: { a: 1 } });
  expect(told(none)).toEqual([
    { payload: { step: 1 } },
    { name: "progress", payload: 50 },
    { a: 1 },
    { a: 1 },
    { a: 2 },
  ]);
});

test("pieces of a message are one message: as deltas, as pairs, and as growing wholes", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => {
      for (const piece of ["Hel", "lo", " you"]) await run.emit.messages(piece, { id: "m1", node: "talk" });
      return { messages: [{ type: "ai", content: "Hello you", id: "m1" }] };
    },
  });
  const run = plane.assign({ streamModes: ["messages-tuple", "messages"] });
  await plane.ended(run);
  const v2 = run.events.filter(({ family, json }) => family === Family.FAMILY_MESSAGES && json).map(({ json }) => json);
  expect(v2).toMatchObject([
    { event: "message-start", id: "m1", role: "ai" },
    { event: "content-block-start", index: 0, content: { type: "text", text: "" } },
    { event: "content-block-delta", index: 0, delta: { type: "text-delta", text: "Hel" } },
    { event: "content-block-delta", index: 0, delta: { type: "text-delta", text: "lo" } },
    { event: "content-block-delta", index: 0, delta: { type: "text-delta", text: " you" } },
    { event: "content-block-finish", index: 0, content: { type: "text", text: "Hello you" } },
    { event: "message-finish" },
  ]);
  const legacy = run.events.filter((event) => event.legacy).map((event) => [event.name, event.legacy]);
  const pairs = legacy.filter(([name]) => name === "messages").map(([, body]) => body);
  expect(pairs.map(([piece]) => piece.content)).toEqual(["Hel", "lo", " you"]);
  expect(pairs[0]).toMatchObject([
    { id: "m1", type: "ai" },
    { langgraph_node: "talk", run_id: run.assignment.run!.runId, thread_id: run.assignment.threadId },
  ]);
  const wholes = legacy.filter(([name]) => name !== "messages");
  expect(wholes.map(([name, body]) => [name, body[0]?.content])).toEqual([
    ["messages/metadata", undefined],
    ["messages/partial", "Hel"],
    ["messages/partial", "Hello"],
    ["messages/partial", "Hello you"],
    ["messages/complete", "Hello you"],
  ]);
  const deltas = run.events.filter(({ retention }) => retention === Retention.RETENTION_DELTA);
  expect(deltas.length).toBe(6);
});

test("LangChain messages in a plain function's state are written as clients read them", async () => {
  const { AIMessage } = await import("@langchain/core/messages");
  const { plane } = await world({ echo: async () => ({ messages: [new AIMessage({ content: "hi", id: "m" })] }) });
  const run = plane.assign();
  await plane.ended(run);
  expect(run.events.at(-1)!.json.messages).toMatchObject([{ type: "ai", content: "hi", id: "m" }]);
});

test("a question ends the run as waiting, and the answer continues it; every question keeps its id", async () => {
  const asked: unknown[] = [];
  const { plane } = await world({
    echo: async (run: RunContext) => {
      const name = run.interrupt({ ask: "name" });
      asked.push(name);
      const age = run.interrupt({ ask: "age" });
      return { name, age, greeting: run.input.greeting };
    },
  });
  const first = plane.assign({
    json: { input: { greeting: "hi" }, threadValues: { old: true } },
    streamModes: ["values", "updates"],
  });
  await plane.ended(first);
  const [question] = first.report!.interrupts;
  expect(first.outcome).toBe(Outcome.OUTCOME_WAITING);
  expect(question!.id).toMatch(/^[0-9a-f]{32}$/);
  expect(JSON.parse(question!.value.toString())).toEqual({ ask: "name" });
  const shown = { __interrupt__: [{ id: question!.id, value: { ask: "name" } }] };
  expect(told(first)).toEqual([
    { interrupt_id: question!.id, payload: { ask: "name" }, value: { ask: "name" } },
    ["updates", shown],
    // The state stays whole: a client that takes this for the state must not lose it.
    ["values", { old: true, ...shown }],
  ]);
  const { threadId } = first.assignment;
  const again = plane.reassign(first);
  await until("the same question in the second attempt", () => again.reports.length === 2);
  expect(again.reports[1]!.interrupts[0]!.id).toBe(question!.id);

  const second = plane.assign({ ...plane.store.lineage(threadId), threadId, json: { command: { resume: "Ada" } } });
  await plane.ended(second);
  expect(second.outcome).toBe(Outcome.OUTCOME_WAITING);
  expect(second.report!.interrupts[0]!.id).not.toBe(question!.id);
  const byId = { [second.report!.interrupts[0]!.id]: 36 };
  const third = plane.assign({ ...plane.store.lineage(threadId), threadId, json: { command: { resume: byId } } });
  await plane.ended(third);
  expect(JSON.parse(third.report!.values.toString())).toEqual({ name: "Ada", age: 36, greeting: "hi" });
  expect(asked).toEqual(["Ada", "Ada"]);
  expect(JSON.parse(third.checkpoints.at(-1)!.view.toString())).toMatchObject({ next: [], tasks: [] });

  const lost = plane.assign({ ...plane.store.lineage(threadId), threadId, json: { command: { resume: 1 } } });
  await plane.ended(lost);
  expect(lost.report!.failure!.message).toMatch(/no open question/);
});

test("the state after each run stands in the thread's history, and at a question it shows the question", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => ({ n: run.input }),
    asks: async (run: RunContext) => run.interrupt("sure?"),
    quiet: agent(async (run: RunContext) => ({ n: run.input }), { history: false }),
  });
  const threadId = crypto.randomUUID();
  for (const n of [1, 2]) {
    await plane.ended(plane.assign({ ...plane.store.lineage(threadId), threadId, json: { input: n } }));
  }
  const waiting = plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "asks", json: { input: 0 } });
  await plane.ended(waiting);
  const history = [...plane.store.runs.values()].flatMap((run) => run.checkpoints);
  expect(history.map(({ step, parentId }) => [step, parentId])).toEqual([
    [0, ""],
    [1, history[0]!.id],
    [2, history[1]!.id],
  ]);
  expect(history.map(({ id }) => id).toSorted()).toEqual(history.map(({ id }) => id));
  const views = history.map((checkpoint) => JSON.parse(checkpoint.view.toString()));
  expect(views.map((view) => [view.values, view.next])).toEqual([
    [{ n: 1 }, []],
    [{ n: 2 }, []],
    [{}, ["asks"]],
  ]);
  expect(views[2].tasks[0].interrupts).toEqual([{ id: waiting.report!.interrupts[0]!.id, value: "sure?" }]);
  expect(views[1].metadata).toMatchObject({ source: "loop", step: 1, thread_id: threadId, graph_id: "echo" });
  const quiet = plane.assign({ graphId: "quiet", json: { input: 1 } });
  await plane.ended(quiet);
  expect(quiet.checkpoints).toEqual([]);
});

test("an edit of the state merges keys and is a run without the function", async () => {
  let called = 0;
  const { plane } = await world({
    echo: async () => {
      called += 1;
    },
  });
  const run = plane.assign({
    purpose: Purpose.PURPOSE_UPDATE_STATE,
    json: { threadValues: { a: 1, b: 1 }, stateUpdate: { values: { b: 2 }, as_node: "any" } },
  });
  await plane.ended(run);
  expect(JSON.parse(run.report!.values.toString())).toEqual({ a: 1, b: 2 });
  expect(JSON.parse(run.checkpoints[0]!.view.toString()).metadata.source).toBe("update");
  expect(called).toBe(0);
});

class QuotaError extends Error {}

test.each([
  ["an error", () => Promise.reject(new QuotaError("too much")), { type: "QuotaError", message: "too much" }],
  ["a thrown text", () => Promise.reject("boom"), { type: "Error", message: "boom" }],
  ["a result that is not JSON", async () => ({ n: 1n }), { type: "RunnerError", message: /result.*JSON.*BigInt/ }],
  ["a cycle", async () => cyclic(), { type: "RunnerError", message: /result.*JSON.*circular/ }],
  [
    "an emit that is not JSON",
    async (run: RunContext) => run.emit.custom({ n: 1n }),
    { message: /custom cannot be written as JSON/ },
  ],
  [
    "an event above 16 MiB",
    async (run: RunContext) => run.emit.custom("x".repeat(17 * 2 ** 20)),
    { message: /limit is 16777216/ },
  ],
])("%s ends the run as an error that says class and message, and no stack", async (_what, work, failure) => {
  const { plane } = await world({ echo: work as () => Promise<unknown> });
  const run = plane.assign({ json: { threadValues: { kept: true } } });
  await plane.ended(run);
  expect(run.outcome).toBe(Outcome.OUTCOME_ERROR);
  const { type, message } = run.report!.failure!;
  if ("type" in failure) expect(type).toBe(failure.type);
  expect(message).toMatch(failure.message);
  expect(message).not.toMatch(/ at .*:\d+:\d+/);
});

function cyclic(): object {
  const value: Record<string, unknown> = {};
  value["self"] = value;
  return value;
}

test("the newest state that a failed function emitted is the state of the thread", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => {
      await run.emit.values({ half: "done" });
      throw new Error("then it broke");
    },
  });
  const run = plane.assign();
  await plane.ended(run);
  expect([run.outcome, run.report!.values.toString()]).toEqual([Outcome.OUTCOME_ERROR, '{"half":"done"}']);
});

test("an event after the end is refused with a clear error, and the process lives", async () => {
  const late = gate();
  const refused = gate<unknown>();
  const { plane, log } = await world({
    echo: async (run: RunContext) => {
      void late.passed.then(() => {
        void run.emit.custom("unheard");
      });
      void late.passed.then(() => run.emit.custom("heard")).catch(refused.open);
      return {};
    },
  });
  const run = plane.assign();
  await plane.ended(run);
  late.open();
  expect(await refused.passed).toMatchObject({
    code: "late_event",
    message: /has ended.*Await all work before returning/,
  });
  expect(log.filter((line) => line.includes("has ended"))).toHaveLength(1);
  const next = plane.assign();
  await plane.ended(next);
  expect(next.outcome).toBe(Outcome.OUTCOME_SUCCESS);
});

test("steps are told when they start and when they end, with parents, usage and failures", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => {
      const result = await run.step("agent", "plan", async (outer) => {
        await run.step("model", "gpt", (step) => step.usage({ input_tokens: 3, output_tokens: 4 }));
        return outer.idempotencyKey;
      });
      await run.step("tool", "search", () => Promise.reject(new RangeError("no index"))).catch(() => {});
      await run.step("tool", "search", () => "found");
      return { result };
    },
  });
  const run = plane.assign();
  await plane.ended(run);
  expect(
    run.steps.map(({ id, parentId, kind, status, error, usage }) => [
      id,
      parentId,
      kind,
      status,
      error,
      usage.toString(),
    ]),
  ).toEqual([
    ["agent:plan:1", "", "agent", "success", "", ""],
    ["model:gpt:1", "agent:plan:1", "model", "success", "", '{"input_tokens":3,"output_tokens":4}'],
    ["tool:search:1", "", "tool", "error", "RangeError: no index", ""],
    ["tool:search:2", "", "tool", "success", "", ""],
  ]);
  expect(run.steps.every((step) => step.endedMs >= step.startedMs && step.startedMs > 0)).toBe(true);
  expect(JSON.parse(run.report!.values.toString()).result).toBe(`${run.assignment.run!.runId}:agent:plan:1`);
  expect(run.events.filter(({ family }) => family === Family.FAMILY_STEPS)).toHaveLength(8);
});

test("a step of an unknown kind is refused, and a long name makes no id that the plane refuses", async () => {
  const { plane } = await world({
    wrong: async (run: RunContext) => run.step("thing" as "tool", "x", () => 1),
    long: async (run: RunContext) => run.step("tool", "n".repeat(500), () => 1),
  });
  const wrong = await plane.ended(plane.assign({ graphId: "wrong" }));
  expect(wrong.report!.failure!.message).toMatch(/the kind "thing" is unknown\. Use model, tool/);
  const long = await plane.ended(plane.assign({ graphId: "long" }));
  expect(long.steps[0]!.id).toMatch(/^[0-9a-f]{64}$/);
});

test("a command that a plain function cannot follow is refused by name", async () => {
  const { plane } = await world({ echo: async () => ({}) });
  const update = plane.assign({ json: { command: { update: { a: 1 } } } });
  const elsewhere = plane.assign({ json: { command: { goto: "node" } } });
  const end = plane.assign({ json: { command: { goto: "__end__", update: null }, threadValues: { kept: 1 } } });
  await Promise.all([plane.ended(update), plane.ended(elsewhere), plane.ended(end)]);
  expect(update.report!.failure!.message).toMatch(/^command\.update: .*reducers/);
  expect(elsewhere.report!.failure!.message).toMatch(/^command\.goto: .*nodes/);
  expect(end.report!.values.toString()).toBe('{"kept":1}');
});

test("a run for an agent that this runner does not have ends with a list of those it has", async () => {
  const { plane } = await world({ echo: async () => ({}), other: async () => ({}) });
  const run = plane.assign({ graphId: "nobody" });
  await plane.ended(run);
  expect(run.report!.failure).toEqual({
    type: "UnknownAgent",
    message: 'This runner has no agent "nobody"; it has: echo, other.',
  });
});

test.each([
  [{ "no spaces": async () => ({}) }, /agents: "no spaces" is not a valid name/],
  [{ a: agent(async () => ({}), { maxAttempts: 0 }) }, /agents\.a\.maxAttempts: must be a whole number from 1/],
  [{ a: agent(async () => ({}), { recovery: "later" as "fail" }) }, /agents\.a\.recovery: "later" is unknown/],
  [{ a: 3 as unknown as () => Promise<unknown> }, /agents\.a: must be a function/],
])("wrong options are refused with field and reason", async (agents, message) => {
  const refusal = await world(agents).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(refusal).toBeInstanceOf(RunnerError);
  expect((refusal as RunnerError).message).toMatch(message);
});
