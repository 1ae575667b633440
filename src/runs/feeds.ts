import type { RunKey } from "../domain/ids.js";
import type { FinalRunState } from "../domain/moves/run.js";
import { isFinalRunState, type RunState } from "../domain/moves/run.js";
import type { Limits } from "../platform/config.js";

// Followers are fed after the commit, with the numbers that it assigned. A feed is what this process knows of one run's log: a ring of recent
// chunks, the highest number that is known to be committed, and the end. A follower is a cursor: it holds no database or Redis connection. What
// the ring lacks it reads from the store, once, and a chunk that arrives out of order is simply read there.
//
// Authority: the store. Pushes of this process and hints of others only say "look again". Once a second `poll` asks the store for the head of
// everything that is followed, and that guarantees the end, whatever messages were lost.

export interface LogChunk {
  readonly firstSeq: number;
  readonly count: number;
  /** A serialized EventList. */
  readonly body: Buffer;
  /** Frames by dialect, made once and shared by all followers. */
  readonly frames: Map<string, Buffer>;
}

export function logChunk(firstSeq: number, count: number, body: Buffer): LogChunk {
  return { firstSeq, count, body, frames: new Map() };
}

export interface RunEnd {
  readonly status: FinalRunState;
  readonly lastSeq: number;
}

/** What those who wait for a run get. JSON is text or bytes, as the runner sent it. */
export interface RunResult {
  readonly status: RunState;
  readonly error: string | null;
  readonly values: Buffer | null;
  /** {task id: [{id, value}]} when the run waits for a person. */
  readonly interrupts: Buffer | null;
}

/** Where a follower's events go. */
export interface FollowerSink {
  /** Chunks in order without gaps. Events numbered below `from` were seen before. */
  deliver(chunks: readonly LogChunk[], from: number): void;
  /** The end was delivered; nothing follows. */
  ended(end: RunEnd): void;
  /** The store could not be read for too long, or the run is gone. */
  failed(error: unknown): void;
  /** Bytes that the reader has not taken yet: above the limit the follower pauses until `resume`. */
  buffered(): number;
}

export interface Following {
  /** The reader took what was buffered: go on. */
  resume(): void;
  close(): void;
  /** The last number that was delivered. */
  readonly cursor: () => number;
}

interface Follower {
  readonly sink: FollowerSink;
  readonly first: LogChunk;
  cursor: number;
  reading: boolean;
  closed: boolean;
}

interface Feed {
  readonly key: RunKey;
  ring: LogChunk[];
  known: number;
  end: RunEnd | undefined;
  readonly followers: Set<Follower>;
  readonly waiters: Set<(result: RunResult | null) => void>;
  /** Some of its events were delivered. */
  isHeard: boolean;
  idleTicks: number;
}

export interface FeedStore {
  readChunks(key: RunKey, after: number): Promise<{ firstSeq: number; count: number; body: Buffer }[]>;
  readHeads(keys: readonly RunKey[]): Promise<({ lastSeq: number; status: RunState } | null)[]>;
}

export interface Feeds {
  /** A run that was created in this process: nothing but its first frame is known yet. */
  begin(key: RunKey): void;
  /** Events that this process, or another one, committed. */
  push(key: RunKey, chunk: LogChunk): void;
  /** Something up to `lastSeq` was committed elsewhere. */
  hint(key: RunKey, lastSeq: number): void;
  /** The run ended. Whoever waits here gets `result` with it; it is not kept. */
  end(key: RunKey, end: RunEnd, result?: RunResult): void;
  /** Delivers everything after `after`, in order, then follows. `first` is the run's metadata frame. */
  follow(key: RunKey, after: number, first: LogChunk, sink: FollowerSink): Following;
  /** Resolves when the run has ended: with its result if that came by, else with null. */
  awaitEnd(key: RunKey, signal: AbortSignal): Promise<RunResult | null>;
  /** Asks the store for the heads of everything that is followed; called once a second. */
  poll(): Promise<void>;
  isFollowed(key: RunKey): boolean;
  readonly counts: () => { feeds: number; followers: number; ringBytes: number };
}

// A follower whose socket holds this much is paused, so that one chunk more cannot take it past its limit of 8 MiB.
const pauseShare = 8;
// Feeds that nobody follows are forgotten after this many polls.
const idlePolls = 5;

