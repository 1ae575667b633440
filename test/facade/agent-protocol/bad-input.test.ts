import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { forged } from "../../support/forged.js";
import { type Names, pathOf, registeredRoutes, requestOf, restRoutes } from "../../support/rest-routes.js";
import { sampleAgents } from "../../support/sample-agents.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
let names: Names;
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
  const { threads, runs } = world.client();
  const thread = await threads.create();
  const run = await runs.create(thread.thread_id, "echo", { input: { a: 1 } });
  await runs.join(thread.thread_id, run.run_id);
  const checkpoint = (await threads.getState(thread.thread_id)).checkpoint.checkpoint_id as string;
  names = { thread: thread.thread_id, run: run.run_id, checkpoint, assistant: "echo" };
});
afterAll(() => world.stop());

const routes = Object.entries(restRoutes);
const withBody = routes.filter(([route]) => !route.startsWith("GET"));

async function expectError(response: Response, ...statuses: number[]): Promise<Record<string, string>> {
  const body = await response.text();
  expect({ status: response.status, body, allowed: statuses.includes(response.status) }).toMatchObject({
    allowed: true,
  });
  const error = JSON.parse(body) as Record<string, string>;
  expect(error["code"]).toMatch(/^[A-Z_]+$/);
  expect(error["message"]?.length).toBeGreaterThan(10);
  expect(error["detail"]).toBe(error["message"]);
  expect(error["error"]).toBe(error["message"]);
  // 7 of the promises: the inside of the plane is nobody's business.
  expect(error["message"]).not.toMatch(/\b(runner|queue|generation|fence|lease)\b/i);
  return error;
}

test("every registered route has a case in the table, and none is left over", () => {
  expect([...new Set(registeredRoutes(world.running.http!.app.routeTable))].sort()).toEqual(
    routes.map(([route]) => route).sort(),
  );
});

describe.each(routes)("%s", (route, { scope, body }) => {
  test("refuses callers without a valid key, and keys without the scope", async () => {
    const ask = (key: string | null) => world.fetch(pathOf(route, names), { ...requestOf(route, body), key });
    await expectError(await ask(null), 401);
    await expectError(await ask("nonsense"), 401);
    await expectError(await ask(forged(world.home.key)), 401);
    await expectError(await ask(await world.runnerToken()), 401);
    const other = await world.key(world.home, [scope === "runs:read" ? "runs:write" : "runs:read"]);
    const refused = await expectError(await ask(other), 403);
    expect(refused["message"]).toContain(scope);
  });

  test("answers another method with an error", async () => {
    await expectError(await world.fetch(pathOf(route, names), { method: "PUT" }), 404);
  });
});

const withWrong = routes.filter(([, { wrong, wrongQuery }]) => wrong || wrongQuery);
describe.each(withWrong)("%s", (route, { wrong, wrongQuery, body }) => {
  test("refuses wrong types and names the field", async () => {
    for (const [field, bad] of Object.entries(wrong ?? {})) {
      const error = await expectError(await world.fetch(pathOf(route, names), requestOf(route, bad)), 422);
      expect(error["message"]).toContain(field.trim());
    }
    for (const [field, query] of Object.entries(wrongQuery ?? {})) {
      const error = await expectError(await world.fetch(pathOf(route, names) + query, requestOf(route, body)), 422);
      expect(error["field"]).toBe(field);
    }
  });
});

// What no text column holds, and how it may be written in JSON.
const unstorable = ['"a\\u0000b"', '["ok", "a\\udc00"]'];
const everyText = [...new Set(routes.flatMap(([, { texts }]) => texts ?? []))];
/** The route's body with this JSON at this path. */
function bodyWith(body: unknown, path: string, json: string): string {
  const names = path.split(".");
  const whole: Record<string, unknown> = structuredClone(body ?? {}) as Record<string, unknown>;
  let at = whole;
  for (const name of names.slice(0, -1)) at = at[name] = {} as Record<string, unknown>;
  at[names.at(-1) as string] = "@here@";
  return JSON.stringify(whole).replace('"@here@"', json);
}

describe.each(withBody.filter(([route]) => !route.startsWith("DELETE") && !route.endsWith("/cancel")))(
  "text in the body of %s",
  (route, { body, texts = [] }) => {
    test("that cannot be stored is refused by the field's name, and never a fault of the plane", async () => {
      for (const path of everyText) {
        for (const json of texts.includes(path) ? unstorable : unstorable.slice(0, 1)) {
          const isList = json.startsWith("[");
          const response = await world.fetch(pathOf(route, names), requestOf(route, bodyWith(body, path, json)));
          if (texts.includes(path)) {
            const { message } = await expectError(response, 422);
            if (!isList || message?.includes("U+0000"))
              expect([path, message]).toEqual([path, expect.stringContaining(path.split(".")[0] as string)]);
          } else {
            await response.text();
            expect([path, json, response.status < 500]).toEqual([path, json, true]);
          }
        }
      }
    }, 60_000);
  },
);

