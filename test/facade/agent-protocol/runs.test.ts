import { randomUUID } from "node:crypto";
import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { gate, sampleAgents } from "../../support/sample-agents.js";
import { eventFrames } from "../../support/sse-frames.js";
import { until } from "../../support/until.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
});
afterAll(() => world.stop());

interface RunJson {
  run_id: string;
  thread_id: string;
  status: string;
}
const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  world.fetch(path, { method: "POST", body: JSON.stringify(body), headers });
const newThread = async () => (await world.client().threads.create()).thread_id;
const statusOf = async (thread: string, run: string) => (await world.client().runs.get(thread, run)).status;

/** Every key that the newest SDK puts into the body of a run creation, found by asking it for everything. */
async function keysOfSdk(call: "create" | "stream" | "wait"): Promise<Set<string>> {
  const bodies: Record<string, unknown>[] = [];
  const spy: typeof fetch = (_url, init) => {
    bodies.push(JSON.parse(init?.body as string) as Record<string, unknown>);
    return Promise.resolve(new Response("{}", { status: 422 }));
  };
  const client = new Client({ apiUrl: "http://nowhere", callerOptions: { maxRetries: 0, fetch: spy } });
  const everything = new Proxy({}, { get: () => null });
  if (call === "stream") {
    await client.runs
      .stream(randomUUID(), "echo", everything)
      .next()
      .catch(() => {});
  } else await client.runs[call](randomUUID(), "echo", everything).catch(() => {});
  return new Set(Object.keys(bodies[0] ?? {}));
}

describe("options of a run", () => {
  test("everything that the SDK can send is known here, and accepted when it says nothing", async () => {
    const known = {
      input: null,
      command: null,
      config: null,
      context: null,
      metadata: null,
      stream_mode: null,
      stream_subgraphs: null,
      stream_resumable: null,
      feedback_keys: null,
      interrupt_before: null,
      interrupt_after: null,
      checkpoint: null,
      checkpoint_id: null,
      webhook: null,
      strict_resume: null,
      multitask_strategy: null,
      on_completion: null,
      on_disconnect: null,
      after_seconds: null,
      if_not_exists: null,
      checkpoint_during: null,
      durability: null,
      langsmith_tracer: null,
    };
    for (const call of ["create", "stream", "wait"] as const) {
      const sent = await keysOfSdk(call);
      expect(sent.size).toBeGreaterThan(15);
      expect([...sent].filter((key) => key !== "assistant_id" && !(key in known))).toEqual([]);
    }
    const thread = await newThread();
    const accepted = await post(`/threads/${thread}/runs/wait`, { assistant_id: "echo", ...known, unknown: { a: 1 } });
    expect(await accepted.json()).toEqual({ input: null });
  });

  test("defaults that are spelled out are accepted", async () => {
    const defaults = {
      stream_mode: "values",
      stream_subgraphs: false,
      stream_resumable: false,
      feedback_keys: [],
      multitask_strategy: "enqueue",
      on_completion: "delete",
      on_disconnect: "continue",
      after_seconds: 0,
      if_not_exists: "reject",
      checkpoint_during: true,
      durability: "async",
      interrupt_before: [],
      checkpoint: {},
      metadata: {},
      config: { tags: [], recursion_limit: 25, configurable: { thread_id: "x", anything: 1 } },
      context: {},
      langsmith_tracer: { project_name: "x" },
    };
    const thread = await newThread();
    const response = await post(`/threads/${thread}/runs/wait`, { assistant_id: "echo", input: { a: 1 }, ...defaults });
    expect(await response.json()).toEqual({ a: 1 });
  });

  test.each([
    ["multitask_strategy", "interrupt"],
    ["multitask_strategy", "rollback"],
    ["webhook", "https://example.com/hook"],
    ["feedback_keys", ["thumbs"]],
    ["durability", "exit"],
    ["checkpoint_during", false],
    ["checkpoint", { checkpoint_ns: "child:1" }],
  ])("%s = %j is refused by name as long as it is not built", async (field, value) => {
    const thread = await newThread();
    for (const rest of ["", "/stream", "/wait"]) {
      const response = await post(`/threads/${thread}/runs${rest}`, {
        assistant_id: "echo",
        input: {},
        [field]: value,
      });
      expect(response.status).toBe(422);
      expect(await response.json()).toMatchObject({ code: "NOT_SUPPORTED", field: expect.stringContaining(field) });
    }
    expect(await world.client().runs.list(thread)).toEqual([]);
  });
});