export function createFeeds(
  store: FeedStore,
  limits: Limits,
  onInterest: (key: RunKey, followed: boolean) => void = () => {},
): Feeds {
  const feeds = new Map<RunKey, Feed>();
  const dirty = new Set<Feed>();
  /** Whose followers have not got an event yet: they go before the rest of a flood. */
  const fresh = new Set<Feed>();
  /** Whose rings hold something, in order of last use. */
  const ringed = new Set<Feed>();
  let ringBytes = 0;
  let followerCount = 0;
  let scheduled = false;

  const feedOf = (key: RunKey): Feed => {
    let feed = feeds.get(key);
    if (!feed) {
      feed = {
        key,
        ring: [],
        known: 0,
        end: undefined,
        followers: new Set(),
        waiters: new Set(),
        isHeard: false,
        idleTicks: 0,
      };
      feeds.set(key, feed);
    }
    return feed;
  };

  const keep = (feed: Feed, chunk: LogChunk): void => {
    const last = feed.ring.at(-1);
    if (last && chunk.firstSeq <= last.firstSeq) {
      if (feed.ring.some((other) => other.firstSeq === chunk.firstSeq)) return;
      feed.ring.push(chunk);
      feed.ring.sort((a, b) => a.firstSeq - b.firstSeq);
    } else feed.ring.push(chunk);
    ringBytes += weight(chunk);
    ringed.delete(feed);
    ringed.add(feed);
    // The quietest run's ring goes first.
    for (const quiet of ringed) {
      while (ringBytes > limits.ringBytes && quiet.ring.length > 0) drop(quiet);
      if (quiet.ring.length > 0) return;
      ringed.delete(quiet);
    }
  };

  const drop = (feed: Feed): void => {
    const dropped = feed.ring.shift();
    if (dropped) ringBytes -= weight(dropped);
  };

  const forget = (feed: Feed): void => {
    for (const chunk of feed.ring) ringBytes -= weight(chunk);
    feed.ring = [];
    ringed.delete(feed);
    feeds.delete(feed.key);
  };

  const touch = (feed: Feed): void => {
    feed.idleTicks = 0;
    if (feed.followers.size > 0) {
      (feed.isHeard ? dirty : fresh).add(feed);
      if (!scheduled) {
        scheduled = true;
        setImmediate(flush);
      }
    }
  };

  /** One write per follower and tick, however many chunks arrived in it. A flood of one run yields to the others. */
  const flush = (): void => {
    scheduled = false;
    const until = performance.now() + 8;
    for (const lane of [fresh, dirty]) {
      for (const feed of lane) {
        lane.delete(feed);
        for (const follower of feed.followers) pump(feed, follower);
        if (performance.now() > until && fresh.size + dirty.size > 0) {
          scheduled = true;
          setImmediate(flush);
          return;
        }
      }
    }
  };

  const pump = (feed: Feed, follower: Follower): void => {
    if (follower.reading || follower.closed) return;
    if (follower.sink.buffered() > limits.followerBufferBytes / pauseShare) return;
    if (follower.cursor < 1) {
      follower.sink.deliver([follower.first], 1);
      follower.cursor = 1;
    }
    const ready = contiguous(feed.ring, follower.cursor);
    if (ready.length > 0) {
      const from = follower.cursor + 1;
      const last = ready.at(-1) as LogChunk;
      follower.cursor = last.firstSeq + last.count - 1;
      feed.isHeard = true;
      follower.sink.deliver(ready, from);
    }
    if (feed.end && follower.cursor >= feed.end.lastSeq) {
      close(feed, follower);
      follower.sink.ended(feed.end);
    } else if (feed.known > follower.cursor) {
      follower.reading = true;
      void catchUp(feed, follower);
    }
  };

  const catchUp = async (feed: Feed, follower: Follower): Promise<void> => {
    try {
      const rows = await store.readChunks(feed.key, follower.cursor);
      if (follower.closed) return;
      const chunks = rows.map((row) => logChunk(row.firstSeq, row.count, row.body));
      const ready = contiguous(chunks, follower.cursor);
      const from = follower.cursor + 1;
      const last = ready.at(-1);
      if (last) {
        follower.cursor = last.firstSeq + last.count - 1;
        follower.sink.deliver(ready, from);
      } else if (chunks[0]) {
        // A stretch was pruned: go on behind it. The sink sees from the numbers that something is missing.
        follower.sink.deliver([chunks[0]], from);
        follower.cursor = chunks[0].firstSeq + chunks[0].count - 1;
      } else if (feed.end) {
        follower.cursor = feed.end.lastSeq;
      } else {
        // Known to be committed and yet not there: the number was wrong; the next poll corrects it.
        feed.known = follower.cursor;
      }
      follower.reading = false;
      if (follower.sink.buffered() <= limits.followerBufferBytes / pauseShare) pump(feed, follower);
    } catch (error) {
      follower.reading = false;
      if (!follower.closed) {
        close(feed, follower);
        follower.sink.failed(error);
      }
    }
  };

  const close = (feed: Feed, follower: Follower): void => {
    if (follower.closed) return;
    follower.closed = true;
    followerCount--;
    feed.followers.delete(follower);
    if (feed.followers.size === 0 && feed.waiters.size === 0) onInterest(feed.key, false);
  };

  const setEnd = (feed: Feed, end: RunEnd, result: RunResult | null = null): void => {
    if (feed.end) return;
    feed.end = end;
    feed.known = Math.max(feed.known, end.lastSeq);
    for (const waiter of feed.waiters) waiter(result);
    feed.waiters.clear();
    touch(feed);
  };

  return {
    begin: (key) => {
      const feed = feedOf(key);
      feed.known = Math.max(feed.known, 1);
    },
    push: (key, chunk) => {
      const feed = feedOf(key);
      keep(feed, chunk);
      feed.known = Math.max(feed.known, chunk.firstSeq + chunk.count - 1);
      touch(feed);
    },
    hint: (key, lastSeq) => {
      const feed = feeds.get(key);
      if (!feed || lastSeq <= feed.known) return;
      feed.known = lastSeq;
      touch(feed);
    },
    end: (key, end, result) => setEnd(feedOf(key), end, result),
    follow: (key, after, first, sink) => {
      const feed = feedOf(key);
      if (feed.followers.size === 0 && feed.waiters.size === 0) onInterest(key, true);
      const follower: Follower = { sink, first, cursor: Math.max(after, 0), reading: false, closed: false };
      feed.followers.add(follower);
      followerCount++;
      touch(feed);
      return {
        resume: () => pump(feed, follower),
        close: () => close(feed, follower),
        cursor: () => follower.cursor,
      };
    },
    awaitEnd: (key, signal) => {
      const feed = feedOf(key);
      if (feed.end) return Promise.resolve(null);
      if (feed.followers.size === 0 && feed.waiters.size === 0) onInterest(key, true);
      return new Promise<RunResult | null>((resolve, reject) => {
        const onAbort = (): void => {
          feed.waiters.delete(done);
          if (feed.followers.size === 0 && feed.waiters.size === 0) onInterest(key, false);
          reject(signal.reason as Error);
        };
        const done = (result: RunResult | null): void => {
          signal.removeEventListener("abort", onAbort);
          resolve(result);
        };
        if (signal.aborted) return onAbort();
        signal.addEventListener("abort", onAbort, { once: true });
        feed.waiters.add(done);
      });
    },
    poll: async () => {
      const asked: Feed[] = [];
      for (const feed of feeds.values()) {
        if (feed.followers.size > 0 || feed.waiters.size > 0) {
          feed.idleTicks = 0;
          if (!feed.end) asked.push(feed);
        } else if (++feed.idleTicks > idlePolls) forget(feed);
      }
      if (asked.length === 0) return;
      const heads = await store.readHeads(asked.map((feed) => feed.key));
      asked.forEach((feed, index) => {
        const head = heads[index];
        if (!head) return;
        if (head.lastSeq > feed.known) {
          feed.known = head.lastSeq;
          touch(feed);
        }
        if (isFinalRunState(head.status)) setEnd(feed, { status: head.status, lastSeq: head.lastSeq });
      });
    },
    isFollowed: (key) => {
      const feed = feeds.get(key);
      return feed !== undefined && (feed.followers.size > 0 || feed.waiters.size > 0);
    },
    counts: () => ({ feeds: feeds.size, followers: followerCount, ringBytes }),
  };
}

/** The chunks that continue a cursor without a gap. */
function contiguous(ring: readonly LogChunk[], cursor: number): LogChunk[] {
  const ready: LogChunk[] = [];
  let next = cursor + 1;
  let at = ring.length;
  // The ring is short behind a live cursor: search from its young end.
  while (at > 0 && lastOf(ring[at - 1] as LogChunk) >= next) at--;
  for (; at < ring.length; at++) {
    const chunk = ring[at] as LogChunk;
    if (chunk.firstSeq > next) break;
    ready.push(chunk);
    next = lastOf(chunk) + 1;
  }
  return ready;
}

/** Memory of a chunk: its body, the frames that are made of it, and what a small object costs. */
function weight(chunk: LogChunk): number {
  return chunk.body.length * 2 + 512;
}

function lastOf(chunk: LogChunk): number {
  return chunk.firstSeq + chunk.count - 1;
}
