import { createPostgresBackend, type Job, Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import type { Log } from "./log.js";
import { uuidv7 } from "./random.js";

// BullMQ in manual mode. A job is a hint: it names a run, and whether the run may start is decided elsewhere. So a job that is lost, doubled or late
// does no harm, and Redis is never waited for on a caller's path.

export interface JobQueues {
  /** Adds a hint; gives up silently after the deadline. Equal ids that still wait are one job. */
  add(queue: string, id: string, data: RunJob): void;
  /** Fetches jobs of a queue while it is wanted. `take` says whether the job was used; one that nobody could take now goes back to the queue. */
  want(queue: string, take: (job: RunJob) => Promise<boolean>): void;
  unwant(queue: string): void;
  /** Whether the store of the queues takes what is written: one that is full still answers. */
  isHealthy(): Promise<boolean>;
  stop(): Promise<void>;
}

export interface RunJob {
  readonly tenantId: string;
  readonly runId: string;
  readonly graphId: string;
}

export type JobQueueStore =
  | { readonly kind: "redis"; readonly url: string }
  | { readonly kind: "postgres"; readonly url: string };

const addDeadlineMs = 250;
const healthDeadlineMs = 1_000;
const notTakenPauseMs = 50;
// A store that stands still answers nothing and refuses nothing: hints beyond this many unanswered ones are dropped, the relay makes up for them.
const maxUnanswered = 1_000;
const prefix = "fairlead";
// BullMQ's own codes: the job is gone, nobody has its lock, or somebody else has.
const lostLockCodes: readonly unknown[] = [-1, -2, -6];

interface OpenQueue {
  readonly queue: Queue<RunJob>;
  worker: Worker<RunJob> | undefined;
  take: ((job: RunJob) => Promise<boolean>) | undefined;
  looping: boolean;
  usedAt: number;
}

/** `lockMs`: for how long a job that was fetched is nobody else's. One whose fetcher fell silent goes back within two such times. */
export function createJobQueues(store: JobQueueStore, log: Log, lockMs: number): JobQueues {
  const maxOpen = store.kind === "redis" ? 32 : 4;
  const open = new Map<string, OpenQueue>();
  let stopped = false;
  let complained = false;
  let unanswered = 0;
  const complain = (error: unknown): void => {
    if (!complained)
      log.warn({ err: (error as Error).message }, "the job queue is away: runs are dispatched from Postgres alone");
    complained = true;
  };
  // One connection for all adds; each fetch loop blocks on one of its own.
  const adder =
    store.kind === "redis"
      ? new Redis(store.url, {
          enableOfflineQueue: false,
          maxRetriesPerRequest: 1,
          connectionName: "fairlead-jobs",
          retryStrategy: (n) => Math.min(n * 100, 1_000),
        })
      : undefined;
  adder?.on("error", complain);
  adder?.on("ready", () => {
    complained = false;
  });

  const openQueue = (name: string): OpenQueue | undefined => {
    const known = open.get(name);
    if (known) {
      known.usedAt = performance.now();
      return known;
    }
    if (open.size >= maxOpen) {
      const idle = [...open].filter(([, entry]) => !entry.take).sort(([, a], [, b]) => a.usedAt - b.usedAt)[0];
      // Every queue is in use: this one goes without jobs, the relay serves it.
      if (!idle) return undefined;
      open.delete(idle[0]);
      void close(idle[1]);
    }
    const options = { prefix, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } };
    const queue =
      store.kind === "redis"
        ? new Queue<RunJob>(name, { ...options, connection: adder as Redis, skipWaitingForReady: true })
        : new Queue<RunJob>(
            name,
            { ...options, connection: { connectionString: store.url, migrate: false } as never },
            createPostgresBackend as never,
          );
    queue.on("error", complain);
    const entry: OpenQueue = { queue, worker: undefined, take: undefined, looping: false, usedAt: performance.now() };
    open.set(name, entry);
    return entry;
  };

  const workerOf = (name: string, entry: OpenQueue): Worker<RunJob> => {
    if (entry.worker) return entry.worker;
    const options = {
      prefix,
      autorun: false,
      lockDuration: lockMs,
      stalledInterval: lockMs,
      drainDelay: 5,
      maxStalledCount: 1_000_000,
    };
    const worker =
      store.kind === "redis"
        ? new Worker<RunJob>(name, null, {
            ...options,
            connection: { ...parseRedisUrl(store.url), maxRetriesPerRequest: null },
          })
        : new Worker<RunJob>(
            name,
            null,
            { ...options, connection: { connectionString: store.url, migrate: false } as never },
            createPostgresBackend as never,
          );
    worker.on("error", complain);
    worker.startStalledCheckTimer().catch(complain);
    entry.worker = worker;
    return worker;
  };

  // Processes in containers have equal numbers: who woke up late would complete a job that is another's by now.
  const token = `fairlead-${uuidv7()}`;

  const loop = async (name: string, entry: OpenQueue): Promise<void> => {
    if (entry.looping) return;
    entry.looping = true;
    try {
      while (entry.take && !stopped) {
        let job: Job<RunJob> | undefined;
        try {
          job = await workerOf(name, entry).getNextJob(token);
        } catch (error) {
          complain(error);
          await pause(500);
          continue;
        }
        if (!job) continue;
        const { take } = entry;
        try {
          const used = take ? await take(job.data) : false;
          if (used) await job.moveToCompleted("", token, false);
          else {
            await job.moveToWait(token);
            // Whoever could take it is busy with another claim: the same job again at once would be a spin.
            await pause(notTakenPauseMs);
          }
        } catch (error) {
          // Whether the run was taken has been decided long since. The job comes once more, to whoever looks for stalled ones, and then nobody can take it.
          if (!lostLockCodes.includes((error as { code?: unknown }).code)) complain(error);
        }
      }
    } finally {
      entry.looping = false;
    }
    // Wanted again while the last fetch was ending.
    if (entry.take && !stopped) void loop(name, entry);
  };

  const close = async (entry: OpenQueue): Promise<void> => {
    await Promise.allSettled([entry.worker?.close(true), entry.queue.close()]);
  };

  return {
    add: (name, id, data) => {
      if (stopped || unanswered >= maxUnanswered || (adder && adder.status !== "ready")) return;
      const entry = openQueue(name);
      if (!entry) return;
      const added = entry.queue.add("run", data, { jobId: id });
      Promise.race([added, pause(addDeadlineMs)]).catch(complain);
      unanswered++;
      added
        .then(
          () => {
            complained = false;
          },
          () => {},
        )
        .finally(() => {
          unanswered--;
        });
    },
    want: (name, take) => {
      const entry = openQueue(name);
      if (!entry || stopped) return;
      entry.take = take;
      void loop(name, entry);
    },
    unwant: (name) => {
      const entry = open.get(name);
      if (entry) entry.take = undefined;
    },
    isHealthy: async () => {
      if (!adder) return true;
      if (adder.status !== "ready") return false;
      return Promise.race([
        adder.set(`${prefix}:health`, "", "PX", 10 * healthDeadlineMs).then(
          () => true,
          () => false,
        ),
        pause(healthDeadlineMs).then(() => false),
      ]);
    },
    stop: async () => {
      stopped = true;
      for (const entry of open.values()) entry.take = undefined;
      await Promise.all([...open.values()].map(close));
      adder?.disconnect();
    },
  };
}

function parseRedisUrl(text: string): {
  host: string;
  port: number;
  username?: string;
  password?: string;
  db?: number;
  tls?: object;
} {
  const url = new URL(text);
  return {
    host: url.hostname,
    port: Number(url.port || 6379),
    ...(url.username ? { username: decodeURIComponent(url.username) } : {}),
    ...(url.password ? { password: decodeURIComponent(url.password) } : {}),
    ...(url.pathname.length > 1 ? { db: Number(url.pathname.slice(1)) } : {}),
    ...(url.protocol === "rediss:" ? { tls: {} } : {}),
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
