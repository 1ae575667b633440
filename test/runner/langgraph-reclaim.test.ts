import { langgraph } from "@fairlead/runner";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, END, interrupt, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { Outcome } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import type { Plane } from "./support/plane.js";
import type { StoredRun } from "./support/plane-store.js";
import { until } from "./support/until.js";
import { gate, world } from "./support/world.js";

// What a second attempt gets from the plane is what the first one sent there: here the first attempt is cut off at a chosen point and the run is
// assigned again, with the checkpoints that the plane has stored by then.

const State = Annotation.Root({
  path: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  answers: Annotation<unknown[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const valuesOf = (run: StoredRun): Record<string, unknown> =>
  JSON.parse(run.report!.values.toString()) as Record<string, unknown>;

/** Counts how often each node did its work, and lets the test hold one of them in its first attempt. */
function counter() {
  const done: string[] = [];
  const reached = gate();
  const held = gate();
  let holdAt: string | undefined;
  return {
    done,
    reached: reached.passed,
    hold: (name: string) => {
      holdAt = name;
    },
    letGo: held.open,
    work: async (name: string): Promise<void> => {
      if (holdAt === name) {
        holdAt = undefined;
        reached.open();
        await held.passed;
        // Whoever held it is superseded by now: its result must count for nothing.
        return;
      }
      done.push(name);
    },
  };
}

function line(work: (name: string) => Promise<void>) {
  const node = (name: string) => async () => {
    await work(name);
    return { path: [name] };
  };
  return new StateGraph(State)
    .addNode("a", node("a"))
    .addNode("b", node("b"))
    .addNode("c", node("c"))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .addEdge("c", END)
    .compile();
}

/** Gives the run to the next attempt, as the plane does when a runner is lost; also when it was lost just before its report was recorded. */
async function reclaim(plane: Plane, run: StoredRun): Promise<StoredRun> {
  run.outcome = Outcome.OUTCOME_UNSPECIFIED;
  plane.reassign(run);
  return plane.ended(run);
}

test.each(["a", "b", "c"])(
  "a run whose runner is lost in node %s continues there, and what was done is done once",
  async (at) => {
    const { done, hold, reached, letGo, work } = counter();
    hold(at);
    const { plane } = await world({ line: langgraph(line(work)) });
    const run = plane.assign({ graphId: "line", json: { input: { path: ["start"] } } });
    await reached;
    await until("the checkpoint before it is stored", () =>
      run.checkpoints.some(({ view }) => nextOf(view).includes(at)),
    );
    await reclaim(plane, run);
    letGo();
    expect(run.outcome).toBe(Outcome.OUTCOME_SUCCESS);
    expect(valuesOf(run)["path"]).toEqual(["start", "a", "b", "c"]);
    expect(done).toEqual(["a", "b", "c"]);
  },
);

function nextOf(view: Buffer): string[] {
  return view.length === 0 ? [] : (JSON.parse(view.toString()) as { next: string[] }).next;
}

test("of parallel nodes only those that had not ended are run again", async () => {
  const { done, hold, reached, letGo, work } = counter();
  hold("slow");
  const node = (name: string) => async () => {
    await work(name);
    return { path: [name] };
  };
  const graph = new StateGraph(State)
    .addNode("quick", node("quick"))
    .addNode("slow", node("slow"))
    .addNode("join", node("join"))
    .addEdge(START, "quick")
    .addEdge(START, "slow")
    .addEdge(["quick", "slow"], "join")
    .compile();
  const { plane } = await world({ fan: langgraph(graph) });
  const run = plane.assign({ graphId: "fan", json: { input: {} } });
  await reached;
  await until("the quick one's writes are stored", () =>
    run.writes.some(({ channel, data }) => channel === "path" && data.toString().includes("quick")),
  );
  await reclaim(plane, run);
  letGo();
  expect((valuesOf(run)["path"] as string[]).toSorted()).toEqual(["join", "quick", "slow"]);
  expect(done.toSorted()).toEqual(["join", "quick", "slow"]);
});

test("a sub-graph continues inside, from its own checkpoint", async () => {
  const { done, hold, reached, letGo, work } = counter();
  hold("b");
  const graph = new StateGraph(State).addNode("inner", line(work)).addEdge(START, "inner").compile();
  const { plane } = await world({ outer: langgraph(graph) });
  const run = plane.assign({ graphId: "outer", json: { input: {} } });
  await reached;
  await until("the inner checkpoint is stored", () =>
    run.checkpoints.some(({ namespace, step }) => namespace !== "" && step === 1),
  );
  await reclaim(plane, run);
  letGo();
  expect(done).toEqual(["a", "b", "c"]);
  expect(valuesOf(run)["path"]).toEqual(["a", "b", "c"]);
});

test("a run that had ended, but whose report was lost, ends again without running anything", async () => {
  const { done, work } = counter();
  const { plane } = await world({ line: langgraph(line(work)) });
  const run = await plane.ended(plane.assign({ graphId: "line", json: { input: {} } }));
  await reclaim(plane, run);
  expect(done).toEqual(["a", "b", "c"]);
  expect(run.reports.map(({ values }) => values.toString())).toEqual(
    Array(2).fill('{"path":["a","b","c"],"answers":[]}'),
  );
});

const asking = new StateGraph(State)
  .addNode("ask", async () => {
    const first: unknown = interrupt("first?");
    const second: unknown = interrupt("second?");
    return { answers: [first, second] };
  })
  .addEdge(START, "ask")
  .compile();

const nestedAsking = new StateGraph(State).addNode("inner", asking).addEdge(START, "inner").compile();

async function answer(plane: Plane, threadId: string, command: object): Promise<StoredRun> {
  const run = plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "asking", json: { command } });
  return plane.ended(run);
}

test("an answer continues the graph at its question, run after run", async () => {
  const { plane } = await world({ asking: langgraph(asking) });
  const first = await plane.ended(plane.assign({ graphId: "asking", json: { input: {} } }));
  const { threadId } = first.assignment;
  expect(first.report!.interrupts.map(({ value }) => value.toString())).toEqual(['"first?"']);
  const second = await answer(plane, threadId, { resume: "one" });
  expect(second.report!.interrupts.map(({ value }) => value.toString())).toEqual(['"second?"']);
  const third = await answer(plane, threadId, { resume: { [second.report!.interrupts[0]!.id]: "two" } });
  expect(third.outcome).toBe(Outcome.OUTCOME_SUCCESS);
  expect(valuesOf(third)["answers"]).toEqual(["one", "two"]);
});

test.each([
  ["by value", (_id: string) => "one", asking],
  ["by id", (id: string) => ({ [id]: "one" }), asking],
  ["by value, in a sub-graph,", (_id: string) => "one", nestedAsking],
  ["by id, in a sub-graph,", (id: string) => ({ [id]: "one" }), nestedAsking],
])("a lost runner does not use an answer %s twice", async (_way, resume, graph) => {
  const { plane } = await world({ asking: langgraph(graph) });
  const first = await plane.ended(plane.assign({ graphId: "asking", json: { input: {} } }));
  const { threadId } = first.assignment;
  const command = { resume: resume(first.report!.interrupts[0]!.id) };
  const second = plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "asking", json: { command } });
  // The first attempt has used the answer and stands at the second question.
  await plane.ended(second);
  await reclaim(plane, second);
  expect(second.reports).toHaveLength(2);
  expect(second.outcome).toBe(Outcome.OUTCOME_WAITING);
  expect(second.report!.interrupts.map(({ value }) => value.toString())).toEqual(['"second?"']);
  const third = await answer(plane, threadId, { resume: "two" });
  expect(valuesOf(third)["answers"]).toEqual(["one", "two"]);
});

