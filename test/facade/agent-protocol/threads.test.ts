import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { gate, sampleAgents } from "../../support/sample-agents.js";
import { eventFrames } from "../../support/sse-frames.js";
import { withAdmin } from "../../support/template-database.js";
import { until } from "../../support/until.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
});
afterAll(() => world.stop());

const post = (path: string, body: unknown, init: RequestInit = {}) =>
  world.fetch(path, { method: "POST", body: JSON.stringify(body), ...init });

test("a chosen id is taken once: a second create is refused, or answers with the first thread when asked so", async () => {
  const { threads } = world.client();
  const threadId = randomUUID();
  await threads.create({ threadId, metadata: { first: true } });
  await expect(threads.create({ threadId })).rejects.toThrow(/409/);
  const again = await threads.create({ threadId, ifExists: "do_nothing", metadata: { first: false } });
  expect(again.metadata).toEqual({ first: true });
});

test("options that are not built are refused by name, and their defaults are accepted", async () => {
  const defaults = { metadata: null, thread_id: null, if_exists: null, supersteps: [], ttl: null, unknown: 1 };
  expect((await post("/threads", defaults)).status).toBe(200);
  const search = { values: {}, extract: {}, ids: [], metadata: {}, status: null, select: null, sort_by: null };
  expect((await post("/threads/search", search)).status).toBe(200);
});

test("a search filters by metadata, status and ids, and selects members", async () => {
  const { threads, runs } = world.client();
  const mark = randomUUID();
  const idle = await threads.create({ metadata: { mark, deep: { list: [1, { a: "b" }] } } });
  const asked = await threads.create({ metadata: { mark } });
  await runs.wait(asked.thread_id, "asking", { input: {} });
  const ids = async (query: Parameters<typeof threads.search>[0]) =>
    (await threads.search(query)).map((thread) => thread.thread_id);
  expect(await ids({ metadata: { mark } })).toEqual([asked.thread_id, idle.thread_id]);
  expect(await ids({ metadata: { mark }, sortBy: "created_at", sortOrder: "asc" })).toEqual([
    idle.thread_id,
    asked.thread_id,
  ]);
  expect(await ids({ metadata: { mark, deep: { list: [{ a: "b" }] } } })).toEqual([idle.thread_id]);
  expect(await ids({ metadata: { mark }, status: "interrupted" })).toEqual([asked.thread_id]);
  expect(await ids({ ids: [idle.thread_id, randomUUID()] })).toEqual([idle.thread_id]);
  expect(await ids({ metadata: { graph_id: "asking", mark } })).toEqual([asked.thread_id]);
  const [selected] = await threads.search({ ids: [asked.thread_id], select: ["thread_id", "interrupts"] });
  expect(Object.keys(selected as object)).toEqual(["thread_id", "interrupts"]);
});

test.each(["created_at", "status"])(
  "paging by %s shows every thread exactly once, also while threads change, and says where the next page starts",
  async (sortBy) => {
    const { threads } = world.client();
    const mark = randomUUID();
    const all = new Set<string>();
    for (let n = 0; n < 130; n += 10) {
      const made = await Promise.all(Array.from({ length: 10 }, () => threads.create({ metadata: { mark } })));
      for (const thread of made) all.add(thread.thread_id);
    }
    // Equal times are the hard case.
    await withAdmin(world.database.adminUrl, (admin) =>
      admin.query(`update thread set created_at = '2026-01-01' where metadata ->> 'mark' = '${mark}'`),
    );
    const seen: string[] = [];
    const nexts: (string | null)[] = [];
    for (let offset = 0; ; ) {
      const response = await post("/threads/search", { metadata: { mark }, sort_by: sortBy, limit: 50, offset });
      const page = (await response.json()) as { thread_id: string }[];
      seen.push(...page.map((thread) => thread.thread_id));
      const next = response.headers.get("x-pagination-next");
      nexts.push(next);
      if (next === null) break;
      offset = Number(next);
      await Promise.all(seen.slice(-5).map((id) => threads.update(id, { metadata: { touched: offset } })));
    }
    expect(nexts).toEqual(["50", "100", null]);
    expect(seen).toHaveLength(130);
    expect(new Set(seen)).toEqual(all);
  },
);

test("a patch merges metadata, and answers with nothing when nothing is wanted", async () => {
  const { thread_id: id } = await world.client().threads.create({ metadata: { a: 1, b: { c: 1 } } });
  const patch = (body: unknown, headers = {}) =>
    world.fetch(`/threads/${id}`, { method: "PATCH", body: JSON.stringify(body), headers });
  const minimal = await patch({ metadata: { b: { d: 2 } } }, { prefer: "return=minimal" });
  expect({ status: minimal.status, text: await minimal.text() }).toEqual({ status: 204, text: "" });
  expect(await (await patch({ metadata: { e: null } })).json()).toMatchObject({
    thread_id: id,
    metadata: { a: 1, b: { d: 2 }, e: null },
  });
});

test("a deleted thread takes its runs along: the running one is fenced off at once, queued ones never start, nothing is left to read", async () => {
  const { threads, runs } = world.client();
  const { thread_id: id } = await threads.create();
  const name = randomUUID();
  const running = await runs.create(id, "gated", { input: { gate: name } });
  await until("the run is running", async () => (await runs.get(id, running.run_id)).status === "running");
  const queued = [await runs.create(id, "echo", { input: {} }), await runs.create(id, "echo", { input: {} })];
  const followed = eventFrames(
    await world.fetch(`/threads/${id}/runs/${running.run_id}/stream`, { headers: { "last-event-id": "-1" } }),
  );
  await threads.delete(id);
  expect((await followed).at(-1)).toMatchObject({ event: "end", data: '{"status":"interrupted"}' });
  const paths = ["", "/state", "/history", "/runs"].map((rest) => `/threads/${id}${rest}`);
  for (const run of [running, ...queued]) {
    const base = `/threads/${id}/runs/${run.run_id}`;
    paths.push(base, `${base}/join`, `${base}/stream`, `/runs/${run.run_id}`);
  }
  for (const path of paths) expect({ path, status: (await world.fetch(path)).status }).toEqual({ path, status: 404 });
  expect((await world.fetch(`/threads/${id}`, { method: "DELETE" })).status).toBe(404);
  // What the former holder still says changes nothing.
  gate(name).open();
  expect(await runs.wait(null, "echo", { input: { fresh: true } })).toEqual({ fresh: true });
  await withAdmin(world.database.adminUrl, async (admin) => {
    const left = await admin.query(
      `select r.status, r.status_reason, r.input, r.thread_head, r.deleted_at is not null as deleted,
         (select count(*)::int from checkpoint c where c.thread_id = $1) as checkpoints
       from run r where r.thread_id = $1 order by r.created_at`,
      [id],
    );
    const tombstone = {
      status: "cancelled",
      status_reason: "thread_deleted",
      input: null,
      thread_head: false,
      deleted: true,
      checkpoints: 0,
    };
    expect(left.rows).toEqual([tombstone, tombstone, tombstone]);
  });
  await expect(threads.create({ threadId: id })).rejects.toThrow(/409/);
});

test("fifty deleted threads with queued runs do not delay the next run", async () => {
  const { threads, runs } = world.client();
  await Promise.all(
    Array.from({ length: 50 }, async () => {
      const { thread_id: id } = await threads.create();
      await runs.create(id, "gated", { input: { gate: id } });
      await runs.create(id, "echo", { input: {} });
      await threads.delete(id);
    }),
  );
  expect(await runs.wait(null, "echo", { input: { next: true } })).toEqual({ next: true });
});