describe("a thread that is missing", () => {
  test("is made when the run says so, and refused otherwise", async () => {
    const thread = randomUUID();
    for (const rest of ["", "/stream", "/wait"]) {
      const body = { assistant_id: "echo", input: { rest } };
      expect((await post(`/threads/${thread}/runs${rest}`, body)).status).toBe(404);
    }
    const made = await post(`/threads/${thread}/runs/wait`, {
      assistant_id: "echo",
      input: {},
      if_not_exists: "create",
    });
    expect(made.status).toBe(200);
    expect((await world.client().threads.get(thread)).metadata).toMatchObject({ graph_id: "echo" });
  });

  test("may be named in the body of a run without a thread in its path", async () => {
    const thread = await newThread();
    const run = await post("/runs", { assistant_id: "echo", input: {}, thread_id: thread });
    const { run_id: id, thread_id: of } = (await run.json()) as RunJson;
    expect(of).toBe(thread);
    expect(run.headers.get("content-location")).toBe(`/threads/${thread}/runs/${id}`);
  });
});

describe("a thread that is busy", () => {
  test.each(["", "/stream", "/wait"])("refuses or queues, as the run wishes, on runs%s alike", async (rest) => {
    const { runs } = world.client();
    const thread = await newThread();
    const name = randomUUID();
    const first = await runs.create(thread, "gated", { input: { gate: name } });
    const refused = await post(`/threads/${thread}/runs${rest}`, {
      assistant_id: "echo",
      input: {},
      multitask_strategy: "reject",
    });
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ code: "THREAD_BUSY", blocking_run_id: first.run_id });
    const queued = post(`/threads/${thread}/runs${rest}`, { assistant_id: "echo", input: { queued: true } });
    const [second] = await until("the second run is there", async () => {
      const list = await runs.list(thread);
      return list.length === 2 ? list : null;
    });
    expect(second).toMatchObject({ status: "pending" });
    gate(name).open();
    await (await queued).text();
    await runs.join(thread, second?.run_id as string);
    expect((await world.client().threads.getState(thread)).values).toEqual({ queued: true });
  });
});

describe("a create that is sent again", () => {
  test("with the same key is the same run, also when twenty come at once; another body is refused", async () => {
    const thread = await newThread();
    const key = { "idempotency-key": randomUUID() };
    const body = { assistant_id: "echo", input: { once: true } };
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(`/threads/${thread}/runs`, body, key)));
    const ids = new Set(await Promise.all(answers.map(async (answer) => ((await answer.json()) as RunJson).run_id)));
    expect(ids.size).toBe(1);
    expect(await world.client().runs.list(thread)).toHaveLength(1);
    const other = await post(`/threads/${thread}/runs`, { ...body, input: { once: false } }, key);
    expect(other.status).toBe(409);
  });

  test("streams from the first event, or waits for the values", async () => {
    const thread = await newThread();
    const body = { assistant_id: "echo", input: { once: true } };
    for (const rest of ["/stream", "/wait"]) {
      const key = { "idempotency-key": randomUUID() };
      const first = await post(`/threads/${thread}/runs${rest}`, body, key);
      const text = await first.text();
      const again = await post(`/threads/${thread}/runs${rest}`, body, key);
      expect(await again.text()).toBe(text);
      expect(again.headers.get("content-location")).toBe(first.headers.get("content-location"));
    }
    expect(await world.client().runs.list(thread)).toHaveLength(2);
  });
});

