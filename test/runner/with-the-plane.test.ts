import { type AgentDefinition, createRunner, langgraph, type Runner, silentLogger } from "@fairlead/runner";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { type PlaneProcess, planePorts, startPlane } from "../support/processes.js";
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";
import { agent as streaming } from "./support/peer-graphs.js";

// The same runner behind the built plane, driven by the registry's SDK: what the recorder plane cannot tell is whether both sides mean the same.

let database: TestDatabase;
let plane: PlaneProcess;
let tenants: TestTenants;
let runner: Runner;
let client: Client;
let spoken = 0;

const parrot = new StateGraph(MessagesAnnotation)
  .addNode("say", async () => {
    spoken += 1;
    return { messages: [new AIMessage({ content: `answer ${spoken}`, id: crypto.randomUUID() })] };
  })
  .addEdge(START, "say")
  .compile();

const Asked = Annotation.Root({
  ...MessagesAnnotation.spec,
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  big: Annotation<string>(),
});
const asking = new StateGraph(Asked)
  .addNode("ask", async () => ({ log: [`said ${JSON.stringify(interrupt({ question: "sure?" }))}`] }))
  .addNode("fill", async () => ({ big: "x".repeat(3_000_000), log: ["filled"] }))
  .addEdge(START, "ask")
  .addEdge("ask", "fill")
  .compile();

const agents: Record<string, AgentDefinition> = {
  parrot: langgraph(parrot),
  asking: langgraph(asking),
  streaming: langgraph(streaming),
  plain: async (run) => ({ log: ["plain"], answer: run.input.ask ? run.interrupt("plain?") : null }),
};

beforeAll(async () => {
  database = await testDatabase();
  tenants = await makeTenants(database.appUrl, ["acme"]);
  plane = await startPlane({ database, ports: await planePorts() });
  runner = createRunner({ address: plane.grpcAddress, token: tenants.sharedToken, agents, logger: silentLogger });
  await runner.start();
  client = new Client({ apiUrl: plane.url, apiKey: tenants.tenants[0]!.apiKey });
  await until("the agents are listed", async () => (await client.assistants.search({ limit: 20 })).length >= 4);
}, 120_000);

afterAll(async () => {
  await runner?.stop({ drainMs: 0 });
  await plane?.end();
  await database?.drop();
});

interface State {
  messages: { content: string; type: string; id: string }[];
  log: string[];
  big?: string;
}

const human = (content: string): object => ({ messages: [{ type: "human", content }] });

async function run(assistant: string, threadId: string, payload: object): Promise<State> {
  return (await client.runs.wait(threadId, assistant, payload)) as unknown as State;
}

test("an answer can be made anew from the checkpoint before it: the node runs again, and the first answer stays in the history", async () => {
  const { thread_id } = await client.threads.create();
  const first = await run("parrot", thread_id, { input: human("hi") });
  const history = await client.threads.getHistory<State>(thread_id);
  const before = history.find(({ next }) => next.includes("say"))!;
  const before_id = before.checkpoint.checkpoint_id!;
  const second = await run("parrot", thread_id, { input: null, checkpointId: before_id });
  expect(first.messages.at(-1)!.content).toBe("answer 1");
  expect(second.messages.map(({ content }) => content)).toEqual(["hi", "answer 2"]);
  const { values } = await client.threads.getState<State>(thread_id);
  expect(values.messages.map(({ content }) => content)).toEqual(["hi", "answer 2"]);
  const edited = await run("parrot", thread_id, { input: human("other"), checkpointId: before_id });
  expect(edited.messages.map(({ content }) => content)).toEqual(["hi", "other", "answer 3"]);
});

test("a question is seen in the state, answered, and gone from it; a state of megabytes comes through", async () => {
  const { thread_id } = await client.threads.create();
  await run("asking", thread_id, { input: human("x") });
  const asked = await client.threads.getState<State>(thread_id);
  expect(asked.next).toEqual(["ask"]);
  expect(asked.tasks[0]!.interrupts[0]!.value).toEqual({ question: "sure?" });
  const done = await run("asking", thread_id, { command: { resume: "yes" } });
  expect(done.log).toEqual(['said "yes"', "filled"]);
  expect(done.big!.length).toBe(3_000_000);
  const after = await client.threads.getState<State>(thread_id);
  expect([after.next, after.tasks]).toEqual([[], []]);
  expect(after.values.big!.length).toBe(3_000_000);
});

test("an edit of the state goes through the graph's reducers, and the next run continues from it", async () => {
  const { thread_id } = await client.threads.create();
  await run("asking", thread_id, { input: human("x") });
  await client.threads.updateState(thread_id, { values: { log: ["edited"] }, asNode: "ask" });
  const edited = await client.threads.getState<State>(thread_id);
  expect([edited.values.log, edited.next]).toEqual([["edited"], ["fill"]]);
  const done = await run("asking", thread_id, { input: null });
  expect(done.log).toEqual(["edited", "filled"]);
});

test("tokens arrive one by one under the id of the final message", async () => {
  const { thread_id } = await client.threads.create();
  const pieces: { id: string; content: string }[] = [];
  let last: State | undefined;
  const stream = client.runs.stream(thread_id, "streaming", {
    input: human("x") as never,
    streamMode: ["messages-tuple", "values"],
  });
  for await (const { event, data } of stream) {
    if (event === "messages") pieces.push((data as unknown as [{ id: string; content: string }])[0]);
    if (event === "values") last = data as unknown as State;
  }
  expect(pieces.map(({ content }) => content)).toEqual(["Hello", " there", ",", " friend"]);
  expect(new Set(pieces.map(({ id }) => id))).toEqual(new Set([last!.messages.at(-1)!.id]));
});

test("a plain function asks and gets its answer, and a graph on the same thread starts from its state", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "plain", { input: { ask: true } });
  const asked = await client.threads.getState(thread_id);
  expect(asked.tasks[0]!.interrupts[0]!.value).toBe("plain?");
  const answered: unknown = await client.runs.wait(thread_id, "plain", { command: { resume: 5 } });
  expect(answered).toMatchObject({ answer: 5 });
  expect((await client.threads.getState(thread_id)).next).toEqual([]);
  const graph = await run("asking", thread_id, { input: human("x") });
  expect(graph.log).toEqual(["plain"]);
});
