import { runKey } from "../domain/ids.js";
import type { HeldRun } from "../store/run-path/append.js";
import { failRunRow } from "../store/run-path/moves.js";
import { endFrames } from "./control-frames.js";
import type { Plane } from "./plane.js";
import { publishMove } from "./publish.js";

/** Ends a run whose holder sent something malformed or too large: it cannot be stored, and leaving it out would be a silent gap. */
export async function failInvalid(plane: Plane, run: HeldRun, complaint: string): Promise<void> {
  const failure = { error: "invalid_output", message: `The agent's output cannot be stored: ${complaint}` };
  const end = endFrames("error", failure, plane.clock.now());
  const moved = await failRunRow(plane.stores.app, run, "runner_invalid", JSON.stringify(failure), end);
  if (moved.verdict !== "moved") return;
  plane.log.warn(
    { run: runKey(run.tenantId, run.runId), complaint },
    "a run was ended: its runner sent something invalid",
  );
  publishMove(plane, run.tenantId, moved, end);
}
