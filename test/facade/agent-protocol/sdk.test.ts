import { Client as Client1 } from "@langchain/langgraph-sdk";
import { Client as Client00 } from "langgraph-sdk-0-0";
import { Client as Client01 } from "langgraph-sdk-0-1";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { gate, sampleAgents } from "../../support/sample-agents.js";
import { until } from "../../support/until.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
});
afterAll(() => world.stop());

const versions = { "1.15.0": Client1, "0.1.10": Client01, "0.0.60": Client00 } as const;
let gates = 0;

describe.each(Object.entries(versions))("the JS SDK %s", (version, Sdk) => {
  // The three versions share the calls that are tested here; the newest one's types describe them.
  const client = (): Client1 =>
    new (Sdk as unknown as typeof Client1)({
      apiUrl: world.url,
      apiKey: world.home.key,
      callerOptions: { maxRetries: 0 },
    });

  test("finds assistants by graph, one by its graph id, and their schemas", async () => {
    const found = await client().assistants.search({ graphId: "echo", limit: 5 });
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ graph_id: "echo", name: "echo", metadata: { created_by: "system" }, version: 1 });
    expect(await client().assistants.get("echo")).toEqual(found[0]);
    const id = (found[0] as { assistant_id: string }).assistant_id;
    expect(await client().assistants.getSchemas(id)).toEqual({
      graph_id: "echo",
      input_schema: null,
      output_schema: null,
      state_schema: null,
      config_schema: null,
      context_schema: null,
    });
  });

  test("makes, reads, changes, finds and deletes a thread", async () => {
    const { threads } = client();
    const made = await threads.create({ metadata: { owner: `sdk ${version}`, nested: { a: 1 } } });
    expect(made).toMatchObject({ status: "idle", metadata: { owner: `sdk ${version}`, nested: { a: 1 } } });
    await threads.update(made.thread_id, { metadata: { colour: "red" } });
    expect((await threads.get(made.thread_id)).metadata).toEqual({
      owner: `sdk ${version}`,
      nested: { a: 1 },
      colour: "red",
    });
    const found = await threads.search({ metadata: { owner: `sdk ${version}` } });
    expect(found.map((thread) => thread.thread_id)).toEqual([made.thread_id]);
    await threads.delete(made.thread_id);
    await expect(threads.get(made.thread_id)).rejects.toThrow(/404/);
  });

  test("creates, joins, reads and lists runs", async () => {
    const { threads, runs } = client();
    const thread = await threads.create();
    const run = await runs.create(thread.thread_id, "echo", { input: { a: 1 }, metadata: { tag: "x" } });
    expect(run).toMatchObject({ thread_id: thread.thread_id, metadata: { tag: "x" }, kwargs: { input: { a: 1 } } });
    expect(await runs.join(thread.thread_id, run.run_id)).toEqual({ a: 1 });
    expect(await runs.get(thread.thread_id, run.run_id)).toMatchObject({ status: "success", run_id: run.run_id });
    const second = await runs.create(thread.thread_id, "echo", { input: { a: 2 } });
    await runs.join(thread.thread_id, second.run_id);
    const listed = await runs.list(thread.thread_id, { limit: 10 });
    expect(listed.map((one) => one.run_id)).toEqual([second.run_id, run.run_id]);
    expect((await threads.get(thread.thread_id)).metadata).toMatchObject({ graph_id: "echo" });
    await runs.delete(thread.thread_id, run.run_id);
    await expect(runs.get(thread.thread_id, run.run_id)).rejects.toThrow(/404/);
  });

  test("streams a run on a thread, token by token, to its end", async () => {
    const { threads, runs } = client();
    const thread = await threads.create();
    const seen: { event: string; data: unknown }[] = [];
    for await (const part of runs.stream(thread.thread_id, "talking", {
      input: { words: ["Hel", "lo"] },
      streamMode: ["messages-tuple", "values"],
    })) {
      seen.push({ event: part.event, data: part.data });
    }
    expect(seen[0]).toMatchObject({ event: "metadata", data: { thread_id: thread.thread_id } });
    const chunks = seen
      .filter((part) => part.event === "messages")
      .map((part) => (part.data as [{ content: string }])[0]);
    expect(chunks.map((chunk) => chunk.content)).toEqual(["Hel", "lo"]);
    expect(seen.at(-2)).toEqual({
      event: "values",
      data: { messages: [{ id: "said", type: "ai", content: "Hello" }] },
    });
    expect(seen.at(-1)).toEqual({ event: "end", data: { status: "success" } });
  });

  test("runs without a thread: waits, and streams", async () => {
    const { runs } = client();
    expect(await runs.wait(null, "echo", { input: { alone: true } })).toEqual({ alone: true });
    const events: string[] = [];
    for await (const part of runs.stream(null, "echo", { input: { alone: true } })) events.push(part.event);
    expect(events).toEqual(["metadata", "values", "end"]);
  });

  test("is asked, answers, and finds question and answer in stream, thread and state", async () => {
    const { threads, runs } = client();
    const thread = await threads.create();
    const asked = (await runs.wait(thread.thread_id, "asking", { input: {} })) as Record<string, unknown>;
    const question = { id: expect.stringMatching(/^[0-9a-f]{32}$/), value: { question: 1 } };
    expect(asked["__interrupt__"]).toEqual([question]);
    const waiting = await threads.get(thread.thread_id);
    expect(waiting.status).toBe("interrupted");
    expect(Object.values(waiting.interrupts ?? {})).toEqual([[question]]);
    const state = await threads.getState(thread.thread_id);
    expect(state.next).toEqual(["asking"]);
    expect(state.tasks[0]?.interrupts).toEqual([question]);
    expect(await runs.wait(thread.thread_id, "asking", { command: { resume: "yes" } })).toEqual({ answers: ["yes"] });
    expect(await threads.get(thread.thread_id)).toMatchObject({ status: "idle", interrupts: {} });
    expect(await threads.getState(thread.thread_id)).toMatchObject({ next: [], values: { answers: ["yes"] } });
  });

  test("cancels a running run, and the wait of another tab ends", async () => {
    const { threads, runs } = client();
    const thread = await threads.create();
    const name = `cancel-${gates++}`;
    const run = await runs.create(thread.thread_id, "gated", { input: { gate: name } });
    await until("the run is running", async () => (await runs.get(thread.thread_id, run.run_id)).status === "running");
    const joined = runs.join(thread.thread_id, run.run_id);
    await runs.cancel(thread.thread_id, run.run_id, true);
    expect((await runs.get(thread.thread_id, run.run_id)).status).toBe("interrupted");
    await joined;
    expect((await threads.get(thread.thread_id)).status).toBe("idle");
    gate(name).open();
  });

  test("raises what a failing agent raised, in wait and stream", async () => {
    const { threads, runs } = client();
    const thread = await threads.create();
    const events: { event: string; data: unknown }[] = [];
    for await (const part of runs.stream(thread.thread_id, "failing", { input: {} })) {
      events.push({ event: part.event, data: part.data });
    }
    expect(events.slice(-2)).toEqual([
      { event: "error", data: { error: "OutOfPaper", message: "The tray is empty." } },
      { event: "end", data: { status: "error" } },
    ]);
    const waited = runs.wait(thread.thread_id, "failing", { input: {} });
    if (version === "0.0.60") {
      // The oldest one hands the failure out as it came.
      const body = await waited.catch((error: Error) => error.message);
      expect(JSON.stringify(body)).toContain("The tray is empty.");
    } else await expect(waited).rejects.toThrow(/The tray is empty/);
    expect((await threads.get(thread.thread_id)).status).toBe("error");
  });

  test("edits the state, and pages through the history", async () => {
    const { threads, runs } = client();
    const thread = await threads.create();
    for (const n of [1, 2, 3]) await runs.wait(thread.thread_id, "echo", { input: { n } });
    await threads.updateState(thread.thread_id, { values: { n: 4, edited: true } });
    expect((await threads.getState(thread.thread_id)).values).toEqual({ n: 4, edited: true });
    const history = await threads.getHistory(thread.thread_id, { limit: 10 });
    expect(history.map((state) => (state.values as { n: number }).n)).toEqual([4, 3, 2, 1]);
    expect(history[0]?.parent_checkpoint?.checkpoint_id).toBe(history[1]?.checkpoint.checkpoint_id);
    const before = history[1]?.checkpoint.checkpoint_id as string;
    const older = await threads.getHistory(thread.thread_id, {
      before: { configurable: { checkpoint_id: before } },
    });
    expect(older.map((state) => (state.values as { n: number }).n)).toEqual([2, 1]);
    expect((await threads.getState(thread.thread_id, before)).values).toEqual({ n: 3 });
    // The edit is no run that anybody started.
    expect(await runs.list(thread.thread_id)).toHaveLength(3);
  });
});
