import { langgraph } from "@fairlead/runner";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, DeltaChannel, messagesDeltaReducer, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import {
  type EventBatch,
  Outcome,
  type PendingWrite,
  Purpose,
  type StreamEventsRequest,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import type { StoredRun } from "./support/plane-store.js";
import { until } from "./support/until.js";
import { world } from "./support/world.js";

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

test.each([
  ["by name", "with"],
  ["unnamed", "with"],
  ["by name", "without"],
  ["unnamed", "without"],
])(
  "a run from an older checkpoint, %s and %s the writes that came after it, branches off there: what came after is run again",
  async (way, writes) => {
    const ran: number[] = [];
    const graph = new StateGraph(State)
      .addNode("one", async ({ n }) => ({ n: n + 1, log: ["one"] }))
      .addNode("two", async ({ n }) => {
        ran.push(n);
        // The checkpoint before this node leaves while it works, and so its writes are sent as well.
        if (writes === "with")
          await until("the checkpoint has left", () => first.checkpoints.some(({ step }) => step === 1));
        return { n: n + 1, log: ["two"] };
      })
      .addEdge(START, "one")
      .addEdge("one", "two")
      .compile();
    const { plane } = await world({ counting: langgraph(graph) });
    const first = plane.assign({ graphId: "counting", json: { input: { n: 1 } } });
    await plane.ended(first);
    const { threadId } = first.assignment;
    // As the plane sends it: that checkpoint alone, with the writes of the tasks that ran after it.
    const middle = first.checkpoints.find(({ step }) => step === 1)!;
    const blobs = middle.channels.map(({ digest }) => plane.store.blob(digest));
    const json = way === "by name" ? { config: { configurable: { checkpoint_id: middle.id } } } : {};
    const left = (...runs: StoredRun[]) =>
      runs.flatMap((run) => run.writes).filter(({ checkpointId }) => checkpointId === middle.id);
    expect(left(first).length > 0).toBe(writes === "with");
    const branchOff = (given: PendingWrite[]): Promise<StoredRun> =>
      plane.ended(
        plane.assign({ checkpoints: [{ ...middle, writes: given }], blobs, threadId, graphId: "counting", json }),
      );
    const branch = await branchOff(left(first));
    const next = await branchOff(left(first, branch));
    expect(ran).toEqual([2, 2, 2]);
    for (const run of [branch, next]) {
      expect(valuesOf(run)).toEqual({ n: 3, log: ["one", "two"] });
      expect(run.checkpoints[0]!.parentId).toBe(middle.id);
      expect(viewOf(run)).toMatchObject({ next: [] });
      // What a later task gave must not be taken for what the first one gave.
      if (left(first).length > 0) expect(left(run)).toEqual([]);
    }
  },
);

test("a run whose thread goes with it sends no checkpoint at its end, but those that it may have to continue from, if it takes longer", async () => {
  const graph = new StateGraph(State)
    .addNode("one", async ({ n }) => {
      if (n > 1) await until("the checkpoint before has left", () => slow.checkpoints.length > 0);
      return { n, log: ["one"] };
    })
    .addEdge(START, "one")
    .compile();
  const { plane } = await world({ counting: langgraph(graph) });
  const fields = { graphId: "counting", ephemeral: true };
  const quick = plane.assign({ ...fields, json: { input: { n: 1 } } });
  await plane.ended(quick);
  expect([quick.checkpoints, quick.writes, quick.steps.length > 0]).toEqual([[], [], true]);
  expect(quick.events.some(({ json }) => json?.step === 1)).toBe(true);
  const slow = plane.assign({ ...fields, json: { input: { n: 2 } } });
  await plane.ended(slow);
  expect(slow.checkpoints.map(({ step }) => step)).toEqual([-1, 0]);
});

test("a checkpoint that is not there is refused by name", async () => {
  const { plane } = await world({ counting: langgraph(counting) });
  const json = { input: { n: 1 }, config: { configurable: { checkpoint_id: "1ef0" } } };
  const run = await plane.ended(plane.assign({ graphId: "counting", json }));
  expect(run.report!.failure!.message).toMatch(/1ef0 is not a checkpoint of this agent/);
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
