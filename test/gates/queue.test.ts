import { expect, test } from "vitest";
import { redisAvailable } from "../support/redis.js";
import { startMeasuredPlane } from "./measured-plane.js";

test.skipIf(!redisAvailable())(
  "a run that goes through the queue costs at most four round trips to Redis (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    const measured = await startMeasuredPlane({ FAIRLEAD_DISPATCH: "queue" });
    try {
      await measured.runner({ echo: (run) => run.input });
      await measured.runs("echo", 100, 16);
      const before = await measured.redisRoundTrips();
      await measured.runs("echo", 300, 16);
      const trips = ((await measured.redisRoundTrips()) - before) / 300;
      process.stdout.write(`a run through the queue: ${trips.toFixed(2)} round trips to Redis\n`);
      expect(trips).toBeGreaterThan(0.5);
      expect(trips).toBeLessThanOrEqual(4);
    } finally {
      await measured.stop();
    }
  },
);
