import { createHash } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunId, ThreadId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { endFrames } from "../../src/runs/control-frames.js";
import { type AppendItem, appendEvents } from "../../src/store/run-path/append.js";
import { type Extras, noExtras, type WritePut } from "../../src/store/run-path/extras.js";
import { finishRuns } from "../../src/store/run-path/finish.js";
import { deleteThreadRows } from "../../src/store/thread-deletion.js";
import { withTenantTx } from "../../src/store/tx.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { segmentOf } from "../support/raw-runner.js";
import { openRunMoves, type RunMoves } from "../support/run-moves.js";
import { until } from "../support/until.js";

// What travels with events is written for a whole batch in one statement a table: each item's own is kept apart, whoever else is in the batch.

let database: TestDatabase;
let moves: RunMoves;
let admin: pg.Client;

beforeAll(async () => {
  database = await testDatabase();
  moves = await openRunMoves(database, "extras");
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
});
afterAll(async () => {
  await admin?.end();
  await moves?.close();
  await database?.drop();
});

interface Running {
  readonly runId: RunId;
  readonly threadId: ThreadId;
}

async function running(): Promise<Running> {
  const run = await moves.create();
  await moves.claim(run.runId);
  return run;
}

const digestOf = (data: string): string => createHash("sha256").update(data).digest("hex");
const write = (index: number, data: string): WritePut => ({
  ...{ namespace: "", checkpointId: "c", taskId: "t", index, channel: "x", type: "json", data: Buffer.from(data) },
});

/** A checkpoint whose parts are all told apart by `name`; its one channel holds `value`. */
function extras(name: string, value: string, more: Partial<Extras> = {}): Extras {
  return {
    checkpoints: [
      {
        ...{ namespace: "", id: "c", parentId: "", lineage: "test", schemaVersion: 1, step: 0 },
        ...{
          head: Buffer.from(`head ${name}`),
          metadata: Buffer.from(`metadata ${name}`),
          view: Buffer.from(`view ${name}`),
        },
        channels: [{ name: "x", digest: digestOf(value), type: "json" }],
      },
    ],
    writes: [write(0, `write ${name}`)],
    blobs: [{ digest: digestOf(value), part: 0, parts: 1, data: Buffer.from(value) }],
    steps: [
      {
        ...{ id: "s", parentId: "", kind: "node", name: `step ${name}`, status: "success", namespace: [] },
        ...{ startedMs: 1_000, endedMs: 2_000, usage: null, error: "" },
      },
    ],
    ...more,
  };
}

function batch(run: Running, fence: number, first: number, carried: Extras): AppendItem {
  const { tenantId, queue } = moves;
  const segments = [{ delta: false, count: 1, body: segmentOf(1, () => ({ run: run.runId })).events }];
  return { tenantId, runId: run.runId, fence, queue, first, segments, extras: carried };
}

const append = async (...items: AppendItem[]): Promise<string[]> =>
  (await appendEvents(moves.stores.path, items, false, 60_000)).map(({ verdict }) => verdict);

/** What is stored of a thread, as text. */
async function stored({ threadId }: Running): Promise<{ checkpoints: string[]; writes: string[]; blobs: string[] }> {
  const list = async (text: string): Promise<string[]> =>
    (await admin.query<{ text: string }>(text, [threadId])).rows.map((row) => row.text);
  return {
    checkpoints: await list(
      `select concat_ws(', ', convert_from(head, 'UTF8'), convert_from(metadata, 'UTF8'), convert_from(view, 'UTF8')) as text from checkpoint where thread_id = $1`,
    ),
    writes: await list(
      "select concat_ws(' ', idx, convert_from(data, 'UTF8')) as text from checkpoint_write where thread_id = $1 order by idx",
    ),
    blobs: await list(
      `select convert_from(b.data, 'UTF8') as text from checkpoint c cross join json_array_elements(c.channels) h
        join checkpoint_blob b on b.tenant_id = c.tenant_id and encode(b.digest, 'hex') = h ->> 'digest' where c.thread_id = $1`,
    ),
  };
}

const whole = (name: string, value: string) => ({
  checkpoints: [`head ${name}, metadata ${name}, view ${name}`],
  writes: [`0 write ${name}`],
  blobs: [value],
});

