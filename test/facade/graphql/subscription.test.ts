import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { apiScopes } from "../../../src/domain/scope.js";
import {
  askGraphql,
  type Followed,
  followOverSocket,
  followOverSse,
  followQuery,
  graphqlSocket,
} from "../../support/graphql.js";
import { gate, sampleAgents } from "../../support/sample-agents.js";
import { until } from "../../support/until.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
let admin: string;

beforeAll(async () => {
  world = await startWorld({
    agents: {
      ...sampleAgents,
      talking: async (run) => {
        for (let n = 1; n <= 12; n++) await run.emit.custom({ tenant: run.tenantId, n });
        return { done: true };
      },
    },
  });
  admin = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());

const nothing = (): Followed => ({ batches: [], errors: [] });
const numbers = ({ batches }: Followed): number[] =>
  batches.flatMap(({ events }) => events.map(({ seq }) => Number(seq)));

type Way = (variables: Record<string, unknown>, into: Followed, key?: string) => Promise<void>;
const ways: [string, Way][] = [
  [
    "graphql-ws",
    async (variables, into, key = world.home.key) => {
      const client = graphqlSocket(world.url, { apiKey: key });
      try {
        await followOverSocket(client, variables, into);
      } finally {
        await client.dispose();
      }
    },
  ],
  ["SSE", (variables, into, key = world.home.key) => followOverSse(world.url, key, variables, into)],
];

async function gatedRun(): Promise<{ run: string; open: () => void }> {
  const name = randomUUID();
  const client = world.client();
  const thread = await client.threads.create();
  const run = await client.runs.create(thread.thread_id, "gated", { input: { gate: name } });
  return { run: run.run_id, open: () => gate(name).open() };
}

const followers = () => world.plane.feeds.counts().followers;

describe.each(ways)("over %s", (_name, follow) => {
  test("a finished run is resumed behind every event: each later one once, in order, and its end", async () => {
    const client = world.client();
    const thread = await client.threads.create();
    await client.runs.wait(thread.thread_id, "talking", { input: {} });
    const [run] = await client.runs.list(thread.thread_id);
    const all = nothing();
    await follow({ run: run?.run_id }, all);
    const last = Number(all.batches.at(-1)?.lastSeq);
    expect(last).toBeGreaterThan(12);
    const everything = Array.from({ length: last }, (_, n) => n + 1);
    expect(numbers(all)).toEqual(everything);
    expect(all.batches.map(({ ended }) => ended).lastIndexOf(false)).toBeLessThan(all.batches.length - 1);
    expect(all.batches.at(-1)).toMatchObject({ ended: true, status: "SUCCESS" });
    for (const after of everything) {
      const rest = nothing();
      await follow({ run: run?.run_id, after: String(after) }, rest);
      expect(rest.errors).toEqual([]);
      expect(numbers(rest)).toEqual(everything.slice(after));
      expect(rest.batches.at(-1)).toMatchObject({ ended: true, status: "SUCCESS", lastSeq: String(last) });
    }
  });

  test("a running run is followed live until it ends", async () => {
    const { run, open } = await gatedRun();
    const seen = nothing();
    const over = follow({ run }, seen);
    await until("the first events", () => numbers(seen).length >= 2);
    expect(seen.batches.some(({ ended }) => ended)).toBe(false);
    open();
    await over;
    expect(seen.errors).toEqual([]);
    expect(numbers(seen)).toEqual(Array.from({ length: numbers(seen).length }, (_, n) => n + 1));
    expect(seen.batches.at(-1)).toMatchObject({ ended: true, status: "SUCCESS" });
  });

  test("a number that was never given out is refused with the range", async () => {
    const { run, open } = await gatedRun();
    for (const after of ["1000000", "-1"]) {
      const seen = nothing();
      await follow({ run, after }, seen).catch((errors: unknown) =>
        seen.errors.push(...(errors as Followed["errors"])),
      );
      expect(seen.batches).toEqual([]);
      expect(seen.errors[0]).toMatchObject({ extensions: { code: "INVALID_INPUT", field: "after" } });
    }
    open();
  });

  test("revoking the key ends its subscription within five seconds, and nobody else's", async () => {
    const { run, open } = await gatedRun();
    const key = await world.key(world.home, ["runs:read"]);
    const id = (await askGraphql(world.url, key, "{ viewer { apiKeyId } }")).data.viewer.apiKeyId as string;
    const refused = nothing();
    const kept = nothing();
    const over = follow({ run }, refused, key);
    const still = follow({ run }, kept);
    await until("both follow", () => numbers(refused).length >= 2 && numbers(kept).length >= 2);
    const before = performance.now();
    await askGraphql(world.url, admin, `mutation { apiKeyRevoke(input: {id: "${id}"}) { userErrors { code } } }`);
    await over;
    expect(performance.now() - before).toBeLessThan(5_000);
    expect(refused.errors[0]).toMatchObject({ extensions: { code: "UNAUTHENTICATED" } });
    open();
    await still;
    expect(kept.batches.at(-1)?.ended).toBe(true);
    expect(numbers(kept).length).toBeGreaterThan(numbers(refused).length);
  });

  test("equal run ids in two tenants bring each tenant its own events (F056)", async () => {
    const other = await world.tenant();
    const run = randomUUID();
    const seen = await Promise.all(
      [world.home, other].map(async ({ id, key }) => {
        const response = await world.fetch("/runs", {
          method: "POST",
          key,
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ assistant_id: "talking", input: {}, run_id: run }),
        });
        const made = (await response.json()) as { run_id: string };
        const into = nothing();
        await follow({ run: made.run_id }, into, key);
        return { id, into };
      }),
    );
    for (const { id, into } of seen) {
      const bodies = into.batches.flatMap(({ events }) => events.map(({ body }) => JSON.stringify(body)));
      const tenants = bodies.flatMap((body) => /"tenant":"([^"]+)"/.exec(body)?.[1] ?? []);
      expect(tenants).toEqual(Array.from({ length: 12 }, () => id));
    }
  });
});

