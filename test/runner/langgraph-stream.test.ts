import { readFileSync } from "node:fs";
import { langgraph } from "@fairlead/runner";
import type { RunnableConfig } from "@langchain/core/runnables";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { type Assignment, Family, Outcome, Retention } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { agent, echo, nested } from "./support/peer-graphs.js";
import type { StoredRun } from "./support/plane-store.js";
import { world } from "./support/world.js";

// The legacy bodies, against what the official JS dev server sent for the same graphs and inputs.

const graphs = { agent, echo, nested };

type Frame = [event: string, data: unknown];

const recorded = JSON.parse(
  readFileSync(new URL("./recorded/langgraph-api-1.5.1.json", import.meta.url), "utf8"),
) as Record<string, Frame[]>;

/** What differs from run to run or names the other server. */
const dropped = new Set([
  ...["langgraph_plan", "langgraph_host", "langgraph_api_url", "langgraph_version", "user-agent", "versions"],
  ...["assistant_id", "timestamp"],
]);

/** Keys in order, ids by the order of their appearance in the whole stream, so that equal places must hold equal ids. */
function normal(frames: Frame[]): unknown[] {
  const ids = new Map<string, string>();
  const text = JSON.stringify(frames, (key, value: unknown) => (dropped.has(key) ? undefined : sorted(value)));
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=")[0-9a-f]{32}(?=")/g;
  const named = text.replace(uuid, (id) => {
    const name = ids.get(id) ?? `id-${ids.size}`;
    ids.set(id, name);
    return name;
  });
  return JSON.parse(named) as unknown[];
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function legacyFrames(run: StoredRun): Frame[] {
  return run.events
    .filter((event) => event.mode !== "")
    .map((event) => [[event.name || event.mode, ...event.namespace].join("|"), event.legacy ?? event.json]);
}

const human = { messages: [{ type: "human", content: "hi", id: "h-1" }] };

type Options = Omit<Partial<Assignment>, "input"> & { readonly input?: Record<string, unknown> };

async function frames(graphId: keyof typeof graphs, streamModes: string[], more: Options = {}) {
  const { input, ...fields } = more;
  const { plane } = await world({ [graphId]: langgraph(graphs[graphId]) });
  const json = { input: { ...human, ...input }, metadata: { created_by: "system" } };
  const run = await plane.ended(plane.assign({ graphId, json, streamModes, ...fields }));
  return { run, frames: normal(legacyFrames(run)) };
}

test.each([
  ["agent-tuple", "agent", ["values", "updates", "messages-tuple"], {}],
  ["agent-messages", "agent", ["messages"], {}],
  ["agent-events", "agent", ["events"], {}],
  ["echo-values", "echo", ["values", "updates", "custom"], {}],
  ["echo-all", "echo", ["values", "updates", "custom", "messages-tuple", "messages"], {}],
  ["echo-debug", "echo", ["debug"], {}],
  ["echo-tasks", "echo", ["tasks", "checkpoints"], {}],
  ["nested-sub", "nested", ["values", "updates", "messages-tuple", "tasks", "checkpoints"], { streamSubgraphs: true }],
  ["nested-flat", "nested", ["values", "updates", "messages-tuple", "messages"], {}],
] as const)("%s: the same frames as the official server's, in the same order", async (name, graphId, modes, fields) => {
  const { frames: ours } = await frames(graphId, [...modes], fields);
  // Tokens of a sub-graph and its tasks race on the official server, which moves them through three streams.
  if (name === "nested-sub") expect(byName(ours)).toEqual(byName(normal(recorded[name]!)));
  else expect(ours).toEqual(normal(recorded[name]!));
});

/** Per event name, in order. Ids are blanked: their names depend on the order of the whole. */
function byName(list: unknown[]): Map<string, unknown[]> {
  const groups = new Map<string, unknown[]>();
  for (const frame of list as Frame[]) {
    const blank = JSON.parse(JSON.stringify(frame).replace(/id-\d+/g, "id")) as Frame;
    groups.set(blank[0], [...(groups.get(blank[0]) ?? []), blank[1]]);
  }
  return groups;
}

test("at an interrupt the last values keep the state, where the official server sends the question alone", async () => {
  const { run, frames: ours } = await frames("echo", ["values", "updates", "custom"], { input: { ask: true } });
  const theirs = normal(recorded["echo-ask"]!) as Frame[];
  expect(ours.slice(0, -1)).toEqual(theirs.slice(0, -1));
  const state = (recorded["echo-ask.state"] as unknown as { values: object }).values;
  expect(ours.at(-1)).toEqual(["values", { ...state, ...(theirs.at(-1)![1] as object) }]);
  expect(run.outcome).toBe(Outcome.OUTCOME_WAITING);
  expect(run.report!.next).toEqual(["gate"]);
  expect(run.report!.interrupts).toMatchObject([{ id: expect.stringMatching(/^[0-9a-f]{32}$/), namespace: [] }]);
});

