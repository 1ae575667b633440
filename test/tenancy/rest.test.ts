import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Names, pathOf, registeredRoutes, requestOf, restRoutes } from "../support/rest-routes.js";
import { sampleAgents } from "../support/sample-agents.js";
import { startWorld, type TestTenant, type World } from "../support/world.js";

let world: World;
let stranger: TestTenant;
let names: Names;
let before: string;

/** Everything that the owner sees of the thread and its runs. */
async function snapshot(): Promise<string> {
  const paths = ["", "/state", "/history", "/runs"].map((rest) => `/threads/${names.thread}${rest}`);
  const answers = await Promise.all(paths.map(async (path) => (await world.fetch(path)).text()));
  return answers.join("\n");
}

beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
  stranger = await world.tenant();
  const { threads, runs } = world.client();
  const thread = await threads.create({ metadata: { secret: "of the owner" } });
  await runs.wait(thread.thread_id, "echo", { input: { secret: 1 } });
  const run = await runs.create(thread.thread_id, "asking", { input: {} });
  await runs.join(thread.thread_id, run.run_id);
  const { checkpoint } = await threads.getState(thread.thread_id);
  names = {
    thread: thread.thread_id,
    run: run.run_id,
    checkpoint: checkpoint.checkpoint_id as string,
    assistant: "echo",
  };
  before = await snapshot();
});
afterAll(() => world.stop());

test("every registered route is tried", () => {
  expect(new Set(registeredRoutes(world.running.http!.app.routeTable))).toEqual(new Set(Object.keys(restRoutes)));
});

const named = Object.entries(restRoutes).filter(([route]) => /:(thread|run)_id/.test(route));

describe.each(named)("%s", (route, { body }) => {
  test("answers a stranger who knows an id as if it did not exist, and changes nothing", async () => {
    const ask = async (some: Names) => {
      const response = await world.fetch(pathOf(route, some), { ...requestOf(route, body), key: stranger.key });
      const text = (await response.text()).replaceAll(some.thread, "<thread>").replaceAll(some.run, "<run>");
      return { status: response.status, text, type: response.headers.get("content-type") };
    };
    const foreign = await ask(names);
    expect(foreign).toEqual(await ask({ ...names, thread: randomUUID(), run: randomUUID() }));
    expect(foreign.status).toBe(404);
    expect(await snapshot()).toBe(before);
  });
});

test("a resume with a cursor of a foreign run is as unknown as any", async () => {
  for (const cursor of ["-1", "1", "2"]) {
    const response = await world.fetch(`/threads/${names.thread}/runs/${names.run}/stream`, {
      key: stranger.key,
      headers: { "last-event-id": cursor },
    });
    expect(response.status).toBe(404);
  }
});

test("searches and bulk cancels of a stranger find nothing of the owner's", async () => {
  const search = await world.fetch("/threads/search", {
    ...requestOf("POST /threads/search", { ids: [names.thread], metadata: { secret: "of the owner" } }),
    key: stranger.key,
  });
  expect(await search.json()).toEqual([]);
  const bulk = { thread_id: names.thread, run_ids: [names.run] };
  const cancelled = await world.fetch("/runs/cancel", {
    ...requestOf("POST /runs/cancel", bulk),
    key: stranger.key,
  });
  expect(cancelled.status).toBe(404);
  expect(await snapshot()).toBe(before);
});

test("two tenants may use the same ids, and each sees its own", async () => {
  const mine = world.client(stranger.key);
  await mine.threads.create({ threadId: names.thread, metadata: { of: "the stranger" } });
  const body = { assistant_id: "echo", input: { of: "the stranger" }, run_id: names.run };
  const path = `/threads/${names.thread}/runs/wait`;
  const response = await world.fetch(path, { ...requestOf(`POST ${path}`, body), key: stranger.key });
  expect(await response.json()).toEqual({ of: "the stranger" });
  expect((await mine.threads.getState(names.thread)).values).toEqual({ of: "the stranger" });
  const events: unknown[] = [];
  for await (const part of mine.runs.joinStream(names.thread, names.run, { lastEventId: "-1" })) events.push(part.data);
  expect(events).toContainEqual({ of: "the stranger" });
  expect(await snapshot()).toBe(before);
  await mine.threads.delete(names.thread);
  expect(await snapshot()).toBe(before);
});
