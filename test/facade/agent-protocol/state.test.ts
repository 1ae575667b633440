import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ThreadId } from "../../../src/domain/ids.js";
import { systemScope } from "../../../src/domain/scope.js";
import { editState } from "../../../src/runs/edit-state.js";
import { gate, sampleAgents } from "../../support/sample-agents.js";
import { until } from "../../support/until.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
});
afterAll(() => world.stop());

type State = { values: Record<string, unknown>; checkpoint: { checkpoint_id: string } };
const post = (path: string, body: unknown) => world.fetch(path, { method: "POST", body: JSON.stringify(body) });

async function threadWithRuns(count: number): Promise<string> {
  const { threads, runs } = world.client();
  const { thread_id: id } = await threads.create();
  for (let n = 1; n <= count; n++) await runs.wait(id, "echo", { input: { n } });
  return id;
}

test("a thread on which nothing ran has an empty state and no history", async () => {
  const { thread_id: id } = await world.client().threads.create();
  const empty = {
    values: {},
    next: [],
    tasks: [],
    metadata: {},
    created_at: null,
    checkpoint: null,
    parent_checkpoint: null,
    interrupts: [],
  };
  expect(await (await world.fetch(`/threads/${id}/state`)).json()).toEqual(empty);
  expect(await (await post(`/threads/${id}/state/checkpoint`, { checkpoint: {}, subgraphs: true })).json()).toEqual(
    empty,
  );
  expect(await (await world.fetch(`/threads/${id}/history`)).json()).toEqual([]);
});

test("a thread shows that it is busy as soon as its run is accepted, and an answered question is gone at once", async () => {
  const { threads, runs } = world.client();
  const { thread_id: id } = await threads.create();
  const name = randomUUID();
  await runs.create(id, "gated", { input: { gate: name } });
  expect(await threads.getState(id)).toMatchObject({ next: ["__start__"], tasks: [{ name: "__start__" }] });
  expect((await threads.get(id)).status).toBe("busy");
  gate(name).open();
  await until("the thread is idle", async () => (await threads.get(id)).status === "idle");
  expect((await threads.getState(id)).next).toEqual([]);

  await runs.wait(id, "asking", { input: {} });
  expect((await threads.getState(id)).tasks[0]?.interrupts).toHaveLength(1);
  const second = randomUUID();
  await runs.create(id, "gated", { input: { gate: second } });
  expect(await threads.getState(id)).toMatchObject({ next: ["__start__"], interrupts: [] });
  expect((await threads.get(id)).interrupts).toEqual({});
  gate(second).open();
  await until("the thread is idle", async () => (await threads.get(id)).status === "idle");
});

test("the history is paged by an id, a config or a checkpoint, by query and by body, and filtered by metadata", async () => {
  const id = await threadWithRuns(5);
  const numbers = (states: State[]) => states.map((state) => state.values["n"]);
  const all = (await (await world.fetch(`/threads/${id}/history`)).json()) as State[];
  expect(numbers(all)).toEqual([5, 4, 3, 2, 1]);
  const before = all[1]?.checkpoint.checkpoint_id as string;
  for (const form of [before, { configurable: { checkpoint_id: before } }, all[1]?.checkpoint]) {
    const page = (await (await post(`/threads/${id}/history`, { before: form, limit: 2 })).json()) as State[];
    expect(numbers(page)).toEqual([3, 2]);
  }
  const get = await world.fetch(`/threads/${id}/history?limit=1&before=${before}`);
  expect(numbers((await get.json()) as State[])).toEqual([3]);
  const filtered = await post(`/threads/${id}/history`, { metadata: { step: 2, source: "loop" } });
  expect(numbers((await filtered.json()) as State[])).toEqual([3]);
  expect((await post(`/threads/${id}/history`, { before: randomUUID() })).status).toBe(404);
  expect((await world.fetch(`/threads/${id}/state/${randomUUID()}`)).status).toBe(404);
  const selected = await world.fetch(`/threads/${id}/state?select=values&select=next`);
  expect(await selected.json()).toEqual({ values: { n: 5 }, next: [] });
});