test("payloads are no text: what they hold comes back as it was sent", async () => {
  const input = '{"a":"x\\u0000y","b\\ud800":["\\udfff"]}';
  const send = (path: string, body: string) =>
    world.fetch(path, { method: "POST", body, headers: { "content-type": "application/json" } });
  for (const member of ['"context":{"c":"\\u0000"}', '"config":{"configurable":{"c":"\\ud800"}}']) {
    const response = await send("/runs/wait", `{"assistant_id":"echo","input":${input},${member}}`);
    expect([response.status, JSON.parse(await response.text())]).toEqual([200, JSON.parse(input)]);
  }
});

test.each(routes)("%s refuses a query or a path that cannot be stored, and never fails", async (route, { body }) => {
  const queries = ["select", "stream_mode", "before", "status", "action", "wait", "limit", "offset", "subgraphs"];
  for (const query of [...queries, "cancel_on_disconnect", "stream_subgraphs"]) {
    const path = pathOf(route, { ...names, run: randomUUID() });
    const response = await world.fetch(`${path}?${query}=a%00b`, requestOf(route, body));
    await response.text();
    expect([query, response.status < 500]).toEqual([query, true]);
  }
  for (const id of ["%00", "a%00b", "%ED%A0%80"]) {
    const path = pathOf(route, { thread: id, run: id, checkpoint: id, assistant: id });
    if (path.includes(id)) await expectError(await world.fetch(path, requestOf(route, body)), 400, 404, 422);
  }
});

const withNames = routes.filter(([route]) => route.includes(":"));
describe.each(withNames)("%s", (route, { body }) => {
  test("knows neither ids that nobody has nor ids that are none", async () => {
    for (const id of [randomUUID(), "7", "%00", "a%2Fb", "ü", "x".repeat(300)]) {
      const unknown = { thread: id, run: id, checkpoint: id, assistant: id };
      const path = pathOf(route, unknown);
      await expectError(await world.fetch(path, requestOf(route, body)), 404, 422);
    }
  });
});

describe.each(withBody)("the body of %s", (route) => {
  const ask = (body: string, type = "application/json") =>
    world.fetch(pathOf(route, { ...names, thread: randomUUID(), run: randomUUID() }), {
      method: route.split(" ")[0] as string,
      body,
      headers: { "content-type": type },
    });

  test("that is not JSON is refused", async () => {
    for (const body of ['{"a":', "nonsense", "{'a':1}", '{"a":1}}'])
      expect((await expectError(await ask(body), 400))["code"]).toBe("MALFORMED_JSON");
    await expectError(await ask("a=1&b=2", "application/x-www-form-urlencoded"), 400);
  });

  test("that is nested 10,000 levels deep is refused", async () => {
    const deep = `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`;
    await expectError(await ask(`{"metadata":${deep},"input":${deep}}`), 422);
    await expectError(await ask(`${"[".repeat(10_000)}${"]".repeat(10_000)}`), 422);
  });

  test("that is larger than allowed is refused", async () => {
    await expectError(await ask(`{"input":"${"x".repeat(20 * 1024 * 1024)}"}`), 413);
  });
});

test("a header of 20 KB and a request that is not HTTP get an answer in JSON", async () => {
  const send = async (bytes: string): Promise<string> => {
    const socket = connect(Number(new URL(world.url).port), "127.0.0.1");
    socket.end(bytes);
    return text(socket);
  };
  for (const [bytes, status] of [
    [`GET /ok HTTP/1.1\r\nhost: x\r\nx-much: ${"y".repeat(20_000)}\r\n\r\n`, 431],
    ["NONSENSE\r\n\r\n", 400],
  ] as const) {
    const answer = await send(bytes);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")))).toMatchObject({ code: "INVALID_INPUT" });
  }
  await expectError(await world.fetch("/threads/%zz"), 400);
});

test("metadata that the database could not search is refused wherever it is sent, and what looks like it is kept", async () => {
  const make = (metadata: string) =>
    world.fetch("/threads", {
      method: "POST",
      body: `{"metadata":${metadata}}`,
      headers: { "content-type": "application/json" },
    });
  for (const bad of ['{"a":"\\u0000"}', '{"\\ud800":1}', '{"n":1e99999}', `{"n":${"9".repeat(2_000)}}`])
    await expectError(await make(bad), 422);
  for (const good of ['{"a":"\\\\u0000"}', '{"a":"😀 1e99999"}', '{"n":1e308}', '{"n":12345678901234567890}']) {
    const response = await make(good);
    expect(response.status).toBe(200);
    const { thread_id: id } = (await response.json()) as { thread_id: string };
    const found = await world.fetch("/threads/search", {
      method: "POST",
      body: `{"ids":["${id}"],"metadata":${good}}`,
    });
    expect(await found.json()).toHaveLength(1);
  }
});

test("after all that, the plane still runs runs", async () => {
  expect(await world.client().runs.wait(null, "echo", { input: { alive: true } })).toEqual({ alive: true });
});