test("in a batch each run keeps its own checkpoints, writes, values and steps, and a superseded holder, or one that names no run, leaves none", async () => {
  const [one, two, stale] = [await running(), await running(), await running()] as const;
  const nobody: Running = { runId: one.threadId as string as RunId, threadId: one.threadId };
  const verdicts = await append(
    batch(nobody, 1, 1, extras("nobody", "shared")),
    batch(one, 1, 1, extras("one", "shared")),
    batch(stale, 7, 1, extras("stale", "never stored")),
    batch(two, 1, 1, extras("two", "shared")),
  );
  expect(verdicts).toEqual(["superseded", "stored", "superseded", "stored"]);
  expect(await stored(one)).toEqual(whole("one", "shared"));
  expect(await stored(two)).toEqual(whole("two", "shared"));
  expect(await stored(stale)).toEqual({ checkpoints: [], writes: [], blobs: [] });
  const blobs = await admin.query("select 1 from checkpoint_blob where data = $1", [Buffer.from("never stored")]);
  expect(blobs.rowCount).toBe(0);
  const steps = await admin.query("select name from step where run_id = any ($1) order by name", [
    [one, two, stale].map(({ runId }) => runId),
  ]);
  expect(steps.rows.map((row) => row.name)).toEqual(["step one", "step two"]);
});

test("what ends runs carries the same, and what one of them lacks is not taken from another", async () => {
  const runs = [await running(), await running(), await running()] as const;
  const end = endFrames("success", null, 1_700_000_000_000);
  const finished = await finishRuns(
    moves.stores.path,
    runs.map((run, at) => {
      const { segments, extras: carried } = batch(run, 1, 1, at === 1 ? noExtras : extras(`run ${at}`, `value ${at}`));
      return {
        ...{ tenantId: moves.tenantId, ...run, fence: 1, queue: moves.queue, purpose: "run" as const },
        ...{
          total: at === 2 ? 5 : 1,
          tailFirst: 1,
          tail: segments,
          extras: carried,
          end: end.bytes,
          endCount: end.count,
        },
        ...{ status: "success" as const, reason: "", error: null, next: [], interrupts: [], threadInterrupts: null },
        values: at === 0 ? Buffer.from('"of run 0"') : null,
      };
    }),
    false,
  );
  expect(finished.map(({ verdict }) => verdict)).toEqual(["recorded", "recorded", "missing"]);
  expect(await stored(runs[0])).toEqual(whole("run 0", "value 0"));
  for (const run of runs.slice(1)) expect(await stored(run)).toEqual({ checkpoints: [], writes: [], blobs: [] });
  const { rows } = await admin.query(
    "select convert_from(values, 'UTF8') as values from run where id = any ($1) order by values nulls last",
    [runs.map(({ runId }) => runId)],
  );
  expect(rows.map((row) => row.values)).toEqual(['"of run 0"', null, null]);
});

test("a task's output stays as it was told first, what happened to it is replaced, in one batch and in the next", async () => {
  const run = await running();
  await append(
    batch(run, 1, 1, extras("first", "v", { writes: [write(0, "a"), write(-1, "b"), write(0, "c"), write(-1, "d")] })),
  );
  expect((await stored(run)).writes).toEqual(["-1 d", "0 a"]);
  const again = extras("second", "v", { writes: [write(0, "e"), write(-1, "f")] });
  await append(batch(run, 1, 2, { ...again, checkpoints: again.checkpoints.map((one) => ({ ...one, view: null })) }));
  expect(await stored(run)).toEqual({
    checkpoints: ["head second, metadata second, view first"],
    writes: ["-1 f", "0 a"],
    blobs: ["v"],
  });
});

// Each of these locks the thread and then waits for the run, which is locked by whoever appends to it.
const moversOf: Record<string, (run: Running) => Promise<unknown>> = {
  cancel: ({ runId }) => moves.cancel(runId),
  "force a cancel": ({ runId }) => moves.cancel(runId, 1),
  "take back": ({ runId }) => moves.takeBack(runId, 1, "released"),
  finish: (run) => moves.finish(run, 1, "success", 0),
  "delete the thread": ({ threadId }) =>
    withTenantTx(moves.stores, systemScope(moves.tenantId), (tx) =>
      deleteThreadRows(tx, threadId, endFrames("cancelled", null, 1_700_000_000_000)),
    ),
};

test.each(Object.keys(moversOf))(
  "a checkpoint is stored while somebody waits to %s: neither waits for the other in a circle",
  async (mover) => {
    const run = await running();
    const holder = new pg.Client({ connectionString: database.adminUrl });
    await holder.connect();
    try {
      // Shorter than what PostgreSQL takes to see a circle.
      await holder.query("begin; set local lock_timeout = 500");
      await holder.query("select 1 from run where id = $1 for no key update", [run.runId]);
      const moved = moversOf[mover]!(run);
      await until("it waits for the run", async () => {
        const waits = await admin.query(
          "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        );
        return waits.rowCount === 1;
      });
      await holder.query(
        `insert into checkpoint (tenant_id, thread_id, namespace, id, run_id, lineage, schema_version, step, head, metadata, channels)
        values ($1, $2, '', 'c', $3, 'test', 1, 0, '', '', '[]')`,
        [moves.tenantId, run.threadId, run.runId],
      );
      await holder.query("commit");
      await expect(moved).resolves.toBeDefined();
    } finally {
      await holder.end();
    }
  },
);
