import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemScope } from "../../src/domain/scope.js";
import { createRunnerToken } from "../../src/governance/edit-runner-tokens.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { type Names, pathOf, registeredRoutes, requestOf, restRoutes } from "../support/rest-routes.js";
import { sampleAgents } from "../support/sample-agents.js";
import { startWorld, type TestTenant, testRootKey, type World } from "../support/world.js";

let world: World;
let stranger: TestTenant;
let names: Names;
let before: string;
let ownPool: RawRunner;

/** Everything that the owner sees of the thread and its runs. */
async function snapshot(): Promise<string> {
  const paths = ["", "/state", "/history", "/runs"].map((rest) => `/threads/${names.thread}${rest}`);
  const answers = await Promise.all(paths.map(async (path) => (await world.fetch(path)).text()));
  return answers.join("\n");
}

beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
  stranger = await world.tenant();
  const { text: token } = await createRunnerToken(world.plane.stores, testRootKey, systemScope(world.home.id), {
    name: "own pool",
    kind: "typescript",
    expiresAt: null,
  });
  ownPool = rawRunner({ address: world.grpcAddress, token, graphs: ["of-the-owner"] });
  await ownPool.getJob({ waitMs: 100 });
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
    assistant: "of-the-owner",
  };
  before = await snapshot();
});
afterAll(async () => {
  ownPool.close();
  await world.stop();
});

test("every registered route is tried", () => {
  expect(new Set(registeredRoutes(world.running.http!.app.routeTable))).toEqual(new Set(Object.keys(restRoutes)));
});

const named = Object.entries(restRoutes).filter(([route]) => /:(thread|run|assistant)_id/.test(route));

describe.each(named)("%s", (route, { body }) => {
  test("answers a stranger who knows an id as if it did not exist, and changes nothing", async () => {
    const ask = async (some: Names) => {
      const response = await world.fetch(pathOf(route, some), { ...requestOf(route, body), key: stranger.key });
      const text = (await response.text())
        .replaceAll(some.thread, "<thread>")
        .replaceAll(some.run, "<run>")
        .replaceAll(some.assistant, "<assistant>");
      return { status: response.status, text, type: response.headers.get("content-type") };
    };
    const foreign = await ask(names);
    const unknown = { ...names, thread: randomUUID(), run: randomUUID(), assistant: randomUUID() };
    expect(foreign).toEqual(await ask(unknown));
    expect(foreign.status).toBe(404);
    expect(await snapshot()).toBe(before);
  });
});

test("an agent of the owner's own pool is unknown to a stranger, by name and by id, read, searched or run", async () => {
  const mine = await world.client().assistants.search({ graphId: names.assistant });
  const id = mine[0]?.assistant_id as string;
  expect(id).toBeTruthy();
  const theirs = world.client(stranger.key);
  expect(await theirs.assistants.search({ graphId: names.assistant })).toEqual([]);
  expect((await theirs.assistants.search({ limit: 100 })).map(({ graph_id: graph }) => graph)).not.toContain(
    names.assistant,
  );
  for (const name of [names.assistant, id]) {
    const body = { assistant_id: name, input: {} };
    const answers = [`/assistants/${name}`, `/assistants/${name}/schemas`].map((path) =>
      world.fetch(path, { key: stranger.key }),
    );
    answers.push(
      ...["/runs", "/runs/wait", "/runs/stream"].map((path) =>
        world.fetch(path, { ...requestOf(`POST ${path}`, body), key: stranger.key }),
      ),
    );
    for (const answer of await Promise.all(answers)) {
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ code: "ASSISTANT_NOT_FOUND" });
    }
  }
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
