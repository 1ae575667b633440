import type { RunId, TenantId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import type { OnceKey } from "../governance/create-once.js";
import { createHalt, type HaltMade, type NewHalt } from "../governance/edit-halts.js";
import { type HaltPlace, openHalted } from "../store/halts.js";
import { withTenantReads } from "../store/reads.js";
import { cancelHaltedRun } from "../store/run-path/moves.js";
import { endFrames } from "./control-frames.js";
import { orderStop } from "./order-stop.js";
import type { Plane } from "./plane.js";
import { publishMove } from "./publish.js";

const batch = 16;

/** Sets a halt. One that cancels begins to stop what is open right after its commit; should this process die meanwhile, the sweep goes on. */
export async function haltRuns(
  plane: Plane,
  scope: Scope,
  input: NewHalt,
  once: OnceKey | null,
  dryRun: boolean,
): Promise<HaltMade> {
  const made = await createHalt(plane.stores, scope, input, once, dryRun);
  if (made.id !== null && input.mode === "cancel") {
    stopOpen(plane, scope, made.place).catch((error: unknown) => {
      plane.log.warn({ err: (error as Error).message, haltId: made.id }, "what a halt covers is stopped by the sweep");
    });
  }
  return made;
}

/** Ends a run that is halted, or tells its holder to. False when it was told already, or is not halted any more. */
export async function stopHaltedRun(plane: Plane, tenantId: TenantId, runId: RunId): Promise<boolean> {
  const frames = endFrames("cancelled", null, plane.clock.now());
  const moved = await cancelHaltedRun(plane.stores.app, tenantId, runId, frames);
  if (moved.verdict === "requested") orderStop(plane, moved, { tenantId, runId, fence: moved.fence, kind: "cancel" });
  if (moved.verdict === "moved") publishMove(plane, tenantId, moved, frames);
  return moved.verdict !== "gone";
}

/** What waits behind a run in its thread comes first when that has ended: so it looks until nothing is left. */
async function stopOpen(plane: Plane, scope: Scope, place: HaltPlace): Promise<void> {
  for (;;) {
    const open = await withTenantReads(plane.stores, scope, (tenant) => openHalted(tenant, place, batch));
    const stopped = await Promise.all(open.map((runId) => stopHaltedRun(plane, scope.tenantId, runId)));
    if (!stopped.includes(true)) return;
  }
}
