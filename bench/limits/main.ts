import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import pg from "pg";
import type { Phases } from "../load/closed-loop.js";
import type { JobResult } from "../load/jobs.js";
import { serveJobs } from "../load/serve-jobs.js";
import { type LimitJob, loops } from "./jobs.js";

function perform(job: LimitJob, phases: Phases): Promise<JobResult> {
  switch (job.kind) {
    case "bullmq":
      return bullmq(job, phases);
    case "commits":
      return commits(job, phases);
    case "graph":
      return graph(job, phases);
  }
}

async function bullmq(job: Extract<LimitJob, { kind: "bullmq" }>, phases: Phases): Promise<JobResult> {
  const connect = (): Redis => new Redis(job.redisUrl, { maxRetriesPerRequest: null });
  const connections = [connect(), connect()] as const;
  const name = `limit-${process.pid}`;
  const queue = new Queue(name, {
    connection: connections[0],
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
  });
  const done = new Map<string, () => void>();
  const worker = new Worker(name, () => Promise.resolve(), { connection: connections[1], concurrency: 100 });
  worker.on("completed", (finished) => {
    done.get(finished.data.id)?.();
    done.delete(finished.data.id);
  });
  let n = 0;
  const result = await loops(job, phases, async () => {
    const id = String(++n);
    const completed = new Promise<void>((resolve) => done.set(id, resolve));
    await queue.add("run", { id });
    await completed;
  });
  await worker.close();
  await queue.obliterate({ force: true });
  await queue.close();
  for (const connection of connections) connection.disconnect();
  return result;
}

async function commits(job: Extract<LimitJob, { kind: "commits" }>, phases: Phases): Promise<JobResult> {
  const client = new pg.Client({ connectionString: job.databaseUrl });
  await client.connect();
  await client.query(
    "create table limit_run (id bigint primary key, body bytea not null, created_at timestamptz not null default now())",
  );
  const body = Buffer.alloc(190, "x");
  let waiting: { id: number; resolve: () => void; reject: (error: unknown) => void }[] = [];
  let isFlushing = false;
  const flush = async (): Promise<void> => {
    isFlushing = true;
    while (waiting.length > 0) {
      const batch = waiting.splice(0, 256);
      try {
        await client.query({
          name: "insert",
          text: "insert into limit_run (id, body) select * from unnest($1::bigint[], $2::bytea[])",
          values: [batch.map((one) => one.id), batch.map(() => body)],
        });
        for (const one of batch) one.resolve();
      } catch (error) {
        for (const one of batch) one.reject(error);
      }
    }
    isFlushing = false;
  };
  let n = 0;
  const result = await loops(
    job,
    phases,
    () =>
      new Promise<void>((resolve, reject) => {
        waiting = [...waiting, { id: ++n, resolve, reject }];
        if (!isFlushing) void flush();
      }),
  );
  await client.query("drop table limit_run");
  await client.end();
  return result;
}

async function graph(job: Extract<LimitJob, { kind: "graph" }>, phases: Phases): Promise<JobResult> {
  const { echo } = await import("../agents/graphs.mjs");
  let n = 0;
  return loops(job, phases, async () => {
    // The graph never waits for the outside, so without this no timer would ever fire.
    await new Promise((resolve) => setImmediate(resolve));
    const said = `n-${++n}`;
    const chunks = await echo.stream({ messages: [{ role: "user", content: said }] }, { streamMode: ["values"] });
    let last = "";
    for await (const chunk of chunks) last = JSON.stringify(chunk);
    if (!last.includes(said)) throw new Error(`The graph answered ${last}`);
  });
}

serveJobs(perform);
