import { randomUUID } from "node:crypto";
import { createPostgresBackend, Queue } from "bullmq";
import { Redis } from "ioredis";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createJobQueues, type JobQueueStore, type JobQueues, type RunJob } from "../../src/platform/job-queue.js";
import { testDatabase } from "../support/postgres.js";
import { redisAvailable, testRedis } from "../support/redis.js";
import { until } from "../support/until.js";

// One suite for both backends: dispatch may not notice which one it has.

describe("the job queue on postgres", () => {
  conformance("postgres");
});
describe.skipIf(!redisAvailable())("the job queue on redis (no redis-server on the PATH)", () => {
  conformance("redis");
});

function conformance(kind: "postgres" | "redis"): void {
  let store: JobQueueStore;
  let stop: () => Promise<unknown>;
  const opened: JobQueues[] = [];

  const open = async (): Promise<JobQueues> => {
    const queues = createJobQueues(store, pino({ level: "silent" }), 30_000);
    opened.push(queues);
    await until("the queue's store answers", () => queues.isHealthy(), 30_000);
    return queues;
  };
  const leftIn = async (name: string): Promise<number> => {
    const connection = kind === "redis" ? new Redis(store.url, { maxRetriesPerRequest: null }) : undefined;
    const queue = connection
      ? new Queue(name, { prefix: "fairlead", connection })
      : new Queue(
          name,
          { prefix: "fairlead", connection: { connectionString: store.url, migrate: false } as never },
          createPostgresBackend as never,
        );
    try {
      const counts = await queue.getJobCounts("waiting", "active", "delayed", "completed", "failed", "prioritized");
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    } finally {
      await queue.close();
      connection?.disconnect();
    }
  };
  const jobOf = (runId: string): RunJob => ({ tenantId: randomUUID(), runId, graphId: "echo" });

  beforeAll(async () => {
    if (kind === "redis") {
      const redis = await testRedis();
      store = { kind, url: redis.url };
      stop = redis.stop;
    } else {
      const database = await testDatabase();
      store = { kind, url: database.queueUrl };
      stop = database.drop;
    }
  });
  afterAll(async () => {
    await Promise.all(opened.map((queues) => queues.stop()));
    await stop?.();
  });

  test("gives every job to one of several processes, once, and keeps nothing of it", async () => {
    const [adder, one, two] = [await open(), await open(), await open()];
    const taken: string[] = [];
    for (const queues of [one, two])
      queues.want("all", async (job) => {
        taken.push(job.runId);
        return true;
      });
    const ids = Array.from({ length: 60 }, (_, n) => `run-${n}`);
    for (const id of ids) adder.add("all", `t.${id}.0`, jobOf(id));
    await until("all jobs are taken", () => taken.length >= ids.length, 60_000);
    await until("nothing is left", async () => (await leftIn("all")) === 0, 30_000);
    expect(taken.sort()).toEqual(ids.sort());
  }, 120_000);

  test("holds one job for equal ids that wait, and takes the same id again once it is done", async () => {
    const queues = await open();
    const taken: string[] = [];
    for (let n = 0; n < 5; n++) queues.add("same", "t.run.0", jobOf("run"));
    queues.add("same", "t.run.1", jobOf("again"));
    await until("both jobs wait", async () => (await leftIn("same")) === 2, 30_000);
    queues.want("same", async (job) => {
      taken.push(job.runId);
      return true;
    });
    await until("both jobs are taken", () => taken.length === 2, 60_000);
    await until("nothing is left", async () => (await leftIn("same")) === 0, 30_000);
    queues.add("same", "t.run.0", jobOf("run"));
    await until("the id is taken again", () => taken.length === 3, 60_000);
    expect(taken).toEqual(["run", "again", "run"]);
  }, 120_000);

  test("gives a job that nobody could use now to whoever can later", async () => {
    const [busy, free] = [await open(), await open()];
    let refusals = 0;
    busy.want("back", async () => {
      refusals++;
      return false;
    });
    busy.add("back", "t.run.0", jobOf("run"));
    await until("it was refused twice", () => refusals >= 2, 60_000);
    busy.unwant("back");
    const taken: string[] = [];
    free.want("back", async (job) => {
      taken.push(job.runId);
      return true;
    });
    await until("another process has it", () => taken.length === 1, 60_000);
    await until("nothing is left", async () => (await leftIn("back")) === 0, 30_000);
    expect(taken).toEqual(["run"]);
  }, 150_000);
}
