import fc from "fast-check";
import { expect, test } from "vitest";
import type { RunKey } from "../../src/domain/ids.js";
import type { RunState } from "../../src/domain/moves/run.js";
import type { Limits } from "../../src/platform/config.js";
import { createFeeds, type Feeds, type Following, type LogChunk, logChunk } from "../../src/runs/feeds.js";

// A model of the world around a feed: chunks are committed in order; news of them arrives here at once, late, twice, out of order or never; readers
// join anywhere, stop reading, leave and come back with the last number that they saw. The poll is the only thing that may be relied on.

const key = "t:r" as RunKey;
const first = logChunk(1, 1, Buffer.from("m"));

interface World {
  readonly feeds: Feeds;
  readonly log: LogChunk[];
  status: RunState;
}

function createWorld(ringBytes: number): World {
  const world: { log: LogChunk[]; status: RunState } = { log: [], status: "running" };
  const lastSeq = (): number => {
    const last = world.log.at(-1);
    return last ? last.firstSeq + last.count - 1 : 1;
  };
  const feeds = createFeeds(
    {
      readChunks: async (_key, after) => {
        const rows = world.log.filter((chunk) => chunk.firstSeq + chunk.count - 1 > after).slice(0, 3);
        await Promise.resolve();
        return rows;
      },
      readHeads: async (keys) => {
        await Promise.resolve();
        return keys.map(() => ({ lastSeq: lastSeq(), status: world.status }));
      },
    },
    { ringBytes, followerBufferBytes: 800 } as Limits,
  );
  feeds.begin(key);
  return Object.assign(world, { feeds });
}

interface Reader {
  readonly seen: number[];
  ends: number;
  stalled: boolean;
  following: Following | undefined;
}

function join(world: World, reader: Reader): void {
  const after = reader.seen.at(-1) ?? 0;
  reader.following = world.feeds.follow(key, after, first, {
    deliver: (chunks, from) => {
      for (const chunk of chunks) {
        for (let seq = Math.max(chunk.firstSeq, from); seq < chunk.firstSeq + chunk.count; seq++) reader.seen.push(seq);
      }
    },
    ended: () => {
      reader.ends++;
      reader.following = undefined;
    },
    failed: () => {
      reader.following = undefined;
    },
    buffered: () => (reader.stalled ? 1_000 : 0),
  });
}

const settle = async (): Promise<void> => {
  for (let i = 0; i < 8; i++) await new Promise((resolve) => setImmediate(resolve));
};

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("commit" as const),
      count: fc.integer({ min: 1, max: 4 }),
      news: fc.constantFrom("push", "late", "lost", "hint", "twice"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("deliverLate" as const), which: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("join" as const), reader: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("leave" as const), reader: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("stall" as const), reader: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("unstall" as const), reader: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("poll" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("tick" as const) }) },
);

test("over any news and any reconnects, each reader sees each event once and in order, and the end once", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.constantFrom(0, 1_200, 1_000_000),
      fc.boolean(),
      async (steps, ringBytes, endIsPushed) => {
        const world = createWorld(ringBytes);
        const readers: Reader[] = [0, 1, 2].map(() => ({ seen: [], ends: 0, stalled: false, following: undefined }));
        const late: LogChunk[] = [];
        let next = 2;
        const commit = (count: number): LogChunk => {
          const chunk = logChunk(next, count, Buffer.from("x".repeat(count)));
          next += count;
          world.log.push(chunk);
          return chunk;
        };
        for (const s of steps) {
          if (s.do === "commit") {
            const chunk = commit(s.count);
            if (s.news === "push" || s.news === "twice") world.feeds.push(key, chunk);
            if (s.news === "twice") world.feeds.push(key, chunk);
            if (s.news === "late") late.push(chunk);
            if (s.news === "hint") world.feeds.hint(key, next - 1);
          } else if (s.do === "deliverLate") {
            const [chunk] = late.splice(s.which, 1);
            if (chunk) world.feeds.push(key, chunk);
          } else if (s.do === "poll") await world.feeds.poll();
          else if (s.do === "tick") await settle();
          else {
            const reader = readers[s.reader] as Reader;
            if (s.do === "join" && !reader.following) join(world, reader);
            if (s.do === "leave" && reader.following) {
              reader.following.close();
              reader.following = undefined;
            }
            if (s.do === "stall") reader.stalled = true;
            if (s.do === "unstall") {
              reader.stalled = false;
              reader.following?.resume();
            }
          }
        }
        const end = commit(1);
        world.status = "success";
        if (endIsPushed) {
          world.feeds.push(key, end);
          world.feeds.end(key, { status: "success", lastSeq: next - 1 });
        }
        for (const reader of readers) {
          reader.stalled = false;
          reader.following?.resume();
          if (!reader.following && reader.ends === 0) join(world, reader);
        }
        for (let i = 0; i < 30 && readers.some((reader) => reader.ends === 0); i++) {
          await world.feeds.poll();
          await settle();
        }
        const all = Array.from({ length: next - 1 }, (_, i) => i + 1);
        for (const reader of readers) {
          expect(reader.seen).toEqual(all);
          expect(reader.ends).toBe(1);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test("rings stay within their bound, and quiet runs lose theirs first", () => {
  const feeds = createFeeds({ readChunks: () => Promise.resolve([]), readHeads: () => Promise.resolve([]) }, {
    ringBytes: 3_000,
    followerBufferBytes: 800,
  } as Limits);
  for (let i = 0; i < 50; i++) feeds.push(`t:${i}` as RunKey, logChunk(2, 1, Buffer.alloc(30)));
  expect(feeds.counts().ringBytes).toBeLessThanOrEqual(3_000);
});

test("a run that nobody follows is forgotten after a few polls", async () => {
  const feeds = createFeeds({ readChunks: () => Promise.resolve([]), readHeads: () => Promise.resolve([]) }, {
    ringBytes: 3_000,
    followerBufferBytes: 800,
  } as Limits);
  feeds.push(key, logChunk(2, 1, Buffer.alloc(30)));
  for (let i = 0; i < 10; i++) await feeds.poll();
  expect(feeds.counts()).toEqual({ feeds: 0, followers: 0, ringBytes: 0 });
});

test("the first event of a run goes out before the rest of a flood", async () => {
  const { feeds } = createWorld(1_000_000);
  const order: string[] = [];
  const follow = (name: string): void => {
    const run = `t:${name}` as RunKey;
    feeds.begin(run);
    feeds.follow(run, 1, first, {
      deliver: () => {
        order.push(name);
      },
      ended: () => {},
      failed: () => {},
      buffered: () => 0,
    });
  };
  const say = (name: string, seq: number): void =>
    feeds.push(`t:${name}` as RunKey, logChunk(seq, 1, Buffer.from("x")));
  const flooding = Array.from({ length: 50 }, (_, n) => `flood ${n}`);
  for (const name of [...flooding, "new"]) follow(name);
  for (const name of flooding) say(name, 2);
  await settle();
  expect(order).toEqual(flooding);
  for (const name of flooding) say(name, 3);
  say("new", 2);
  await settle();
  expect(order.slice(50)).toEqual(["new", ...flooding]);
});
