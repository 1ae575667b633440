import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canMove, finalStates, type Moves, reachable } from "../../src/domain/moves/machine.js";
import {
  finalRunStates,
  isFinalRunState,
  type RunMoveBy,
  type RunState,
  runMoves,
  runStates,
} from "../../src/domain/moves/run.js";

// The final states are stated here by hand: derived from the table, a table that lets a finished run resume would pass.
const final: RunState[] = ["success", "waiting", "error", "timeout", "cancelled"];
const names = Object.keys(runMoves) as (keyof typeof runMoves)[];
const table: Moves<RunState, RunMoveBy> = runMoves;

describe("the moves of a run", () => {
  test("end in success, waiting, error, timeout and cancelled, and nowhere else", () => {
    expect(finalStates(runStates, table)).toEqual(final);
    expect([...finalRunStates]).toEqual(final);
    expect(runStates.filter(isFinalRunState)).toEqual(final);
  });

  test("reach every state from pending, and an end from every state that is none", () => {
    expect([...reachable("pending", table)].sort()).toEqual([...runStates].sort());
    for (const state of ["pending", "running"] as const) {
      expect([...reachable(state, table)]).toEqual(expect.arrayContaining(final));
      expect(canMove(table, "cancel", state)).toBe(true);
    }
  });

  test("are made by a runner only from running, because only there somebody holds a fence", () => {
    for (const move of Object.values(table)) if (move.by === "runner") expect(move.from).toEqual(["running"]);
  });

  test("keep what is final final and never lower the fence, in any script", () => {
    // Biased: three of four steps choose among the legal moves, else a script seldom gets anywhere.
    const step = fc.record({ legal: fc.nat(3).map((n) => n > 0), pick: fc.nat(1_000), staleBy: fc.nat(2) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (script) => {
        let state: RunState = "pending";
        let fence = 0;
        for (const { legal, pick, staleBy } of script) {
          const possible = legal ? names.filter((name) => canMove(table, name, state)) : names;
          const name = possible[pick % Math.max(possible.length, 1)];
          if (name === undefined) continue;
          const move = runMoves[name];
          const isAllowed = canMove(table, name, state) && (move.by === "plane" || staleBy === 0);
          if (final.includes(state)) expect(isAllowed).toBe(false);
          if (!isAllowed) continue;
          const before = fence;
          if (move.by === "plane") fence++;
          state = move.to;
          expect(fence).toBeGreaterThanOrEqual(before);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