test("at a breakpoint the run waits without a question, for the node that comes next", async () => {
  const { run, frames: ours } = await frames("echo", ["values", "updates"], { interruptBefore: ["say"] });
  const theirs = normal(recorded["echo-static"]!) as Frame[];
  expect(ours.slice(0, -1)).toEqual(theirs.slice(0, -1));
  expect(ours.at(-1)).toEqual(["values", { messages: expect.any(Array), steps: ["gate"], __interrupt__: [] }]);
  expect(run.report).toMatchObject({ outcome: Outcome.OUTCOME_WAITING, interrupts: [], next: ["say"] });
});

test("the view of a checkpoint is the state that the official server answers", async () => {
  const cases: [string, Options][] = [
    ["echo-values", {}],
    ["echo-ask", { input: { ask: true } }],
    ["echo-static", { interruptBefore: ["say"] }],
  ];
  for (const [name, options] of cases) {
    const { run } = await frames("echo", ["values"], options);
    const checkpoint = run.checkpoints.at(-1)!;
    const view = JSON.parse(checkpoint.view.toString()) as object;
    const ids = { thread_id: run.assignment.threadId, checkpoint_ns: "", checkpoint_map: null };
    const parts = {
      checkpoint: { ...ids, checkpoint_id: checkpoint.id },
      parent_checkpoint: { ...ids, checkpoint_id: checkpoint.parentId },
    };
    const ours = JSON.stringify(normal([["state", { ...view, ...parts }]]));
    const theirs = JSON.stringify(normal([["state", recorded[`${name}.state`]]]));
    // Creation times are theirs.
    const timeless = (text: string): unknown =>
      JSON.parse(text.replace(/"\d{4}-\d\d-\d\dT[^"]*Z"/g, '"time"').replace(/id-\d+/g, "id"));
    expect(timeless(ours)).toEqual(timeless(theirs));
  }
});

test("tokens are deltas, and the message around them is told in the grammar of the thread stream", async () => {
  const { run } = await frames("agent", ["messages-tuple"]);
  const told = run.events.filter(({ family, json }) => family === Family.FAMILY_MESSAGES && json);
  const id = told[0]!.json.id;
  expect(told.map(({ json }) => json)).toMatchObject([
    { event: "message-start", role: "ai" },
    { event: "content-block-start", index: 0, content: { type: "text", text: "" } },
    ...["Hello", " there", ",", " friend"].map((text) => ({
      event: "content-block-delta",
      index: 0,
      delta: { type: "text-delta", text },
    })),
    { event: "content-block-finish", content: { type: "text", text: "Hello there, friend" } },
    { event: "message-finish" },
  ]);
  expect(told.filter(({ retention }) => retention === Retention.RETENTION_DELTA)).toHaveLength(4);
  // The message is whole before the node that made it tells its update.
  const updated = run.events.find(({ family }) => family === Family.FAMILY_UPDATES)!;
  expect(told.at(-1)!.number).toBeLessThan(updated.number);
  // The id under which it streamed is the id that it keeps.
  expect(JSON.parse(run.report!.values.toString()).messages.at(-1).id).toBe(id);
});

test("a checkpoint comes before the state that it holds, and nothing of another mode is for legacy streams", async () => {
  const { run } = await frames("echo", ["updates"]);
  const order = run.events.map(({ family }) => family).filter((family) => family !== Family.FAMILY_STEPS);
  const { FAMILY_CHECKPOINTS: checkpoint, FAMILY_VALUES: values } = Family;
  for (const [index, family] of order.entries()) if (family === values) expect(order[index - 1]).toBe(checkpoint);
  expect(order.filter((family) => family === values)).toHaveLength(3);
  expect(new Set(run.events.map(({ mode }) => mode))).toEqual(new Set(["", "updates"]));
});

test("config, context and metadata reach the nodes; what the plane owns cannot be overwritten", async () => {
  const State = Annotation.Root({ seen: Annotation<unknown>() });
  const graph = new StateGraph(State)
    .addNode("look", (_state, config) => {
      const { thread_id, run_id, user_id } = config.configurable ?? {};
      const { tags, metadata } = config as RunnableConfig;
      return {
        seen: { thread_id, run_id, user_id, tags, context: config.context, metadata },
      };
    })
    .addEdge(START, "look")
    .compile();
  const { plane } = await world({ look: langgraph(graph) });
  const run = plane.assign({
    graphId: "look",
    json: {
      input: {},
      context: { tone: "kind" },
      metadata: { source: "test" },
      agentConfig: { tags: ["agent"] },
      config: {
        tags: ["run"],
        configurable: { user_id: "u1", thread_id: "stolen", run_id: "stolen", __pregel_read: 1 },
      },
    },
  });
  await plane.ended(run);
  const { seen } = JSON.parse(run.report!.values.toString()) as { seen: Record<string, unknown> };
  const { threadId, agentId } = run.assignment;
  const { runId } = run.assignment.run!;
  expect(seen).toMatchObject({ thread_id: threadId, run_id: runId, user_id: "u1", context: { tone: "kind" } });
  expect(seen["tags"]).toEqual(expect.arrayContaining(["agent", "run"]));
  expect(seen["metadata"]).toMatchObject({
    source: "test",
    thread_id: threadId,
    graph_id: "look",
    assistant_id: agentId,
    run_attempt: 1,
  });
});
