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

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: { approval: langgraph(graph) } });
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
