import { Redis } from "ioredis";
import { type Live, type LiveChannel, liveChannels } from "./live.js";
import type { Log } from "./log.js";

const prefix = "fairlead:live:";
// A Redis that stands still keeps its connection and answers nothing: what is under way to it is bounded.
const maxUnansweredBytes = 32 * 1024 * 1024;

/** Tells the news and goes, for commands, which do not stay. Throws when Redis does not take them in time. */
export async function publishOnRedis(
  url: string,
  channel: LiveChannel,
  payloads: readonly Buffer[],
  withinMs: number,
): Promise<void> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: withinMs,
    commandTimeout: withinMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectionName: "fairlead-command",
  });
  redis.on("error", () => {});
  try {
    await redis.connect();
    await Promise.all(payloads.map((payload) => redis.publish(prefix + channel, payload)));
  } finally {
    redis.disconnect();
  }
}

/** Over Redis publish/subscribe. Without a connection news is dropped, never queued: an offline queue grew by 100 MB a minute and then ended the process. */
export function startLiveRedis(url: string, log: Log): Live {
  const options = {
    enableOfflineQueue: false,
    maxRetriesPerRequest: null,
    retryStrategy: (n: number) => Math.min(n * 100, 1_000),
  } as const;
  const publisher = new Redis(url, { ...options, enableAutoPipelining: true, connectionName: "fairlead-live" });
  const subscriber = new Redis(url, { ...options, enableOfflineQueue: true, connectionName: "fairlead-live-sub" });
  const listeners = new Map<string, ((payload: Buffer) => void)[]>();
  let wasLost = false;
  let unansweredBytes = 0;
  const onError = (error: Error): void => {
    if (!wasLost) log.warn({ err: error.message }, "Redis is away: news between processes is late");
    wasLost = true;
  };
  publisher.on("error", onError);
  subscriber.on("error", onError);
  publisher.on("ready", () => {
    if (wasLost) log.info("Redis is back");
    wasLost = false;
  });
  subscriber.on("messageBuffer", (channel: Buffer, payload: Buffer) => {
    for (const listener of listeners.get(channel.toString()) ?? []) listener(payload);
  });
  subscriber.subscribe(...liveChannels.map((channel) => prefix + channel)).catch(onError);
  return {
    publish: (channel: LiveChannel, payload: Buffer) => {
      if (publisher.status !== "ready" || unansweredBytes > maxUnansweredBytes) return;
      const bytes = payload.length + 100;
      unansweredBytes += bytes;
      publisher
        .publish(prefix + channel, payload)
        .catch(onError)
        .finally(() => {
          unansweredBytes -= bytes;
        });
    },
    on: (channel, listener) => {
      listeners.set(prefix + channel, [...(listeners.get(prefix + channel) ?? []), listener]);
    },
    maxBytes: 512 * 1024,
    stop: () => {
      publisher.disconnect();
      subscriber.disconnect();
      return Promise.resolve();
    },
  };
}
