import { langgraph } from "@fairlead/runner";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWorld, type World } from "../../support/world.js";

const State = Annotation.Root({
  steps: Annotation<string[]>({ reducer: (old, more) => old.concat(more), default: () => [] }),
});
const graph = new StateGraph(State)
  .addNode("plan", () => ({ steps: ["planned"] }))
  .addNode("approve", () => ({ steps: [`approved: ${interrupt({ question: "go?" })}`] }))
  .addEdge(START, "plan")
  .addEdge("plan", "approve")
  .addEdge("approve", END);

const innermost = new StateGraph(State)
  .addNode("ask", () => ({ steps: [`answered: ${interrupt({ question: "deep?" })}`] }))
  .addEdge(START, "ask")
  .compile();
const inner = new StateGraph(State)
  .addNode("prepare", () => ({ steps: ["prepared"] }))
  .addNode("innermost", innermost)
  .addEdge(START, "prepare")
  .addEdge("prepare", "innermost")
  .compile();
const outer = new StateGraph(State).addNode("inner", inner).addEdge(START, "inner");

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: { approval: langgraph(graph), outer: langgraph(outer) } });
});
afterAll(() => world.stop());

test("a LangGraph graph streams, stops to ask, is edited with its own reducers, and goes on with the answer", async () => {
  const { runs, threads } = world.client();
  const { thread_id: thread } = await threads.create();
  const parts: { event: string; data: unknown }[] = [];
  for await (const part of runs.stream(thread, "approval", {
    input: { steps: ["asked"] },
    streamMode: ["values", "updates"],
  })) {
    parts.push({ event: part.event, data: part.data });
  }
  expect(parts).toContainEqual({ event: "updates", data: { plan: { steps: ["planned"] } } });
  expect(parts.at(-1)).toEqual({ event: "end", data: { status: "success" } });
  const waiting = await threads.getState(thread);
  expect(waiting).toMatchObject({ values: { steps: ["asked", "planned"] }, next: ["approve"] });
  expect(waiting.tasks[0]?.interrupts).toMatchObject([{ value: { question: "go?" } }]);
  expect(await threads.get(thread)).toMatchObject({ status: "interrupted" });
  expect(await runs.wait(thread, "approval", { command: { resume: "yes" } })).toEqual({
    steps: ["asked", "planned", "approved: yes"],
  });
  expect(await threads.getState(thread)).toMatchObject({ next: [], tasks: [] });
  await threads.updateState(thread, { values: { steps: ["edited"] }, asNode: "approve" });
  const states = await threads.getHistory(thread);
  expect(states[0]?.values).toEqual({ steps: ["asked", "planned", "approved: yes", "edited"] });
  expect(states.length).toBeGreaterThanOrEqual(4);
});

test("subgraphs=true shows the states of sub-graphs in their tasks, however deep; without it tasks name the checkpoints alone", async () => {
  const { runs, threads } = world.client();
  const { thread_id: thread } = await threads.create();
  await runs.wait(thread, "outer", { input: { steps: ["start"] } });
  const asked = [{ value: { question: "deep?" } }];
  const plain = await threads.getState(thread);
  expect(plain.tasks).toMatchObject([
    { name: "inner", state: null, checkpoint: { checkpoint_ns: expect.stringMatching(/^inner:/) } },
  ]);
  const state = await threads.getState(thread, undefined, { subgraphs: true });
  const [task] = state.tasks;
  expect(task).toMatchObject({
    name: "inner",
    state: {
      values: { steps: ["start", "prepared"] },
      next: ["innermost"],
      checkpoint: { checkpoint_ns: task?.checkpoint?.checkpoint_ns, thread_id: thread },
      tasks: [
        { name: "innermost", state: { next: ["ask"], tasks: [{ name: "ask", interrupts: asked }], interrupts: asked } },
      ],
    },
  });
  const byId = await threads.getState(thread, state.checkpoint.checkpoint_id as string, { subgraphs: true });
  expect(byId.tasks[0]?.state).toEqual(task?.state);
  const byBody = await threads.getState(thread, state.checkpoint, { subgraphs: true });
  expect(byBody.tasks[0]?.state).toEqual(task?.state);
  expect(await runs.wait(thread, "outer", { command: { resume: "yes" } })).toMatchObject({
    steps: expect.arrayContaining(["answered: yes"]),
  });
  expect((await threads.getState(thread, undefined, { subgraphs: true })).tasks).toEqual([]);
});
