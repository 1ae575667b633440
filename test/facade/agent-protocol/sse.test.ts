import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { gate, sampleAgents } from "../../support/sample-agents.js";
import { eventFrames, wireFrames } from "../../support/sse-frames.js";
import { until } from "../../support/until.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
beforeAll(async () => {
  world = await startWorld({
    agents: {
      ...sampleAgents,
      /** Emits events before and behind a gate. */
      halves: async (run) => {
        const { before, behind, gate: name } = run.input as { before: number; behind: number; gate: string };
        for (let n = 1; n <= before; n++) await run.emit.custom({ n });
        await (sampleAgents["gated"] as (run: unknown) => Promise<unknown>)({
          input: { gate: name },
          signal: run.signal,
          emit: { values: () => Promise.resolve() },
        });
        for (let n = 1; n <= behind; n++) await run.emit.custom({ n: before + n });
        return { done: true };
      },
    },
    limits: { keepAliveMs: 100 },
  });
});
afterAll(() => world.stop());

const post = (path: string, body: unknown, init: RequestInit = {}) =>
  world.fetch(path, { method: "POST", body: JSON.stringify(body), ...init });

interface Place {
  readonly thread: string;
  readonly run: string;
  readonly path: string;
}

async function start(assistant: string, input: unknown, more: Record<string, unknown> = {}): Promise<Place> {
  const { threads } = world.client();
  const { thread_id: thread } = await threads.create();
  const body = { assistant_id: assistant, input, stream_mode: ["custom", "values"], ...more };
  const { run_id: run } = (await (await post(`/threads/${thread}/runs`, body)).json()) as { run_id: string };
  return { thread, run, path: `/threads/${thread}/runs/${run}` };
}

const join = (place: Place, cursor?: string, query = "") =>
  world.fetch(`${place.path}/stream${query}`, cursor === undefined ? {} : { headers: { "last-event-id": cursor } });
const joined = async (place: Place, cursor?: string, query = "") => eventFrames(await join(place, cursor, query));
const status = async (place: Place) => ((await (await world.fetch(place.path)).json()) as { status: string }).status;

