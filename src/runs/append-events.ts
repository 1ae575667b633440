import { runKey } from "../domain/ids.js";
import type { Appended, AppendItem } from "../store/run-path/append.js";
import { enforceBudget } from "./enforce-budget.js";
import type { Plane } from "./plane.js";
import { publishChunk } from "./publish.js";

/** Appends a batch under its fence and carries it to the followers. A superseded holder changes nothing. */
export async function appendEvents(plane: Plane, item: AppendItem): Promise<Appended> {
  const appended = await plane.path.append(item);
  if (appended.verdict === "stored") {
    const key = runKey(item.tenantId, item.runId);
    let seq = appended.firstSeq;
    for (const segment of item.segments) {
      publishChunk(plane, key, seq, segment.count, segment.body, null);
      seq += segment.count;
    }
  }
  // Not waited for: the runner's next event does not depend on it, and the end settles whatever this misses.
  if (appended.verdict === "stored" && item.extras.steps.some((step) => step.usage !== null)) {
    enforceBudget(plane, item.tenantId, item.runId).catch((error: unknown) => {
      plane.log.warn({ err: (error as Error).message, runId: item.runId }, "a run's budget could not be looked at");
    });
  }
  return appended;
}
