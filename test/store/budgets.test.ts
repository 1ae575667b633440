import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { RunId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { setModelPrice } from "../../src/governance/edit-budgets.js";
import { raiseHolds } from "../../src/store/budgets.js";
import { budgetsOf } from "../support/budgets.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { openRunMoves, type RunMoves } from "../support/run-moves.js";

// Holds, settlement and the ledger, on the tables themselves.

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

const { budget, stateOf, sql, expectSound, archiveAll } = budgetsOf(
  () => database,
  () => moves,
);
afterEach(async () => {
  await expectSound();
  await archiveAll();
});

describe("every end of a run settles what it held", () => {
  const running = async () => {
    const run = await moves.create();
    const claimed = (await moves.claim(run.runId))!;
    await moves.append(run.runId, claimed.fence, 1, 1);
    return { run, fence: claimed.fence };
  };
  const ends: Record<string, { posted: bigint; end: () => Promise<unknown> }> = {
    ...Object.fromEntries(
      (["success", "waiting", "error", "cancelled"] as const).map((status) => [
        `a report of ${status}`,
        {
          posted: 1n,
          end: async () => {
            const { run, fence } = await running();
            await moves.finish(run, fence, status, 1);
          },
        },
      ]),
    ),
    "a cancel before it started": { posted: 0n, end: async () => moves.cancel((await moves.create()).runId) },
    "a cancel by force": {
      posted: 1n,
      end: async () => {
        const { run, fence } = await running();
        await moves.cancel(run.runId);
        await moves.cancel(run.runId, fence);
      },
    },
    "a lease that is lost once too often": {
      posted: 1n,
      end: async () => {
        const { run, fence: first } = await running();
        for (let fence = first, lost = 0; lost < 3; lost++) {
          await moves.expire(run.runId);
          await moves.takeBack(run.runId, fence, "lost");
          const again = await moves.claim(run.runId);
          if (!again) break;
          fence = again.fence;
          await moves.append(run.runId, fence, 1, 1);
        }
      },
    },
    "an offer that lapsed, then a cancel": {
      posted: 0n,
      end: async () => {
        const run = await moves.create();
        const claimed = (await moves.claim(run.runId))!;
        await moves.takeBack(run.runId, claimed.fence, "undelivered");
        await moves.cancel(run.runId);
      },
    },
  };
  test.each(Object.entries(ends))("%s", async (_name, { posted, end }) => {
    const id = await budget();
    await end();
    expect(await stateOf(id)).toEqual({ posted, held: 0n });
  });

  test("the time in the queue and the time of the run that are over", async () => {
    const id = await budget();
    const waiting = await moves.create();
    await sql("update run set queue_deadline = now() - interval '1 s' where id = $1", [waiting.runId]);
    await sql("select run_expire_v1($1, $2, '\\x0a00', 1, 'error', 'not_started', '{}')", [
      moves.tenantId,
      waiting.runId,
    ]);
    const { run } = await running();
    await sql("update run set deadline = now() - interval '1 s' where id = $1", [run.runId]);
    await sql("select run_expire_v1($1, $2, '\\x0a00', 1, 'timeout', 'run_timeout', '{}')", [
      moves.tenantId,
      run.runId,
    ]);
    expect(await stateOf(id)).toEqual({ posted: 1n, held: 0n });
  });
});

test("a run is created with all of its holds or with none", async () => {
  const [wide, narrow] = [await budget({ amount: 100n }), await budget({ amount: 1n })];
  await moves.create();
  await expect(moves.create()).rejects.toThrow("over_budget");
  expect(await stateOf(wide)).toEqual({ posted: 0n, held: 1n });
  expect(await stateOf(narrow)).toEqual({ posted: 0n, held: 1n });
});

test("a soft budget counts and refuses nothing, one of another key or agent does neither", async () => {
  const soft = await budget({ amount: 0n, hard: false });
  const run = await moves.create({ credentialId: null });
  expect(await stateOf(soft)).toEqual({ posted: 0n, held: 1n });
  await moves.cancel(run.runId);
});

test("a create that is refused for another reason gives its hold back, and its id may be used again", async () => {
  const id = await budget();
  const busy = await moves.create();
  const runId = randomUUID() as RunId;
  const again = { threadId: busy.threadId, strategy: "reject" as const, runId, runIdChosen: true };
  await expect(moves.create(again)).rejects.toThrow("thread_busy");
  expect(await stateOf(id)).toEqual({ posted: 0n, held: 1n });
  await moves.cancel(busy.runId);
  await moves.create(again);
  expect(await stateOf(id)).toEqual({ posted: 0n, held: 1n });
  // The same request once more is the same run.
  await expect(moves.create(again)).rejects.toThrow("replayed");
  expect(await stateOf(id)).toEqual({ posted: 0n, held: 1n });
});

describe("what models used", () => {
  const end = async (...usages: [string, string][]) => {
    const run = await moves.create();
    const claimed = (await moves.claim(run.runId))!;
    await moves.append(run.runId, claimed.fence, 1, 1);
    await moves.finish(run, claimed.fence, "success", 1, usages);
    return run.runId;
  };

  test("is priced by token class, to the nanodollar, at the price of its moment", async () => {
    const money = await budget({ unit: "usd", amount: 10n ** 12n, runHold: 1_000_000n });
    const tokens = await budget({ unit: "tokens", amount: 10n ** 9n, runHold: 1_000n });
    const price = { inputPico: 2_500_000n, outputPico: 10_000_000n, cacheReadPico: 1_250_000n, effectiveFrom: null };
    await setModelPrice(moves.stores, systemScope(moves.tenantId), { model: "gpt", ...price });
    await end([
      "gpt",
      '{"input_tokens":1000,"output_tokens":7,"total_tokens":1007,"input_token_details":{"cache_read":400}}',
    ]);
    // (600 × 2.5 + 400 × 1.25 + 7 × 10) millionths of a dollar.
    expect(await stateOf(money)).toEqual({ posted: 2_070_000n, held: 0n });
    expect(await stateOf(tokens)).toEqual({ posted: 1_007n, held: 0n });
    await setModelPrice(moves.stores, systemScope(moves.tenantId), { model: "gpt", ...price, outputPico: 1_999_600n });
    await end(["gpt", '{"promptTokens":0,"completionTokens":1}']);
    expect(await stateOf(money)).toEqual({ posted: 2_070_000n + 2_000n, held: 0n });
  });

  test("without a price costs what was held, and never nothing; nonsense counts as no tokens and has no price", async () => {
    const money = await budget({ unit: "usd", amount: 10n ** 12n, runHold: 5_000n });
    const tokens = await budget({ unit: "tokens", amount: 10n ** 9n, runHold: 1_000n });
    await end(["unknown", '{"input_tokens":1,"output_tokens":1}']);
    expect(await stateOf(money)).toEqual({ posted: 5_000n, held: 0n });
    const bads = [
      '{"input_tokens":-5}',
      '{"output_tokens":1e99}',
      '{"input_tokens":"many"}',
      '{"input_tokens":9999999999}',
      "{}",
    ];
    for (const bad of [...bads, '{"input_tokens":1,"input_token_details":{"cache_read":2}}', '{"total_tokens":3}'])
      await end(["gpt", bad]);
    expect(await stateOf(money)).toEqual({ posted: 40_000n, held: 0n });
    expect(await stateOf(tokens)).toEqual({ posted: 2n + 7_000n, held: 0n });
    const [flagged] = await sql("select count(*)::int as n from budget_entry where estimated and budget_id = $1", [
      money,
    ]);
    expect(flagged).toEqual({ n: 8 });
  });

  test("counts once for a step that is told twice, and for each attempt that used it", async () => {
    const tokens = await budget({ unit: "tokens", amount: 10n ** 9n, runHold: 1n });
    const usage = '{"input_tokens":10,"output_tokens":1}';
    const run = await moves.create();
    const first = (await moves.claim(run.runId))!;
    await moves.append(run.runId, first.fence, 1, 1);
    await sql(
      "insert into step (tenant_id, run_id, id, attempt, kind, name, status, started_at, usage) values ($1, $2, 'call-0', 1, 'model', 'gpt', 'success', now(), $3)",
      [moves.tenantId, run.runId, usage],
    );
    await moves.expire(run.runId);
    await moves.takeBack(run.runId, first.fence, "lost");
    const second = (await moves.claim(run.runId))!;
    await moves.append(run.runId, second.fence, 1, 1);
    await moves.finish(
      run,
      second.fence,
      "success",
      1,
      [
        ["gpt", usage],
        ["gpt", usage],
      ].map(([model, text]) => [model, text]) as [string, string][],
    );
    expect(await stateOf(tokens)).toEqual({ posted: 33n, held: 0n });
    // What is told again counts where it is more.
    await sql("update step set usage = '{\"input_tokens\":900}' where run_id = $1", [run.runId]);
    const [row] = await sql("select sum(input_tokens + output_tokens)::int as n from usage_event where run_id = $1", [
      run.runId,
    ]);
    expect(row).toEqual({ n: 2 * 901 + 11 });
  });

  test("raises what a run holds while there is room, and says so when there is none; beyond the limit it is posted all the same", async () => {
    const tokens = await budget({ unit: "tokens", amount: 100n, runHold: 10n });
    const run = await moves.create();
    const { fence } = (await moves.claim(run.runId))!;
    await moves.append(run.runId, fence, 1, 1);
    const use = (id: string, n: number) =>
      sql(
        "insert into step (tenant_id, run_id, id, attempt, kind, name, status, started_at, usage) values ($1, $2, $3, 1, 'model', 'gpt', 'success', now(), $4)",
        [moves.tenantId, run.runId, id, JSON.stringify({ input_tokens: n })],
      );
    await use("a", 60);
    expect(await raiseHolds(moves.stores.app, moves.tenantId, run.runId)).toBeNull();
    expect(await stateOf(tokens)).toEqual({ posted: 0n, held: 60n });
    await use("b", 60);
    expect(await raiseHolds(moves.stores.app, moves.tenantId, run.runId)).toContain("used up");
    expect(await stateOf(tokens)).toEqual({ posted: 0n, held: 60n });
    await moves.finish(run, fence, "cancelled", 1);
    expect(await stateOf(tokens)).toEqual({ posted: 120n, held: 0n });
    await expect(moves.create()).rejects.toThrow("over_budget");
    // After its end nothing is raised.
    expect(await raiseHolds(moves.stores.app, moves.tenantId, run.runId)).toBeNull();
  });
});

test("windows begin at the midnights of their zone, whatever the clock does there", async () => {
  const at = async (period: string, zone: string, moment: string) =>
    ((await sql("select budget_window_v1($1, $2, $3) as at", [period, zone, moment]))[0]!["at"] as Date).toISOString();
  expect(await at("day", "Europe/Berlin", "2026-03-29T21:59:59Z")).toBe("2026-03-28T23:00:00.000Z");
  expect(await at("day", "Europe/Berlin", "2026-03-29T22:00:00Z")).toBe("2026-03-29T22:00:00.000Z");
  expect(await at("month", "America/New_York", "2026-11-30T23:00:00Z")).toBe("2026-11-01T04:00:00.000Z");
  expect(await at("week", "UTC", "2026-12-01T00:00:00Z")).toBe("2026-11-30T00:00:00.000Z");
  expect(await at("lifetime", "Asia/Tokyo", "2026-12-01T00:00:00Z")).toBe("1970-01-01T00:00:00.000Z");
});