test("headers tell run, place of resumption and caches what to do, and browsers may read them, also of errors", async () => {
  const { thread_id: thread } = await world.client().threads.create();
  const origin = { headers: { origin: "https://chat.example" } };
  const response = await post(`/threads/${thread}/runs/stream`, { assistant_id: "echo", input: {} }, origin);
  const { headers } = response;
  expect(headers.get("content-type")).toBe("text/event-stream");
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("x-accel-buffering")).toBe("no");
  expect(headers.get("content-location")).toMatch(new RegExp(`^/threads/${thread}/runs/[0-9a-f-]{36}$`));
  expect(headers.get("location")).toBe(`${headers.get("content-location")}/stream`);
  await response.text();
  const alone = await post("/runs/stream", { assistant_id: "echo", input: {} }, origin);
  expect(alone.headers.get("location")).toMatch(/^\/runs\/[0-9a-f-]{36}\/stream$/);
  await alone.text();
  const missing = await world.fetch(`/threads/${randomUUID()}`, origin);
  const unknown = await world.fetch("/ok", { ...origin, key: null });
  const noKey = await world.fetch("/threads/search", { ...origin, method: "POST", key: null });
  for (const answer of [response, alone, missing, unknown, noKey]) {
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://chat.example");
    const exposed = answer.headers.get("access-control-expose-headers")?.split(/, ?/) ?? [];
    expect(exposed).toEqual(
      expect.arrayContaining([
        "content-location",
        "location",
        "x-pagination-next",
        "x-pagination-total",
        "x-request-id",
      ]),
    );
    expect(answer.headers.get("x-request-id")).toBeTruthy();
  }
  const wanted =
    "content-type,x-api-key,authorization,last-event-id,x-auth-scheme,cache-control,prefer,idempotency-key";
  const preflight = await world.fetch(`/threads/${thread}/runs/stream`, {
    method: "OPTIONS",
    key: null,
    headers: {
      origin: "https://chat.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": wanted,
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("access-control-allow-headers")?.split(/, ?/)).toEqual(wanted.split(","));
});

test("frames are numbered from 1 without a gap, and the end comes last, after the status was committed", async () => {
  const { thread_id: thread } = await world.client().threads.create();
  const response = await post(`/threads/${thread}/runs/stream`, {
    assistant_id: "counting",
    input: { count: 50 },
    stream_mode: [
      "custom",
      "values",
      "messages",
      "updates",
      "checkpoints",
      "tasks",
      "debug",
      "events",
      "tools",
      "messages-tuple",
    ],
  });
  const path = response.headers.get("content-location") as string;
  const ids: number[] = [];
  let last = "";
  for await (const frame of wireFrames(response)) {
    if (frame.event === undefined) continue;
    ids.push(Number(frame.id));
    last = frame.event;
    if (last === "end") expect(await (await world.fetch(path)).json()).toMatchObject({ status: "success" });
  }
  expect(last).toBe("end");
  expect(ids[0]).toBe(1);
  expect(ids).toEqual([...ids].sort((a, b) => a - b));
  expect(new Set(ids).size).toBe(ids.length);
});

test("a finished run is replayed from every position: what is behind it, each once, in order", async () => {
  const place = await start("counting", { count: 30 });
  await (await world.fetch(`${place.path}/join`)).text();
  const all = await joined(place, "-1");
  expect(all.filter((frame) => frame.event === "custom").map((frame) => JSON.parse(frame.data).n)).toEqual(
    Array.from({ length: 30 }, (_, n) => n + 1),
  );
  const numbers = all.map((frame) => Number(frame.id));
  const end = numbers.at(-1) as number;
  for (let cursor = 0; cursor < end; cursor++) {
    expect(await joined(place, String(cursor))).toEqual(all.filter((frame) => Number(frame.id) > cursor));
  }
  // Behind the end there is only the end.
  expect(await joined(place, String(end))).toEqual(all.slice(-1));
});

test("a running run is followed from every position by many readers, and each sees all that is behind its position once", async () => {
  const name = randomUUID();
  const place = await start("halves", { before: 20, behind: 20, gate: name });
  const first = wireFrames(await join(place, "0"));
  let seen = 0;
  for await (const frame of first) {
    if (frame.event === "custom" && ++seen === 20) break;
  }
  const readers = Array.from({ length: 21 }, (_, cursor) => joined(place, String(cursor)));
  readers.push(joined(place), joined(place, "-1"), joined(place, "99999"), joined(place, "no number"));
  await until("all readers are there", () => world.plane.feeds.counts().followers >= readers.length);
  gate(name).open();
  const all = await joined(place, "-1");
  expect(all).toHaveLength(1 + 40 + 1 + 1);
  const views = await Promise.all(readers);
  views.forEach((view, n) => {
    const cursor = n <= 20 ? n : 0;
    expect(view).toEqual(all.filter((frame) => Number(frame.id) > cursor));
  });
});

describe.each([
  ["echo", "success"],
  ["failing", "error"],
  ["asking", "success"],
  ["gated", "interrupted"],
])("a finished run of the agent %s", (assistant, expected) => {
  test("answers every kind of cursor within a second, with the end that it had", async () => {
    const place = await start(assistant, { gate: randomUUID() });
    if (assistant === "gated") {
      await until("the run is running", async () => (await status(place)) === "running");
      expect((await post(`${place.path}/cancel?wait=1`, {})).status).toBe(204);
    } else await (await world.fetch(`${place.path}/join`)).text();
    const all = await joined(place, "-1");
    expect(all.at(-1)).toMatchObject({ event: "end", data: `{"status":"${expected}"}` });
    expect(all.filter((frame) => frame.event === "error")).toHaveLength(expected === "error" ? 1 : 0);
    for (const cursor of ["0", "2", all.at(-1)?.id, "999999", "garbage", "", undefined]) {
      const begin = performance.now();
      const frames = await joined(place, cursor);
      expect(performance.now() - begin).toBeLessThan(1_000);
      expect(frames.at(-1)).toEqual(all.at(-1));
      if (cursor === "garbage" || cursor === "999999" || cursor === "0") {
        expect(frames).toEqual(cursor === "999999" ? all.slice(-1) : all);
      }
    }
  });
});

test("a join sees the modes that it asks for, and by default those of the run", async () => {
  const place = await start("counting", { count: 3 });
  await (await world.fetch(`${place.path}/join`)).text();
  const names = async (query: string) => (await joined(place, "-1", query)).map((frame) => frame.event);
  expect(await names("")).toEqual(["metadata", "custom", "custom", "custom", "values", "end"]);
  for (const query of ["?stream_mode=values", '?stream_mode=["values","updates"]', "?stream_mode=values,messages"])
    expect(await names(query)).toEqual(["metadata", "values", "end"]);
  expect(await names("?stream_mode=custom&stream_mode=values")).toEqual(await names(""));
});

test("a quiet stream carries comments from the start, which move no cursor", async () => {
  const name = randomUUID();
  const place = await start("gated", { gate: name });
  let comments = 0;
  for await (const frame of wireFrames(await join(place, "0"))) {
    if (frame.comment === undefined) continue;
    expect(frame).toEqual({ comment: "heartbeat" });
    if (++comments === 4) gate(name).open();
  }
  expect(comments).toBeGreaterThanOrEqual(4);
});

test("a wait sends newlines while it waits, and the values at the end", async () => {
  const name = randomUUID();
  const { thread_id: thread } = await world.client().threads.create();
  const response = await post(`/threads/${thread}/runs/wait`, { assistant_id: "gated", input: { gate: name } });
  expect(response.headers.get("content-location")).toMatch(/^\/threads\/.+\/runs\/.+$/);
  gate(name).open();
  const body = await response.text();
  expect(body).toMatch(/^\n+\{/);
  expect(JSON.parse(body)).toEqual({ passed: name });
});

test("an event of almost 16 MiB arrives whole, live and replayed, between small ones", async () => {
  const bytes = 15 * 1024 * 1024;
  const { thread_id: thread } = await world.client().threads.create();
  const response = await post(`/threads/${thread}/runs/stream`, {
    assistant_id: "counting",
    input: { count: 2, bytes },
    stream_mode: "custom",
  });
  const path = response.headers.get("content-location") as string;
  const sizes = (frames: { event: string; data: string }[]) =>
    frames.filter((frame) => frame.event === "custom").map((frame) => JSON.parse(frame.data).padding.length);
  expect(sizes(await eventFrames(response))).toEqual([bytes, bytes]);
  const replay = await world.fetch(`${path}/stream`, { headers: { "last-event-id": "2" } });
  expect(sizes(await eventFrames(replay))).toEqual([bytes]);
});

test("readers that stop reading hold up nobody, and read everything once when they go on", async () => {
  const count = 120;
  const bytes = 256 * 1024;
  const name = randomUUID();
  const place = await start("halves", { before: 1, behind: 0, gate: name });
  await until("the run is running", async () => (await status(place)) === "running");
  gate(name).open();
  const big = await start("counting", { count, bytes });
  const stalled = Array.from({ length: 5 }, () => {
    const socket = connect(Number(new URL(world.url).port), "127.0.0.1");
    const received: Buffer[] = [];
    socket.on("data", (chunk) => received.push(chunk));
    socket.write(
      `GET ${big.path}/stream HTTP/1.1\r\nhost: x\r\nx-api-key: ${world.home.key}\r\nlast-event-id: 0\r\nconnection: close\r\n\r\n`,
    );
    socket.pause();
    return { socket, received };
  });
  const frames = await joined(big, "0");
  expect(frames.filter((frame) => frame.event === "custom")).toHaveLength(count);
  for (const { socket, received } of stalled) {
    await new Promise<void>((resolve) => {
      socket.once("end", () => resolve());
      socket.resume();
    });
    const ids = Buffer.concat(received)
      .toString()
      .match(/\nid: \d+/g)
      ?.map((line) => Number(line.slice(5)));
    expect(ids).toEqual(frames.map((frame) => Number(frame.id)));
  }
}, 60_000);

test("a reader that comes back to another replica has come back, and reads on where it was", async () => {
  const replica = await world.replica();
  const { thread_id: thread } = await world.client().threads.create();
  const name = randomUUID();
  const leave = new AbortController();
  const response = await post(
    `/threads/${thread}/runs/stream`,
    {
      assistant_id: "halves",
      input: { before: 5, behind: 5, gate: name },
      stream_mode: "custom",
      on_disconnect: "cancel",
    },
    { signal: leave.signal },
  );
  const path = response.headers.get("content-location") as string;
  let cursor = "";
  let seen = 0;
  for await (const frame of wireFrames(response)) {
    if (frame.event === "custom") seen++;
    if (frame.id !== undefined) cursor = frame.id;
    if (seen === 5) break;
  }
  leave.abort();
  const rest = eventFrames(
    await fetch(`${replica}${path}/stream`, { headers: { "x-api-key": world.home.key, "last-event-id": cursor } }),
  );
  // Long enough for a cancel that nobody stopped.
  await until("the grace of the first connection is over", graceIsOver());
  gate(name).open();
  const frames = await rest;
  expect(frames.map((frame) => frame.event)).toEqual([...Array.from({ length: 5 }, () => "custom"), "end"]);
  expect(frames.at(-1)?.data).toBe('{"status":"success"}');
});

function graceIsOver(): () => boolean {
  const begin = performance.now();
  return () => performance.now() - begin > 2_500;
}

test("a reader that leaves takes its run along only when the run was made so, and not when it comes back in time", async () => {
  const open = async (onDisconnect: string) => {
    const { thread_id: thread } = await world.client().threads.create();
    const name = randomUUID();
    const leave = new AbortController();
    const response = await post(
      `/threads/${thread}/runs/stream`,
      { assistant_id: "gated", input: { gate: name }, on_disconnect: onDisconnect },
      { signal: leave.signal },
    );
    const path = response.headers.get("content-location") as string;
    const place = { thread, run: path.split("/").at(-1) as string, path };
    await until("the run is running", async () => (await status(place)) === "running");
    return { place, name, leave };
  };
  const [left, stays, back] = await Promise.all([open("cancel"), open("continue"), open("cancel")]);
  for (const one of [left, stays, back]) one.leave.abort();
  const returned = joined(back.place, "1");
  await until("the run is cancelled", async () => (await status(left.place)) === "interrupted");
  expect(await status(stays.place)).toBe("running");
  expect(await status(back.place)).toBe("running");
  gate(back.name).open();
  gate(stays.name).open();
  expect((await returned).at(-1)).toMatchObject({ event: "end", data: '{"status":"success"}' });
});
