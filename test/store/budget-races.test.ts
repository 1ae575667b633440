import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { RunId, RunnerId, ThreadId } from "../../src/domain/ids.js";
import type { CreateItem } from "../../src/store/run-path/create.js";
import { createRuns } from "../../src/store/run-path/create.js";
import { budgetsOf } from "../support/budgets.js";
import { randomOf } from "../support/client-load.js";
import { pace } from "../support/pace.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { openRunMoves, type RunMoves } from "../support/run-moves.js";

let database: TestDatabase;
let moves: RunMoves;
beforeAll(async () => {
  database = await testDatabase();
  moves = await openRunMoves(database, "budgeted");
});
afterAll(async () => {
  await moves.close();
  await database.drop();
});

const { budget, stateOf, sql, expectSound } = budgetsOf(
  () => database,
  () => moves,
);
afterEach(expectSound);

test("64 connections and 10,000 attempts against one budget, with connections cut at random, never pass the limit, and leave no hold behind", async () => {
  const attempts = 10_000;
  const batch = 16;
  const limit = 3_000n;
  const seed = 20261201;
  const runs = await budget({ amount: limit });
  const tokens = await budget({ unit: "tokens", amount: 500_000n, runHold: 100n });
  const template = await templateItem();
  let left = attempts;
  let cut = 0;
  const made: CreateItem[] = [];
  const random = randomOf(seed);

  const worker = async (): Promise<void> => {
    let client = new pg.Pool({ connectionString: database.appUrl, max: 1 });
    client.on("error", () => {});
    while (left > 0) {
      left -= batch;
      const items = Array.from({ length: batch }, () => ({
        ...template,
        runId: randomUUID() as RunId,
        threadId: randomUUID() as ThreadId,
      }));
      try {
        const runner = randomUUID() as RunnerId;
        const created = await createRuns(
          client,
          items,
          items.map((_, n) => (n % 2 === 0 ? runner : null)),
          false,
          { window: 1_000_000, offerMs: 600_000 },
        );
        for (const [n, one] of created.entries()) {
          if (one.verdict !== "created") continue;
          const item = items[n]!;
          made.push(item);
          // Some end at once, with what they used; some stay open; some were never started.
          if (one.claimed && random() < 0.5)
            await moves.finish(item, one.claimed.fence, "success", 0, [["gpt", '{"input_tokens":30}']]);
          else if (random() < 0.3) await moves.cancel(item.runId, one.claimed?.fence);
        }
      } catch {
        cut++;
        await client.end().catch(() => {});
        client = new pg.Pool({ connectionString: database.appUrl, max: 1 });
        client.on("error", () => {});
      }
    }
    await client.end().catch(() => {});
  };
  let over = false;
  const most: bigint[] = [];
  const watching = (async () => {
    while (!over) {
      const state = await stateOf(runs);
      most.push(state.posted + state.held);
      // A slow machine is watched as long, and not cut more often.
      if (most.length <= 100)
        await sql(
          "select pg_terminate_backend(pid) from (select pid from pg_stat_activity where query like '%run_create%' and datname = current_database() and pid <> pg_backend_pid() order by random() limit 1) x",
        );
      await pace(40);
    }
  })();
  await Promise.all(Array.from({ length: 64 }, worker));
  over = true;
  await watching;
  const open = (
    await sql(
      "select count(*)::int as n from budget_hold h join run r on r.tenant_id = h.tenant_id and r.id = h.run_id where h.budget_id = $1 and r.status in ('pending', 'running')",
      [runs],
    )
  )[0]?.["n"] as number;
  const started = (
    await sql("select count(*)::int as n from budget_entry where budget_id = $1 and kind = 'settle' and posted = 1", [
      runs,
    ])
  )[0]?.["n"] as number;
  console.log(
    `budget: ${JSON.stringify({ seed, attempts, cut, acknowledged: made.length, open, started, most: Number(most.reduce((a, b) => (a > b ? a : b), 0n)) })}`,
  );
  expect(cut).toBeGreaterThan(0);
  for (const used of most) expect(used).toBeLessThanOrEqual(limit);
  expect(await stateOf(runs)).toEqual({ posted: BigInt(started), held: BigInt(open) });
  const finished = (
    await sql(
      "select coalesce(sum(input_tokens), 0)::int as n from usage_event u join budget_hold h on h.tenant_id = u.tenant_id and h.run_id = u.run_id and h.budget_id = $1",
      [tokens],
    )
  )[0]?.["n"] as number;
  expect(await stateOf(tokens)).toEqual({ posted: BigInt(finished), held: BigInt(open) * 100n });
  // Everybody got in who could.
  expect(started + open).toBe(Number(limit));
}, 120_000);

async function templateItem(): Promise<CreateItem> {
  await moves.create();
  const [row] = await sql("select agent_id, graph_id from run where tenant_id = $1 limit 1", [moves.tenantId]);
  return {
    ...{
      tenantId: moves.tenantId,
      runId: "" as RunId,
      runIdChosen: false,
      threadId: "" as ThreadId,
      threadMode: "temporary" as const,
      threadMetadata: "{}",
    },
    ...{
      agentId: row!["agent_id"] as CreateItem["agentId"],
      graphId: row!["graph_id"] as string,
      poolId: moves.queue.poolId,
      kind: moves.queue.kind,
      purpose: "run" as const,
    },
    ...{
      strategy: "enqueue" as const,
      resume: null,
      resumeIds: [],
      maxAttempts: 3,
      recovery: "restart",
      queueTimeoutMs: 3_600_000,
      runTimeoutMs: null,
      dueMs: null,
      input: "{}",
    },
    ...{
      command: null,
      config: null,
      context: null,
      metadata: "{}",
      stateUpdate: null,
      streamModes: [],
      streamSubgraphs: false,
      streamResumable: false,
      interruptBefore: [],
    },
    ...{
      interruptAfter: [],
      onDisconnect: "continue" as const,
      deleteThread: false,
      fromCheckpointId: null,
      credentialId: null,
      requestHash: "00".repeat(32),
      idempotencyKey: null,
      traceparent: null,
    },
  };
}
