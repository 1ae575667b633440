import { type RunId, runKey, type TenantId } from "../domain/ids.js";
import { raiseHolds } from "../store/budgets.js";
import { cancelOverBudget } from "../store/run-path/moves.js";
import { endFrames } from "./control-frames.js";
import { orderStop } from "./order-stop.js";
import type { Plane } from "./plane.js";

/** After steps that tell of usage: the run's holds are raised to what it has used, or it is told to stop. */
export async function enforceBudget(plane: Plane, tenantId: TenantId, runId: RunId): Promise<void> {
  if (!(await plane.budgeted.has(tenantId))) return;
  await plane.budgeted.look(runKey(tenantId, runId), () => raise(plane, tenantId, runId));
}

async function raise(plane: Plane, tenantId: TenantId, runId: RunId): Promise<void> {
  const why = await raiseHolds(plane.stores.app, tenantId, runId);
  if (why === null) return;
  const frames = endFrames("cancelled", null, plane.clock.now());
  const moved = await cancelOverBudget(plane.stores.app, tenantId, runId, frames);
  if (moved.verdict !== "requested") return;
  plane.log.info({ tenantId, runId, why }, "a run is stopped by its budget");
  orderStop(plane, moved, { tenantId, runId, fence: moved.fence, kind: "cancel" });
}
