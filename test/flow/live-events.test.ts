import type { RunContext } from "@fairlead/runner";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { redisAvailable } from "../support/redis.js";
import { wireFrames } from "../support/sse-frames.js";
import { startWorld, type World } from "../support/world.js";

// Whatever kept an event back until the next one came, or until a timer rang that the next one starts, would stand still here for ever.

const steps = 6;

describe("with live news over Postgres", () => {
  eachEventAtOnce(false);
});
describe.skipIf(!redisAvailable())("with live news over Redis (no redis-server on the PATH)", () => {
  eachEventAtOnce(true);
});

function eachEventAtOnce(redis: boolean): void {
  let world: World;
  let replica: string;
  /** How many events the agent has sent, by run. */
  const sent = new Map<string, number>();
  /** Lets the agent go on behind an event. */
  const goOn = new Map<string, () => void>();

  async function stepwise(run: RunContext): Promise<unknown> {
    for (let n = 1; n <= steps; n++) {
      const seen = new Promise<void>((resolve) => goOn.set(run.runId, resolve));
      sent.set(run.runId, n);
      if (n % 2 === 0) await run.emit.messages(`word ${n} `, { id: "said" });
      else await run.emit.custom({ n });
      await seen;
    }
    return { steps };
  }

  beforeAll(async () => {
    world = await startWorld({ agents: { stepwise }, redis });
    replica = await world.replica();
  }, 60_000);
  afterAll(() => world?.stop());

  test.each([
    ["a client of the same plane", () => world.url],
    ["a client of another plane", () => replica],
  ])(
    "%s sees each event before the agent sends the next",
    async (_who, url) => {
      const response = await fetch(`${url()}/runs/stream`, {
        method: "POST",
        headers: { "x-api-key": world.home.key, "content-type": "application/json" },
        body: JSON.stringify({ assistant_id: "stepwise", input: {}, stream_mode: ["custom", "messages-tuple"] }),
      });
      const runId = response.headers.get("content-location")?.split("/").at(-1) as string;
      let seen = 0;
      let last = "";
      for await (const { event } of wireFrames(response)) {
        if (event !== undefined) last = event;
        if (event !== "custom" && event !== "messages") continue;
        seen++;
        expect(sent.get(runId)).toBe(seen);
        goOn.get(runId)?.();
      }
      expect({ seen, last }).toEqual({ seen: steps, last: "end" });
    },
    20_000,
  );
}