test("a run starts from the checkpoint that it names, and one that nobody has is refused", async () => {
  const id = await threadWithRuns(2);
  const { runs, threads } = world.client();
  const [, first] = await threads.getHistory(id);
  const checkpointId = first?.checkpoint.checkpoint_id as string;
  await runs.wait(id, "echo", { input: { n: "fork" }, checkpointId });
  const [newest] = await threads.getHistory(id, { limit: 1 });
  expect(newest).toMatchObject({ values: { n: "fork" }, parent_checkpoint: { checkpoint_id: checkpointId } });
  await expect(runs.wait(id, "echo", { input: {}, checkpointId: randomUUID() })).rejects.toThrow(/404/);
  const elsewhere = { thread_id: randomUUID(), checkpoint_id: checkpointId, checkpoint_ns: "" };
  const refused = await post(`/threads/${id}/runs`, { assistant_id: "echo", input: {}, checkpoint: elsewhere });
  expect(refused.status).toBe(422);
});

test("a state is edited on an idle thread with an assistant, and only there", async () => {
  const { threads, runs } = world.client();
  const bare = await threads.create();
  const refused = await post(`/threads/${bare.thread_id}/state`, { values: { a: 1 } });
  expect(refused.status).toBe(422);
  expect(await refused.text()).toContain("no assistant");
  // A thread that was made for a graph has one before its first run.
  const made = await threads.create({ graphId: "echo" });
  const answer = (await (await post(`/threads/${made.thread_id}/state`, { values: { a: 1 } })).json()) as {
    checkpoint: object;
    configurable: object;
  };
  expect(answer.configurable).toEqual(answer.checkpoint);
  expect(await threads.getState(made.thread_id)).toMatchObject({ values: { a: 1 }, checkpoint: answer.checkpoint });
  expect(await runs.list(made.thread_id)).toEqual([]);
  const name = randomUUID();
  const run = await runs.create(made.thread_id, "gated", { input: { gate: name } });
  expect((await post(`/threads/${made.thread_id}/state`, { values: { a: 2 } })).status).toBe(409);
  gate(name).open();
  await runs.join(made.thread_id, run.run_id);
});

test("an edit while a function waits for its second answer keeps the first", async () => {
  const { threads, runs } = world.client();
  const { thread_id: id } = await threads.create();
  await runs.wait(id, "asking", { input: { questions: 3 } });
  await runs.wait(id, "asking", { command: { resume: "one" } });
  await threads.updateState(id, { values: { note: "edited" } });
  expect(await threads.getState(id)).toMatchObject({ values: { note: "edited" }, next: ["asking"] });
  expect((await threads.getState(id)).tasks[0]?.interrupts).toMatchObject([{ value: { question: 2 } }]);
  await threads.updateState(id, { values: { note: "edited again" } });
  await runs.wait(id, "asking", { command: { resume: "two" } });
  expect(await runs.wait(id, "asking", { command: { resume: "three" } })).toEqual({ answers: ["one", "two", "three"] });
});

test("an edit that nobody applies in time is told so, and leaves the thread as it was", async () => {
  const { threads } = world.client();
  const passing = await world.runner({ passing: (run) => run.input });
  await passing.stop({ drainMs: 0 });
  const { thread_id: id } = await threads.create({ graphId: "passing" });
  const scope = systemScope(world.home.id);
  const agent = await world.plane.agents.resolve(scope, "passing");
  // Another kind, whose queue nobody serves.
  const edit = editState(world.plane, scope, {
    threadId: id as ThreadId,
    agent: { ...agent, kind: "nobody" },
    update: '{"values":{"a":1}}',
    fromCheckpointId: null,
    waitMs: 300,
  });
  await expect(edit).rejects.toMatchObject({ code: "WAIT_TIMED_OUT" });
  expect(await threads.get(id)).toMatchObject({ status: "idle", values: null });
  expect(await threads.getHistory(id)).toEqual([]);
});

test("metadata of the newest state is merged by a patch", async () => {
  const id = await threadWithRuns(1);
  const { threads } = world.client();
  const before = await threads.getState(id);
  await threads.patchState(id, { reviewed: true });
  const after = await threads.getState(id);
  expect(after).toEqual({ ...before, metadata: { ...before.metadata, reviewed: true } });
});
