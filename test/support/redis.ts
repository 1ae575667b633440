import { rmSync } from "node:fs";
import { findRedis, startEmbeddedRedis } from "../../src/platform/embedded-redis.js";
import { temporaryDirectory } from "./cluster.js";

/** Say so when skipping: test.skipIf(!redisAvailable())("… (no redis-server on the PATH)", …). */
export function redisAvailable(): boolean {
  return findRedis() !== undefined;
}

/** A Redis of its own for one test file. */
export async function testRedis(): Promise<{ url: string; stop(): Promise<void> }> {
  const directory = temporaryDirectory();
  const redis = await startEmbeddedRedis({ directory, log: () => {} });
  const stop = async () => {
    await redis.stop();
    rmSync(directory, { recursive: true, force: true });
  };
  return { url: redis.url, stop };
}
