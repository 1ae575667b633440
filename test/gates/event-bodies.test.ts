import { expect, test } from "vitest";
import { protocolClient } from "../support/protocol-client.js";
import { redisAvailable } from "../support/redis.js";
import { jsonSpy, startMeasuredPlane } from "./measured-plane.js";

const word = "canary-of-an-event-body";

test.skipIf(!redisAvailable())(
  "the plane carries event bodies without reading or writing them as JSON (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    const measured = await startMeasuredPlane({ NODE_OPTIONS: `--import ${jsonSpy}` });
    try {
      await measured.runner({
        speak: async (run) => {
          for (let n = 0; n < 20; n++) await run.emit.custom({ n, word });
          await run.emit.messages(`${word} as a token`);
          return { done: true };
        },
        echo: (run) => run.input,
      });
      const client = protocolClient(measured.plane.url, measured.apiKey);
      const reader = await client.stream("POST", "/runs/stream", {
        assistant_id: "speak",
        input: {},
        stream_mode: ["custom", "messages-tuple"],
      });
      expect(await reader.whole).toBe(true);
      const carried = reader.frames.filter(({ data }) => data.includes(word));
      expect(carried.length).toBeGreaterThan(20);
      expect(measured.plane.output()).not.toContain("the word was");
      // The spy is awake: a request is parsed at the door.
      await client.json("POST", "/runs/wait", { assistant_id: "echo", input: { word } });
      expect(measured.plane.output()).toContain("the word was parsed");
    } finally {
      await measured.stop();
    }
  },
);
