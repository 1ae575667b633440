import { runKey } from "../domain/ids.js";
import type { Appended, AppendItem } from "../store/run-path/append.js";
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
  return appended;
}
