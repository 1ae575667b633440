import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canMove } from "../../src/domain/moves/machine.js";
import { type RunMove, type RunState, runMoves } from "../../src/domain/moves/run.js";
import { auditDatabase } from "../support/audit.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { openRunMoves, type RunMoves } from "../support/run-moves.js";

// Random scripts of moves against the tables, with the move table as the model: what the table allows happens, what it does not changes nothing.

const final = new Set<RunState>(["success", "waiting", "error", "timeout", "cancelled"]);
const maxAttempts = 3;

type Command =
  | "claim"
  | "lose"
  | "release"
  | "succeed"
  | "wait"
  | "fail"
  | "stop"
  | "cancel"
  | "force"
  | "append"
  | "stale";
const commands: Command[] = [
  "claim",
  "lose",
  "release",
  "succeed",
  "wait",
  "fail",
  "stop",
  "cancel",
  "force",
  "append",
  "stale",
];
const ends = { succeed: "success", wait: "waiting", fail: "error", stop: "cancelled" } as const;

interface Model {
  state: RunState;
  fence: number;
  attempt: number;
  cancelled: boolean;
  sent: number;
}

/** Would the command change anything? */
function isLegal(model: Model, command: Command): boolean {
  if (command === "claim") return canMove(runMoves, "claim", model.state) && !model.cancelled;
  if (command === "cancel") return canMove(runMoves, "cancel", model.state) && !model.cancelled;
  if (command === "stale") return false;
  if (command in ends) return canMove(runMoves, command as RunMove, model.state);
  return model.state === "running";
}

describe("random scripts of moves", () => {
  let database: TestDatabase;
  let moves: RunMoves;

  beforeAll(async () => {
    database = await testDatabase();
    moves = await openRunMoves(database, "scripts");
  });
  afterAll(async () => {
    await moves?.close();
    await database?.drop();
  });

  async function play(model: Model, run: { runId: never; threadId: never }, command: Command): Promise<void> {
    const { runId } = run;
    if (command === "claim") {
      const claimed = await moves.claim(runId);
      expect(claimed !== null).toBe(isLegal(model, command));
      if (claimed) Object.assign(model, { state: "running", fence: model.fence + 1, sent: 0 });
    } else if (command === "append") {
      const { verdict } = await moves.append(runId, model.fence, model.sent + 1, 2);
      expect(verdict).toBe(model.state === "running" ? "stored" : "superseded");
      if (verdict === "stored") model.sent += 2;
    } else if (command === "stale") {
      const stale = Math.max(model.fence - 1, 1);
      if (stale === model.fence) return;
      const before = await moves.row(runId);
      expect((await moves.append(runId, stale, model.sent + 1, 1)).verdict).toBe("superseded");
      expect((await moves.takeBack(runId, stale, "released")).verdict).toBe("gone");
      expect(["superseded", "replayed"]).toContain((await moves.finish(run, stale, "error", 0)).verdict);
      expect(await moves.row(runId)).toEqual(before);
    } else if (command === "lose" || command === "release") {
      if (command === "lose" && model.state === "running") {
        await moves.append(runId, model.fence, model.sent + 1, 1).then(() => model.sent++);
        await moves.expire(runId);
      }
      const moved = await moves.takeBack(runId, model.fence, command === "lose" ? "lost" : "released");
      if (model.state !== "running") return expect(moved.verdict).toBe("gone");
      model.fence++;
      if (model.cancelled) model.state = "cancelled";
      else if (command === "lose" && model.attempt >= maxAttempts) model.state = "error";
      else Object.assign(model, { state: "pending", attempt: model.attempt + (command === "lose" ? 1 : 0), sent: 0 });
      expect(moved.verdict).toBe((model.state as RunState) === "pending" ? "requeued" : "moved");
    } else if (command === "cancel" || command === "force") {
      const before = model.state;
      const moved = await moves.cancel(runId, command === "force" ? model.fence : undefined);
      if (final.has(before)) return expect(moved.verdict).toBe("final");
      if (before === "pending" || command === "force")
        Object.assign(model, { state: "cancelled", fence: model.fence + 1 });
      else model.cancelled = true;
      expect(moved.verdict).toBe(model.state === "cancelled" ? "moved" : "requested");
    } else {
      const { verdict } = await moves.finish(run, model.fence, ends[command], model.sent);
      if (isLegal(model, command)) {
        expect(verdict).toBe("recorded");
        model.state = ends[command];
      } else expect(["superseded", "replayed"]).toContain(verdict);
    }
  }

  test("do what the table says, and nothing else: final stays final, the fence never falls, a stale holder changes nothing", async () => {
    const step = fc.record({ legal: fc.nat(3).map((n) => n > 0), pick: fc.nat(1_000) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 16 }), async (script) => {
        const run = (await moves.create()) as { runId: never; threadId: never };
        const model: Model = { state: "pending", fence: 0, attempt: 1, cancelled: false, sent: 0 };
        for (const { legal, pick } of script) {
          const possible = legal ? commands.filter((command) => isLegal(model, command)) : commands;
          const command = possible[pick % Math.max(possible.length, 1)];
          if (command === undefined) continue;
          const before = model.state;
          const fence = model.fence;
          await play(model, run, command);
          const row = await moves.row(run.runId);
          expect(row).toMatchObject({ status: model.state, fence: model.fence, attempt: model.attempt });
          if (final.has(before)) expect(model.state).toBe(before);
          expect(model.fence).toBeGreaterThanOrEqual(fence);
        }
        // Leases end so that the audit can tell a running run with a lease from one without.
        if (!final.has(model.state)) await play(model, run, model.state === "running" ? "force" : "cancel");
      }),
      { numRuns: 120 },
    );
    expect((await auditDatabase(database.adminUrl, [])).complaints).toEqual([]);
  }, 120_000);

  test("that race for one run leave one winner, in 300 rounds of cancel against claim, finish and reclaim", async () => {
    const winners = new Map<string, number>();
    for (let round = 0; round < 300; round++) {
      const run = await moves.create();
      const kind = ["claim", "finish", "reclaim"][round % 3] as string;
      const claimed = kind === "claim" ? null : await moves.claim(run.runId);
      const fence = claimed?.fence ?? 0;
      if (kind === "reclaim") {
        await moves.append(run.runId, fence, 1, 1);
        await moves.expire(run.runId);
      }
      const rival = {
        claim: () => moves.claim(run.runId),
        finish: () => moves.finish(run, fence, "success", 0),
        reclaim: () => moves.takeBack(run.runId, fence, "lost"),
      }[kind]!;
      await Promise.all([moves.cancel(run.runId), rival(), moves.cancel(run.runId)]);
      const { status, fence: last } = await moves.row(run.runId);
      winners.set(`${kind}: ${status}`, (winners.get(`${kind}: ${status}`) ?? 0) + 1);
      // Told to stop, and still there: its holder, or the sweep, ends it.
      if (status === "running") await moves.finish(run, last, "cancelled", kind === "reclaim" ? 1 : 0);
      const after = await moves.row(run.runId);
      expect(["success", "cancelled"]).toContain(after.status);
      const late = await moves.cancel(run.runId);
      expect(late).toMatchObject({ verdict: "final", status: after.status });
    }
    expect((await auditDatabase(database.adminUrl, [])).complaints).toEqual([]);
    expect([...winners.keys()]).toEqual(expect.arrayContaining(["finish: success"]));
    process.stdout.write(`${[...winners].map(([outcome, times]) => `${outcome} ${times}`).join(", ")}\n`);
  }, 120_000);
});
