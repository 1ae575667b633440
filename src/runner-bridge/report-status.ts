import type { ThreadId } from "../domain/ids.js";
import { runKey } from "../domain/ids.js";
import type { RunnerScope } from "../domain/scope.js";
import { Outcome, type Report, ReportVerdict, type Verdict } from "../generated/proto/fairlead/runner/v1/runner.js";
import { appendEvents } from "../runs/append-events.js";
import { failInvalid } from "../runs/fail-invalid.js";
import { type FinishRun, finishRun } from "../runs/finish-run.js";
import type { Plane } from "../runs/plane.js";
import { takeBack } from "../runs/take-back-run.js";
import { isBadData } from "../store/client.js";
import type { HeldRun } from "../store/run-path/append.js";
import { noExtras } from "../store/run-path/extras.js";
import type { Finished } from "../store/run-path/finish.js";
import { findRunForReport } from "../store/runs.js";
import type { Session } from "./sessions.js";
import { complainAboutReport, fromWireBatch, fromWireRun, outcomeOfStatus, statusOfOutcome } from "./wire.js";

const verdicts = {
  recorded: ReportVerdict.REPORT_VERDICT_RECORDED,
  replayed: ReportVerdict.REPORT_VERDICT_REPLAYED,
  missing: ReportVerdict.REPORT_VERDICT_MISSING,
  superseded: ReportVerdict.REPORT_VERDICT_SUPERSEDED,
} as const;

/** Settles one report. Idempotent per (run, generation). */
export async function settleReport(
  plane: Plane,
  session: Session | undefined,
  scope: RunnerScope,
  report: Report,
): Promise<Verdict> {
  const queue = { poolId: scope.poolId, kind: scope.kind };
  const invalid = (message: string): Verdict => ({
    run: report.run,
    verdict: ReportVerdict.REPORT_VERDICT_INVALID,
    missingFrom: 0,
    stored: Outcome.OUTCOME_UNSPECIFIED,
    message,
  });
  const run = fromWireRun(report.run, queue);
  if ("complaint" in run) return invalid(run.complaint);
  const held = run.ok;
  const tail = report.tail ? fromWireBatch({ ...report.tail, run: report.run }, queue, plane.limits) : null;
  const complaint = tail && "complaint" in tail ? `tail.${tail.complaint}` : complainAboutReport(report);
  if (complaint || !(report.outcome in statusOfOutcome || report.outcome === Outcome.OUTCOME_RELEASED)) {
    const message = complaint ?? "outcome: unknown";
    await failInvalid(plane, held, message);
    return invalid(message);
  }
  const batch = tail && "ok" in tail ? tail.ok : null;
  const known =
    session?.held.get(runKey(held.tenantId, held.runId)) ??
    (await findRunForReport(plane.stores, held.tenantId, held.runId));
  if (!known) return { ...invalid(""), verdict: ReportVerdict.REPORT_VERDICT_SUPERSEDED };

  if (report.outcome === Outcome.OUTCOME_RELEASED) {
    if (batch) await appendEvents(plane, batch);
    const outcome = await takeBack(plane, { ...known, ...held, threadId: known.threadId }, "released", queue);
    release(session, held);
    return {
      run: report.run,
      verdict: outcome === "gone" ? ReportVerdict.REPORT_VERDICT_SUPERSEDED : ReportVerdict.REPORT_VERDICT_RECORDED,
      missingFrom: 0,
      stored: outcome === "gone" ? Outcome.OUTCOME_UNSPECIFIED : Outcome.OUTCOME_RELEASED,
      message: "",
    };
  }
  const status = statusOfOutcome[report.outcome as keyof typeof statusOfOutcome];
  const refuse = async (message: string): Promise<Verdict> => {
    await failInvalid(plane, held, message);
    release(session, held);
    return invalid(message);
  };
  const finish: FinishRun = {
    ...held,
    threadId: known.threadId as ThreadId,
    purpose: known.purpose,
    total: report.events,
    tailFirst: batch?.first ?? report.events + 1,
    tail: batch?.segments ?? [],
    extras: batch?.extras ?? noExtras,
    status,
    failure:
      status === "error"
        ? {
            error: storable(report.failure?.type) || "Error",
            message: storable(report.failure?.message) || "The agent failed without a message.",
          }
        : null,
    values: report.values.length > 0 ? Buffer.from(report.values) : null,
    next: report.next,
    interrupts: report.interrupts.map((interrupt) => ({
      id: interrupt.id,
      namespace: interrupt.namespace,
      taskId: interrupt.taskId || interrupt.id,
      value: Buffer.from(interrupt.value),
    })),
  };
  let finished: Finished;
  try {
    finished = await finishRun(plane, finish);
  } catch (error) {
    // The runner would report it again for ever.
    if (isBadData(error)) return refuse(`the store refuses it: ${(error as Error).message}`);
    throw error;
  }
  if (finished.verdict === "missing" && finished.source > report.events)
    return refuse(`events: says ${report.events}, ${finished.source} were sent under this generation`);
  if (finished.verdict !== "missing") release(session, held);
  return {
    run: report.run,
    verdict: verdicts[finished.verdict],
    missingFrom: finished.verdict === "missing" ? finished.source + 1 : 0,
    stored:
      finished.verdict === "recorded"
        ? report.outcome
        : finished.storedStatus
          ? outcomeOfStatus[finished.storedStatus]
          : Outcome.OUTCOME_UNSPECIFIED,
    message: "",
  };
}

/** What an agent's error says is its own: it is kept but for the one character that cannot be. */
function storable(text: string | undefined): string | undefined {
  return text?.replaceAll("\u0000", "\ufffd");
}

function release(session: Session | undefined, run: HeldRun): void {
  const key = runKey(run.tenantId, run.runId);
  if (session?.held.get(key)?.fence === run.fence) session.held.delete(key);
}
