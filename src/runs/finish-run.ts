import { runKey } from "../domain/ids.js";
import type { FinalRunState } from "../domain/moves/run.js";
import { eventCount } from "../store/run-path/append.js";
import type { Finished, FinishItem } from "../store/run-path/finish.js";
import { endFrames, type RunFailure } from "./control-frames.js";
import type { Plane } from "./plane.js";
import { publishChunk, wakeRun } from "./publish.js";

export type FinishRun = Omit<FinishItem, "end" | "endCount" | "error" | "threadInterrupts" | "reason"> & {
  readonly status: FinalRunState;
  readonly failure: RunFailure | null;
};

/** Ends a run with its runner's result. The first outcome stands, a replay gets it, a superseded holder changes nothing, and a report that lacks
 *  events is told from where to send them. */
export async function finishRun(plane: Plane, input: FinishRun): Promise<Finished> {
  const frames = endFrames(input.status, input.failure, plane.clock.now());
  const item: FinishItem = {
    ...input,
    reason: "",
    end: frames.bytes,
    endCount: frames.count,
    error: input.failure ? JSON.stringify(input.failure) : null,
    threadInterrupts: input.status === "waiting" ? threadInterrupts(input) : null,
  };
  const finished = await plane.path.finish(item);
  if (finished.verdict === "recorded") {
    const key = runKey(input.tenantId, input.runId);
    const count = eventCount({ segments: input.tail }) + frames.count;
    if (finished.firstSeq > 0) {
      const body = Buffer.concat([...input.tail.map((segment) => segment.body), frames.bytes]);
      const end = { status: input.status, lastSeq: finished.firstSeq + count - 1 };
      publishChunk(plane, key, finished.firstSeq, count, body, end, {
        status: input.status,
        error: item.error,
        values: input.values,
        interrupts: item.threadInterrupts,
      });
    }
    if (finished.next) wakeRun(plane, finished.next);
  }
  return finished;
}

/** {task id: [{id, value}]}, the shape of a thread's `interrupts`. Values are spliced in as the runner sent them. */
function threadInterrupts(input: FinishRun): Buffer {
  const tasks = new Map<string, string[]>();
  for (const interrupt of input.interrupts) {
    const list = tasks.get(interrupt.taskId) ?? [];
    const ns = interrupt.namespace.length > 0 ? `,"ns":${JSON.stringify(interrupt.namespace)}` : "";
    list.push(`{"id":${JSON.stringify(interrupt.id)},"value":${interrupt.value.toString()}${ns}}`);
    tasks.set(interrupt.taskId, list);
  }
  return Buffer.from(`{${[...tasks].map(([task, list]) => `${JSON.stringify(task)}:[${list.join(",")}]`).join(",")}}`);
}
