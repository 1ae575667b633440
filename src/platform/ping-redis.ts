import { Redis } from "ioredis";

/** Throws why a Redis cannot be used; answers with its version and eviction policy. */
export async function inspectRedis(url: string): Promise<{ version: string; evicts: boolean }> {
  const client = new Redis(url, { lazyConnect: true, connectTimeout: 5_000, retryStrategy: () => null });
  let reason: Error | undefined;
  client.on("error", (error: Error) => {
    reason = error;
  });
  try {
    await client.connect();
    const info = await client.info();
    const field = (name: string) => new RegExp(`^${name}:(.*)$`, "m").exec(info)?.[1]?.trim() ?? "";
    return { version: field("redis_version"), evicts: field("maxmemory_policy") !== "noeviction" };
  } catch (error) {
    throw reason ?? error;
  } finally {
    client.disconnect();
  }
}