test("a lost runner does not run past a breakpoint", async () => {
  const { done, work } = counter();
  const { plane } = await world({ line: langgraph(line(work)) });
  const run = await plane.ended(plane.assign({ graphId: "line", json: { input: {} }, interruptBefore: ["c"] }));
  await reclaim(plane, run);
  expect([run.outcome, run.report!.next, done]).toEqual([Outcome.OUTCOME_WAITING, ["c"], ["a", "b"]]);
  const { threadId } = run.assignment;
  const next = await plane.ended(
    plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "line", interruptBefore: ["c"] }),
  );
  expect([next.outcome, done]).toEqual([Outcome.OUTCOME_SUCCESS, ["a", "b", "c"]]);
});

test("several open questions are told with the sub-graph that asks, and answered one by one", async () => {
  const inner = new StateGraph(State)
    .addNode("deep", async () => ({ answers: [interrupt("deep?")] }))
    .addEdge(START, "deep")
    .compile();
  const graph = new StateGraph(State)
    .addNode("fan", async () => ({}))
    .addNode("one", async () => ({ answers: [interrupt("one?")] }))
    .addNode("sub", inner)
    .addEdge(START, "fan")
    .addConditionalEdges("fan", () => [new Send("one", {}), new Send("sub", {})])
    .compile();
  const { plane } = await world({ asking: langgraph(graph) });
  const run = await plane.ended(plane.assign({ graphId: "asking", json: { input: {} } }));
  const questions = run.report!.interrupts.map(({ id, namespace, value }) => ({
    id,
    namespace,
    value: value.toString(),
  }));
  expect(questions).toHaveLength(2);
  const [one, deep] = ['"one?"', '"deep?"'].map((value) => questions.find((question) => question.value === value)!);
  expect(one!.namespace).toEqual([]);
  expect(deep!.namespace).toEqual([expect.stringMatching(/^sub:[0-9a-f-]{36}$/)]);
  const view = JSON.parse(
    run.checkpoints
      .filter(({ namespace }) => namespace === "")
      .at(-1)!
      .view.toString(),
  ) as {
    tasks: { name: string; interrupts: unknown[]; checkpoint: { checkpoint_ns: string } | null }[];
  };
  expect(view.tasks.map(({ name, interrupts }) => `${name} ${interrupts.length}`).toSorted()).toEqual([
    "one 1",
    "sub 1",
  ]);
  expect(view.tasks.find(({ name }) => name === "sub")!.checkpoint!.checkpoint_ns).toBe(deep!.namespace[0]);
  const { threadId } = run.assignment;
  const half = await answer(plane, threadId, { resume: { [one!.id]: "1" } });
  expect(half.report!.interrupts.map(({ id }) => id)).toEqual([deep!.id]);
  const whole = await answer(plane, threadId, { resume: { [deep!.id]: "2" } });
  expect((valuesOf(whole)["answers"] as string[]).toSorted()).toEqual(["1", "2"]);
});

test("messages keep their ids from run to run, and a second run adds to the first", async () => {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("say", async ({ messages }) => ({ messages: [new AIMessage(`${messages.length} before`)] }))
    .addEdge(START, "say")
    .compile();
  const { plane } = await world({ say: langgraph(graph) });
  const input = (content: string, id?: string): object => ({ messages: [{ type: "human", content, id }] });
  const first = await plane.ended(plane.assign({ graphId: "say", json: { input: input("a", "client-id") } }));
  const { threadId } = first.assignment;
  const second = await plane.ended(
    plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "say", json: { input: input("b") } }),
  );
  const [before, after] = [first, second].map((run) => valuesOf(run)["messages"] as { id: string; content: string }[]);
  expect(before![0]!.id).toBe("client-id");
  expect(after!.slice(0, 2)).toEqual(before);
  expect(after!.map(({ content }) => content)).toEqual(["a", "1 before", "b", "3 before"]);
  expect(new Set(after!.map(({ id }) => id)).size).toBe(4);
});