describe("who goes away", () => {
  test("a closed SSE request frees its follower while the run is silent (F054)", async () => {
    const { run, open } = await gatedRun();
    const leave = new AbortController();
    const seen = nothing();
    const over = followOverSse(world.url, world.home.key, { run }, seen, leave.signal).catch(() => {});
    await until("it follows", () => numbers(seen).length >= 2);
    const watching = followers();
    expect(watching).toBeGreaterThan(0);
    leave.abort();
    await over;
    await until("the follower is freed", () => followers() === watching - 1, 2_000);
    open();
  });

  test("a completed subscription and a broken socket free theirs while the run is silent (F054)", async () => {
    const { run, open } = await gatedRun();
    const before = followers();
    const client = graphqlSocket(world.url, { apiKey: world.home.key });
    let events = 0;
    const stop = client.subscribe(
      { query: followQuery, variables: { run } },
      {
        next: () => events++,
        error: () => {},
        complete: () => {},
      },
    );
    await until("it follows", () => events > 0 && followers() === before + 1);
    stop();
    await until("the follower is freed", () => followers() === before, 2_000);
    const second = graphqlSocket(world.url, { apiKey: world.home.key });
    second.subscribe(
      { query: followQuery, variables: { run } },
      { next: () => {}, error: () => {}, complete: () => {} },
    );
    await until("the second follows", () => followers() === before + 1);
    second.terminate();
    await until("the second is freed", () => followers() === before, 2_000);
    expect(followers()).toBe(before);
    await client.dispose();
    open();
  });
});

test("a WebSocket without a valid key is closed with 4403, and another path is no WebSocket", async () => {
  const close = (apiKey: string) =>
    new Promise<{ code: number }>((resolve) => {
      const client = graphqlSocket(world.url, { apiKey });
      client.subscribe(
        { query: followQuery, variables: { run: randomUUID() } },
        {
          next: () => {},
          error: (reason) => resolve(reason as { code: number }),
          complete: () => {},
        },
      );
    });
  expect((await close("nonsense")).code).toBe(4403);
  const elsewhere = new WebSocket(`${world.url.replace("http", "ws")}/elsewhere`);
  const [refused] = (await once(elsewhere, "error")) as [Error];
  expect(refused.message).toContain("404");
});
