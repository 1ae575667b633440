import type { QueueName, RunnerId } from "../domain/ids.js";
import type { Plane, StopOrder } from "./plane.js";

/** Tells whoever held a run to stop it, wherever it is connected. */
export function orderStop(
  plane: Plane,
  held: { readonly runnerId: RunnerId | null; readonly queue: QueueName },
  order: StopOrder,
): void {
  if (held.runnerId === null) return;
  const holder = { runnerId: held.runnerId, queue: held.queue };
  // Callers give more of the run than travels.
  const { tenantId, runId, fence, kind } = order;
  const told: StopOrder = { tenantId, runId, fence, kind };
  plane.stops.tell(holder, told);
  plane.signals.stop(holder, told);
}
