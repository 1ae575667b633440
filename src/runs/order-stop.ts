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
  const { tenantId, runId, fence, kind } = order;
  plane.stops.tell(holder, { tenantId, runId, fence, kind });
  plane.signals.stop(holder, { tenantId, runId, fence, kind });
}
