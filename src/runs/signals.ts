import type { AgentQueue, QueueName, RunId, RunKey, TenantId } from "../domain/ids.js";
import { isFinalRunState, type RunState } from "../domain/moves/run.js";
import type { Live } from "../platform/live.js";
import type { Feeds } from "./feeds.js";
import { logChunk } from "./feeds.js";
import type { Parked } from "./parked.js";
import type { Holder, Signals, StopOrder, Stops } from "./plane.js";

// News of this process for others, and of others for this one. Events travel only to processes that asked for the run: a process says which runs are
// followed in it, and says it again when a new process appears. A process that is alone says nothing at all.

const presenceEveryMs = 5_000;
const helloAtMs = [0, 200, 1_000];
const forgottenAfterMs = 16_000;

interface Presence {
  readonly from: string;
  /** Runs that are followed there from now on, and no more. */
  readonly want?: readonly RunKey[];
  readonly drop?: readonly RunKey[];
  /** Everybody is asked to say again what they follow. */
  readonly hello?: boolean;
}

export interface SignalsOptions {
  readonly live: Live;
  readonly processId: string;
  readonly feeds: () => Feeds;
  readonly parked: () => Parked;
  readonly stops: Stops;
  readonly monotonic: () => number;
  /** The job queue of shared pools, if there is one. */
  readonly enqueue: (queue: AgentQueue, tenantId: TenantId, runId: RunId, dispatchNo: number) => void;
}

export interface RunningSignals extends Signals {
  /** The feeds tell here what is followed. */
  interest(key: RunKey, followed: boolean): void;
  close(): void;
}

export function createSignals(options: SignalsOptions): RunningSignals {
  const { live, processId } = options;
  const others = new Map<string, number>();
  const wantedBy = new Map<RunKey, Set<string>>();
  const mine = new Set<RunKey>();
  let changes = new Map<RunKey, boolean>();
  let scheduled = false;

  const say = (presence: Omit<Presence, "from">): void =>
    live.publish("presence", Buffer.from(JSON.stringify({ from: processId, ...presence })));

  const flush = (): void => {
    scheduled = false;
    const want = [...changes].filter(([, followed]) => followed).map(([key]) => key);
    const drop = [...changes].filter(([, followed]) => !followed).map(([key]) => key);
    changes = new Map();
    if (want.length + drop.length > 0) say({ want, drop });
  };

  live.on("presence", (payload) => {
    const news = JSON.parse(payload.toString()) as Presence;
    if (news.from === processId) return;
    const isNew = !others.has(news.from);
    others.set(news.from, options.monotonic());
    for (const key of news.want ?? []) wantedBy.set(key, (wantedBy.get(key) ?? new Set()).add(news.from));
    for (const key of news.drop ?? []) {
      const set = wantedBy.get(key);
      set?.delete(news.from);
      if (set?.size === 0) wantedBy.delete(key);
    }
    if (isNew || news.hello) say({ want: [...mine] });
  });
  live.on("run", (payload) => {
    const { key, lastSeq, status, chunk } = decodeRunNews(payload);
    const feeds = options.feeds();
    if (!feeds.isFollowed(key)) return;
    if (chunk) feeds.push(key, logChunk(chunk.firstSeq, chunk.count, chunk.body));
    else feeds.hint(key, lastSeq);
    if (status && isFinalRunState(status)) feeds.end(key, { status, lastSeq });
  });
  live.on("work", (payload) => options.parked().wake(JSON.parse(payload.toString()) as QueueName));
  live.on("stop", (payload) => {
    const { order, ...holder } = JSON.parse(payload.toString()) as Holder & { order: StopOrder };
    // Processes of the version before name no queue: the next heartbeat says what they would have said.
    if (holder.queue) options.stops.tell(holder, order);
  });

  // The live connection may not stand yet, and drops what is said until then: so hello is said again.
  const hellos = helloAtMs.map((ms) => setTimeout(() => say({ hello: true }), ms).unref());
  const timer = setInterval(() => {
    const now = options.monotonic();
    for (const [other, seenAt] of others) {
      if (now - seenAt < forgottenAfterMs) continue;
      others.delete(other);
      for (const [key, set] of wantedBy) {
        set.delete(other);
        if (set.size === 0) wantedBy.delete(key);
      }
    }
    say({});
  }, presenceEveryMs);
  timer.unref();

  return {
    interest: (key, followed) => {
      if (followed) mine.add(key);
      else mine.delete(key);
      if (others.size === 0) return;
      changes.set(key, followed);
      if (!scheduled) {
        scheduled = true;
        setImmediate(flush);
      }
    },
    committed: (key, chunk, end) => {
      if (!wantedBy.has(key)) return;
      const fits = chunk.body.length + 256 <= live.maxBytes;
      live.publish(
        "run",
        encodeRunNews(key, chunk.firstSeq + chunk.count - 1, end?.status ?? null, fits ? chunk : null),
      );
    },
    isFollowedElsewhere: (key) => wantedBy.has(key),
    waiting: (queue, tenantId, runId, dispatchNo) => {
      options.enqueue(queue, tenantId, runId, dispatchNo);
      if (others.size > 0) live.publish("work", Buffer.from(JSON.stringify(queue)));
    },
    stop: ({ runnerId, queue: { poolId, kind } }, order) => {
      if (others.size > 0)
        live.publish("stop", Buffer.from(JSON.stringify({ runnerId, queue: { poolId, kind }, order })));
    },
    close: () => {
      clearInterval(timer);
      for (const hello of hellos) clearTimeout(hello);
    },
  };
}

interface RunNews {
  readonly key: RunKey;
  readonly lastSeq: number;
  readonly status: RunState | null;
  readonly chunk: { readonly firstSeq: number; readonly count: number; readonly body: Buffer } | null;
}

/** A line of JSON, then the chunk's bytes as they are. */
function encodeRunNews(key: RunKey, lastSeq: number, status: RunState | null, chunk: RunNews["chunk"]): Buffer {
  const head = Buffer.from(
    `${JSON.stringify({ key, lastSeq, status, chunk: chunk ? { firstSeq: chunk.firstSeq, count: chunk.count } : null })}\n`,
  );
  return chunk ? Buffer.concat([head, chunk.body]) : head;
}

function decodeRunNews(payload: Buffer): RunNews {
  const line = payload.indexOf(10);
  const head = JSON.parse(payload.subarray(0, line).toString()) as RunNews;
  return head.chunk ? { ...head, chunk: { ...head.chunk, body: payload.subarray(line + 1) } } : head;
}