test("a run that is to start later waits until then, and keeps its thread busy", async () => {
  const { runs, threads } = world.client();
  const thread = await newThread();
  const begin = performance.now();
  const run = await runs.create(thread, "echo", { input: { late: true }, afterSeconds: 1 });
  expect(run.status).toBe("pending");
  expect((await threads.get(thread)).status).toBe("busy");
  expect(await runs.join(thread, run.run_id)).toEqual({ late: true });
  expect(performance.now() - begin).toBeGreaterThan(990);
});

test("the thread of a run without one goes with it, or is kept when that is wished", async () => {
  const { threads } = world.client();
  const run = async (onCompletion: string) => {
    const response = await post("/runs", {
      assistant_id: "echo",
      input: { kept: onCompletion },
      on_completion: onCompletion,
    });
    const made = (await response.json()) as RunJson;
    expect(response.headers.get("content-location")).toBe(`/runs/${made.run_id}`);
    expect(await (await world.fetch(`/runs/${made.run_id}/join`)).json()).toEqual({ kept: onCompletion });
    return made;
  };
  const gone = await run("delete");
  expect((await world.fetch(`/threads/${gone.thread_id}`)).status).toBe(404);
  const frames = await eventFrames(
    await world.fetch(`/runs/${gone.run_id}/stream`, { headers: { "last-event-id": "-1" } }),
  );
  expect(frames.at(-1)?.event).toBe("end");
  const kept = await run("keep");
  const found = await threads.search({ ids: [kept.thread_id] });
  expect(found).toMatchObject([{ values: { kept: "keep" } }]);
});

describe("questions", () => {
  const ask = async (questions: number) => {
    const thread = await newThread();
    const waited = (await world.client().runs.wait(thread, "asking", { input: { questions } })) as {
      __interrupt__: { id: string }[];
    };
    return { thread, ids: waited.__interrupt__.map((one) => one.id) };
  };
  const resume = (thread: string, answer: unknown) =>
    post(`/threads/${thread}/runs/wait`, { assistant_id: "asking", command: { resume: answer } });

  test("are answered by their ids or by a value, and an answer that nobody waits for is refused", async () => {
    const { thread, ids } = await ask(1);
    const wrong = await resume(thread, { ["0".repeat(32)]: "x" });
    expect(wrong.status).toBe(409);
    expect(await wrong.json()).toMatchObject({ code: "NO_SUCH_INTERRUPT", open_interrupts: ids });
    expect(await (await resume(thread, { [ids[0] as string]: "by id" })).json()).toEqual({ answers: ["by id"] });
    const late = await resume(thread, "again");
    expect(late.status).toBe(409);
    expect(await late.json()).toMatchObject({ code: "NO_SUCH_INTERRUPT" });
  });

  test("follow each other: the values stay, the next question is another one", async () => {
    const thread = await newThread();
    await world.client().runs.wait(thread, "echo", { input: { before: 1 } });
    const first = (await (
      await post(`/threads/${thread}/runs/wait`, { assistant_id: "asking", input: { questions: 2 } })
    ).json()) as { __interrupt__: { id: string }[] };
    expect(first).toMatchObject({ before: 1, __interrupt__: [{ value: { question: 1 } }] });
    const ids = first.__interrupt__.map((one) => one.id);
    // Two clients answer at once: one of them is right.
    const answers = await Promise.all([resume(thread, "a"), resume(thread, "b")]);
    expect(answers.map((answer) => answer.status).sort((a, b) => a - b)).toEqual([200, 409]);
    const { interrupts } = await world.client().threads.get(thread);
    const [open] = Object.values(interrupts ?? {}).flat();
    if (open) expect(ids).not.toContain((open as { id: string }).id);
  });
});

