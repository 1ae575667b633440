import pg from "pg";
import { type Live, type LiveChannel, liveChannels } from "../platform/live.js";
import type { Log } from "../platform/log.js";

// A NOTIFY payload is text of less than 8,000 bytes.
const maxBytes = 5_000;
const prefix = "fairlead_live_";

/** Tells the news and goes, for commands, which do not stay. */
export async function publishOnPostgres(
  pool: pg.Pool,
  channel: LiveChannel,
  payloads: readonly Buffer[],
): Promise<void> {
  await pool.query("select pg_notify($1, p) from unnest($2::text[]) as n (p)", [
    prefix + channel,
    payloads.map((payload) => payload.toString("base64")),
  ]);
}

/** Over LISTEN/NOTIFY, for planes without Redis: hints only, since payloads are small. One statement carries a tick's news. */
export function startLivePostgres(databaseUrl: string, log: Log): Live {
  const listeners = new Map<string, ((payload: Buffer) => void)[]>();
  let outgoing: { channel: string; text: string }[] = [];
  let client: pg.Client | undefined;
  let sending = false;
  let stopped = false;

  const connect = async (): Promise<void> => {
    const next = new pg.Client({ connectionString: databaseUrl, application_name: "fairlead live", keepAlive: true });
    next.on("error", () => {});
    next.on("end", () => {
      if (client === next) client = undefined;
      if (!stopped) setTimeout(() => void connect(), 500).unref();
    });
    next.on("notification", ({ channel, payload }) => {
      for (const listener of listeners.get(channel) ?? []) listener(Buffer.from(payload ?? "", "base64"));
    });
    try {
      await next.connect();
      await next.query(liveChannels.map((channel) => `listen ${prefix}${channel}`).join("; "));
      client = next;
    } catch (error) {
      log.warn({ err: (error as Error).message }, "the live connection to Postgres could not be opened");
      await next.end().catch(() => {});
    }
  };
  const first = connect();

  const send = async (): Promise<void> => {
    sending = true;
    while (outgoing.length > 0 && client) {
      const batch = outgoing;
      outgoing = [];
      try {
        await client.query("select pg_notify(c, p) from unnest($1::text[], $2::text[]) as n (c, p)", [
          batch.map((news) => news.channel),
          batch.map((news) => news.text),
        ]);
      } catch {
        // Lost news is late news.
      }
    }
    outgoing = [];
    sending = false;
  };

  return {
    publish: (channel: LiveChannel, payload: Buffer) => {
      if (!client || payload.length > maxBytes) return;
      outgoing.push({ channel: prefix + channel, text: payload.toString("base64") });
      if (!sending) {
        sending = true;
        setImmediate(() => void send());
      }
    },
    on: (channel, listener) => {
      listeners.set(prefix + channel, [...(listeners.get(prefix + channel) ?? []), listener]);
    },
    maxBytes,
    stop: async () => {
      stopped = true;
      await first;
      await client?.end().catch(() => {});
    },
  };
}
