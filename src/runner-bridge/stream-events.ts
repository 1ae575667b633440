import { DomainError, invalidInput } from "../domain/errors.js";
import type { RunnerId } from "../domain/ids.js";
import { isUuid, runKey } from "../domain/ids.js";
import type { RunnerScope } from "../domain/scope.js";
import {
  type Acknowledgement,
  BatchVerdict,
  ControlKind,
  type EventBatch,
  type PolicyAsk,
} from "../generated/proto/fairlead/runner/v1/runner.js";
import { appendEvents } from "../runs/append-events.js";
import { failInvalid } from "../runs/fail-invalid.js";
import type { Plane } from "../runs/plane.js";
import { isBadData } from "../store/client.js";
import { type Appended, eventLoad } from "../store/run-path/append.js";
import { answerAsk } from "./answer-ask.js";
import type { EventStream, Session, Sessions } from "./sessions.js";
import { fromWireBatch, fromWireRun } from "./wire.js";

// What waits here to be stored, over all streams: about 200 ms of a flood. The streams that send share it, and one that has more than its share is paused: HTTP/2 flow control then holds its runner back.
const loadBound = 16_384;
const leastShare = 512;

/** What the open streams of this process have in flight. */
export interface Intake {
  sending: number;
}

function shareOf(intake: Intake): number {
  return Math.max(leastShare, loadBound / Math.max(1, intake.sending));
}

const verdicts = {
  stored: BatchVerdict.BATCH_VERDICT_STORED,
  out_of_order: BatchVerdict.BATCH_VERDICT_OUT_OF_ORDER,
  superseded: BatchVerdict.BATCH_VERDICT_SUPERSEDED,
} as const;

/** At least 1, and no more than what was sent, whatever the runner says of it. */
function loadOf({ segments }: EventBatch): number {
  let load = 1;
  for (const { count, events } of segments) load += eventLoad(Math.min(count, events.length), events.length);
  return load;
}

/** Serves one event stream: batches up, acknowledgements down, one message a tick. `fail` ends the stream with an error. */
export function serveEventStream(
  plane: Plane,
  sessions: Sessions,
  scope: RunnerScope,
  stream: EventStream,
  intake: Intake,
  fail: (error: unknown) => void,
): void {
  const queue = { poolId: scope.poolId, kind: scope.kind };
  let session: Session | undefined;
  let load = 0;
  let paused = false;
  let done = false;
  let acknowledgements: Acknowledgement[] = [];
  let scheduled = false;

  const flush = (): void => {
    scheduled = false;
    if (done || acknowledgements.length === 0) return;
    stream.write({ message: { $case: "acknowledgements", value: { acknowledgements } } });
    acknowledgements = [];
  };
  const acknowledge = (acknowledgement: Acknowledgement): void => {
    acknowledgements.push(acknowledgement);
    if (!scheduled) {
      scheduled = true;
      setImmediate(flush);
    }
  };

  const refuse = async (batch: EventBatch, message: string): Promise<void> => {
    const run = fromWireRun(batch.run, queue);
    if ("ok" in run) await failInvalid(plane, run.ok, message);
    acknowledge({ run: batch.run, verdict: BatchVerdict.BATCH_VERDICT_INVALID, stored: 0, message });
  };

  const take = async (batch: EventBatch): Promise<void> => {
    const checked = fromWireBatch(batch, queue, plane.limits);
    if ("complaint" in checked) return refuse(batch, checked.complaint);
    let appended: Appended;
    try {
      appended = await appendEvents(plane, checked.ok);
    } catch (error) {
      // The runner would send it again for ever.
      if (isBadData(error)) return refuse(batch, `the store refuses it: ${(error as Error).message}`);
      throw error;
    }
    acknowledge({ run: batch.run, verdict: verdicts[appended.verdict], stored: appended.stored, message: "" });
    if (appended.cancel && !done) {
      stream.write({ message: { $case: "control", value: { run: batch.run, kind: ControlKind.CONTROL_KIND_CANCEL } } });
    }
    if (appended.verdict === "superseded" && session) {
      const key = runKey(checked.ok.tenantId, checked.ok.runId);
      if (session.held.get(key)?.fence === checked.ok.fence) session.held.delete(key);
    }
  };

  const answer = async (ask: PolicyAsk): Promise<void> => {
    const decision = await answerAsk(plane, queue, ask);
    if (!done) stream.write({ message: { $case: "decision", value: decision } });
  };

  const work = (what: Promise<void>, cost: number): void => {
    if (load === 0) intake.sending++;
    load += cost;
    what
      // The runner keeps what was not acknowledged and sends it again on its next stream.
      .catch((error: unknown) => end(error))
      .finally(() => {
        load -= cost;
        if (load === 0) intake.sending--;
        if (paused && load <= shareOf(intake) / 2 && !done) {
          paused = false;
          stream.resume();
        }
      });
  };

  stream.on("data", (request) => {
    if (done || stream.cancelled) return close();
    if (request.hello) {
      if (!isUuid(request.hello.runnerId)) return end(invalidInput("hello.runner_id", "must be a UUID"));
      if (request.hello.kind !== scope.kind)
        return end(new DomainError("FORBIDDEN", `The token is for runners of kind "${scope.kind}".`));
      session = sessions.of(request.hello.runnerId as RunnerId, queue);
      session.eventStreams.add(stream);
    }
    if (!session) return end(invalidInput("hello", "the first message of a stream says who sends it"));
    session.heardAt = plane.clock.monotonic();
    for (const batch of request.batches) work(take(batch), loadOf(batch));
    for (const ask of request.asks) work(answer(ask), eventLoad(1, ask.arguments.length));
    if (!paused && load > shareOf(intake)) {
      paused = true;
      stream.pause();
      stream.write({
        message: { $case: "control", value: { run: undefined, kind: ControlKind.CONTROL_KIND_SLOW_DOWN } },
      });
    }
  });

  const close = (): void => {
    if (done) return;
    done = true;
    if (session) {
      session.eventStreams.delete(stream);
      sessions.closed(session);
    }
  };
  const end = (error: unknown): void => {
    if (done) return;
    close();
    fail(error);
  };
  stream.on("cancelled", close);
  stream.on("error", close);
  stream.on("end", () => {
    if (done) return;
    flush();
    close();
    stream.end();
  });
}