test("cancels: of a pending run at once, of a finished one without effect, of many by thread and state", async () => {
  const { runs, threads } = world.client();
  const thread = await newThread();
  const name = randomUUID();
  const first = await runs.create(thread, "gated", { input: { gate: name } });
  const rest = [await runs.create(thread, "echo", { input: {} }), await runs.create(thread, "echo", { input: {} })];
  await until("the first run is running", async () => (await statusOf(thread, first.run_id)) === "running");
  const [second, third] = rest.map((run) => run.run_id) as [string, string];
  expect((await post(`/threads/${thread}/runs/${second}/cancel`, {})).status).toBe(204);
  expect(await statusOf(thread, second)).toBe("interrupted");
  expect((await post(`/threads/${thread}/runs/${second}/cancel?wait=1`, {})).status).toBe(204);
  expect((await post("/runs/cancel", { thread_id: thread, status: "pending" })).status).toBe(204);
  expect(await statusOf(thread, third)).toBe("interrupted");
  expect(await statusOf(thread, first.run_id)).toBe("running");
  expect((await post("/runs/cancel", { thread_id: thread, run_ids: [first.run_id, second] })).status).toBe(204);
  await until("the first run is cancelled", async () => (await statusOf(thread, first.run_id)) === "interrupted");
  expect((await threads.get(thread)).status).toBe("idle");
  expect((await post("/runs/cancel", { run_ids: [randomUUID()] })).status).toBe(404);
});

test("a rollback leaves no trace: the run is unknown, and the thread is as it was before", async () => {
  const { runs, threads } = world.client();
  const thread = await newThread();
  await runs.wait(thread, "echo", { input: { kept: true } });
  const before = await threads.getState(thread);
  const run = await runs.create(thread, "gated", { input: { gate: randomUUID() } });
  await until("the run is running", async () => (await statusOf(thread, run.run_id)) === "running");
  await runs.cancel(thread, run.run_id, true, "rollback");
  await expect(runs.get(thread, run.run_id)).rejects.toThrow(/404/);
  expect(await threads.getState(thread)).toEqual(before);
  expect((await threads.get(thread)).values).toEqual({ kept: true });
});

test("lists are filtered, paged and cut down, and an active run is not deleted", async () => {
  const { runs } = world.client();
  const thread = await newThread();
  for (const n of [1, 2]) await runs.wait(thread, "echo", { input: { n } });
  await runs.wait(thread, "failing", { input: {} }).catch(() => {});
  expect(await runs.list(thread, { status: "error" })).toHaveLength(1);
  expect(await runs.list(thread, { limit: 1, offset: 1 })).toHaveLength(1);
  const selected = await runs.list(thread, { limit: 1, select: ["run_id", "status"] });
  expect(Object.keys(selected[0] as object)).toEqual(["run_id", "status"]);
  const name = randomUUID();
  const active = await runs.create(thread, "gated", { input: { gate: name } });
  const refused = await world.fetch(`/threads/${thread}/runs/${active.run_id}`, { method: "DELETE" });
  expect(refused.status).toBe(409);
  expect(await refused.json()).toMatchObject({ code: "RUN_ACTIVE" });
  gate(name).open();
  await runs.join(thread, active.run_id);
});

test("a failed run is told as such by wait and join, on the thread and in the run", async () => {
  const thread = await newThread();
  const failure = { error: "OutOfPaper", message: "The tray is empty." };
  const waited = await post(`/threads/${thread}/runs/wait`, { assistant_id: "failing", input: {} });
  expect(await waited.json()).toEqual({ __error__: failure });
  const [run] = await world.client().runs.list(thread);
  const joined = await world.fetch(`/threads/${thread}/runs/${run?.run_id}/join`);
  expect(await joined.json()).toEqual({ __error__: failure });
  expect(run).toMatchObject({ status: "error", error: failure });
});
