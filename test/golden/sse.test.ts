import { afterAll, beforeAll, expect, test } from "vitest";
import { sampleAgents } from "../support/sample-agents.js";
import { startWorld, type World } from "../support/world.js";

// The bytes of event streams, as recorded. Clients chose all ids, so nothing in them changes from run to run.

let world: World;
beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
});
afterAll(() => world.stop());

/** Without the comments that a slow machine lets slip in between. */
const quiet = (text: string): string => text.replaceAll("\n\n: heartbeat", "");

const cases = {
  echo: { assistant_id: "echo", input: { n: 1.5, text: "ü😀\u2028" } },
  talking: {
    assistant_id: "talking",
    input: { words: ["a", "b\n", "c"] },
    stream_mode: ["messages", "messages-tuple", "values", "updates"],
  },
  failing: { assistant_id: "failing", input: {} },
  asking: { assistant_id: "asking", input: {}, stream_mode: ["values", "updates"] },
} as const;

test.each(Object.entries(cases))("the stream of the agent %s is what was recorded, live and replayed", async (name, body) => {
  const number = Object.keys(cases).indexOf(name);
  const thread = `00000000-0000-4000-8000-00000000000${number}`;
  const run = `00000000-0000-4000-9000-00000000000${number}`;
  await world.client().threads.create({ threadId: thread });
  const text = JSON.stringify({ ...body, run_id: run });
  const live = await world.fetch(`/threads/${thread}/runs/stream`, { method: "POST", body: text });
  const bytes = quiet(await live.text());
  await expect(bytes).toMatchFileSnapshot(`sse/${name}.txt`);
  expect(live.headers.get("content-location")).toBe(`/threads/${thread}/runs/${run}`);
  expect(live.headers.get("location")).toBe(`/threads/${thread}/runs/${run}/stream`);
  const replayed = await world.fetch(`/threads/${thread}/runs/${run}/stream`, { headers: { "last-event-id": "-1" } });
  expect(quiet(await replayed.text())).toBe(bytes);
});
