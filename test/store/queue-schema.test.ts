import { createPostgresBackend, Queue, Worker } from "bullmq";
import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../../src/platform/wait-for.js";
import { migrate } from "../../src/store/migrate.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { withAdmin } from "../support/template-database.js";

let database: TestDatabase;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  database = await testDatabase();
});
afterAll(async () => {
  await Promise.all(open.map((one) => one.close()));
  await database.drop();
});

function connection() {
  return { connectionString: database.queueUrl, migrate: false };
}

function queueOf(name: string) {
  const queue = new Queue(name, { connection: connection() }, createPostgresBackend);
  open.push(queue);
  return queue;
}

function workerOf(name: string, stalledInterval = 30_000) {
  const options = { connection: connection(), autorun: false, lockDuration: 500, stalledInterval, maxStalledCount: 5 };
  const worker = new Worker(name, null, options, createPostgresBackend);
  worker.on("error", () => {}); // Errors of the calls below reach the test by themselves.
  open.push(worker);
  return worker;
}

test("a queue and a manual worker run as a role that owns nothing", async () => {
  const queue = queueOf("owned-by-nobody");
  await queue.add("run", { runId: "a" }, { jobId: "chosen" });
  const worker = workerOf("owned-by-nobody");
  const job = await worker.getNextJob("token");
  expect(job).toMatchObject({ id: "chosen", data: { runId: "a" } });
  expect(await job?.extendLock("token", 1_000)).toBe(1);
  expect(await job?.extendLock("other", 1_000)).toBe(0);
  await expect(job?.moveToCompleted("done", "other", false)).rejects.toThrow(/Lock mismatch/);
  await job?.moveToCompleted("done", "token", false);
  expect(await queue.getJobCounts("completed", "active", "waiting")).toEqual({ completed: 1, active: 0, waiting: 0 });
  const owned = await withAdmin(database.queueUrl, (me) =>
    me.query(
      "select relname from pg_class where relowner = (select oid from pg_roles where rolname = session_user) and relnamespace = 'bullmq'::regnamespace",
    ),
  );
  expect(owned.rows).toEqual([]);
});

test("jobs without an id get one, alone and in bulk, in queues that nobody prepared", async () => {
  const queue = queueOf("generated");
  const other = queueOf("generated-too");
  const single = await queue.add("run", {});
  const bulk = await queue.addBulk([1, 2, 3].map((n) => ({ name: "run", data: { n } })));
  const elsewhere = await other.add("run", {});
  const ids = [single, ...bulk, elsewhere].map((job) => job.id);
  expect(new Set(ids).size).toBe(5);
  expect(await queue.getJobCounts("waiting")).toEqual({ waiting: 4 });
});

test("delayed, prioritised and removed jobs work", async () => {
  const queue = queueOf("varied");
  await queue.add("run", { n: 1 }, { jobId: "late", priority: 9 });
  await queue.add("run", { n: 2 }, { jobId: "early", priority: 2 });
  await queue.add("run", { n: 3 }, { jobId: "delayed", delay: 60_000 });
  await queue.add("run", { n: 4 }, { jobId: "gone", removeOnComplete: true });
  expect(await queue.getJobCounts("delayed", "prioritized", "waiting")).toMatchObject({ delayed: 1 });
  const worker = workerOf("varied");
  const taken = [];
  for (let n = 0; n < 3; n += 1) {
    const job = await worker.getNextJob("token");
    taken.push(job?.id);
    await job?.moveToCompleted("done", "token", false);
  }
  expect(taken).toEqual(["gone", "early", "late"]);
  expect(await queue.getJob("gone")).toBeUndefined();
  await (await queue.getJob("delayed"))?.remove();
  expect(await queue.getJobCounts("delayed")).toEqual({ delayed: 0 });
});

test("a job whose holder fell silent is found by the stalled check and given out again", async () => {
  const queue = queueOf("stalling");
  await queue.add("run", {}, { jobId: "stalls" });
  const silent = workerOf("stalling");
  expect((await silent.getNextJob("silent"))?.id).toBe("stalls");
  const watchful = workerOf("stalling", 100);
  await watchful.startStalledCheckTimer();
  expect(await waitFor(async () => (await queue.getJobCounts("waiting")).waiting === 1, 15_000)).toBe(true);
  expect((await watchful.getNextJob("second"))?.id).toBe("stalls");
});

test("a waiting worker is woken by a new job", async () => {
  const queue = queueOf("waking");
  const worker = workerOf("waking");
  expect(await worker.getNextJob("token")).toBeUndefined();
  const next = worker.getNextJob("token");
  await queue.add("run", {}, { jobId: "wakes" });
  const found = (await next) ?? (await worker.getNextJob("token"));
  expect(found?.id).toBe("wakes");
});

test("migrating again changes nothing that a running queue sees", async () => {
  const queue = queueOf("steady");
  await queue.add("run", {}, { jobId: "before" });
  const { adminUrl, appUrl, sweeperUrl, queueUrl } = database;
  expect(await migrate({ adminUrl, appUrl, sweeperUrl, queueUrl })).toEqual({ applied: [] });
  await queue.addBulk([{ name: "run", data: {} }]);
  expect(await queue.getJobCounts("waiting")).toEqual({ waiting: 2 });
});

test("the queue role can neither drop a queue's tables nor mark migrations as done", async () => {
  await withAdmin(database.queueUrl, async (me) => {
    await expect(me.query("drop table bullmq.job")).rejects.toMatchObject({ code: "42501" });
    await expect(me.query("create table bullmq.mine (id int)")).rejects.toMatchObject({ code: "42501" });
    await expect(me.query("update bullmq.migration set version = 99")).rejects.toMatchObject({ code: "42501" });
    await expect(me.query("truncate bullmq.job")).rejects.toMatchObject({ code: "42501" });
  });
});
