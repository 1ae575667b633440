import { createHash } from "node:crypto";
import { checkpointId } from "./checkpoint-ids.js";
import { RunnerError } from "./errors.js";
import { eventHead } from "./event-encoding.js";
import { type Assignment, type Checkpoint, Family, type Interrupt } from "./generated/fairlead/runner/v1/runner.js";
import { fromJson } from "./json.js";
import type { OutgoingEvent } from "./outbox.js";

// A plain function keeps nothing but its result and, while it waits for a person, the answers that it has had so far. Both travel in checkpoints of
// a lineage of their own: the view is the thread's state for clients, the head holds the answers.

const LINEAGE = "function/json";

/** The runs from the first question to the end: the first one, and each that brought an answer. */
export interface Episode {
  /** The run that asked first. It makes the ids of questions differ between episodes of one thread. */
  readonly origin: string;
  readonly answers: readonly unknown[];
  /** What the first run was started with, as JSON text: the function starts again from its beginning, so it needs it again. */
  readonly input: string;
  /** Did an earlier run of this episode end with a question? */
  readonly continued: boolean;
}

export function episodeOf(assignment: Assignment, resume: unknown): Episode {
  const given = assignment.input.toString("utf8");
  const fresh: Episode = { origin: assignment.run!.runId, answers: [], input: given, continued: false };
  const newest = newestCheckpoint(assignment);
  if (newest === undefined || newest.lineage !== LINEAGE || newest.head.length === 0) {
    if (resume === undefined || resume === null) return fresh;
    throw new RunnerError(
      "unsupported",
      "command.resume: the thread has no open question of this agent. Start a run with an input instead.",
    );
  }
  const { origin, answers, input } = fromJson(newest.head, "checkpoint") as Omit<Episode, "continued">;
  if (resume === undefined || resume === null) return { ...fresh, continued: true };
  const open = interruptId(assignment, { origin }, answers.length);
  return { origin, answers: [...answers, answerTo(open, resume)], input, continued: true };
}

/** The answer is the value itself, or a map from the ids of questions to answers. */
function answerTo(open: string, resume: unknown): unknown {
  const keys = typeof resume === "object" && resume !== null && !Array.isArray(resume) ? Object.keys(resume) : [];
  if (keys.length === 0 || !keys.every((key) => /^[0-9a-f]{32}$/.test(key))) return resume;
  if (!keys.includes(open)) {
    throw new RunnerError(
      "unsupported",
      `command.resume: no answer for the open question ${open}; it names ${keys.join(", ")}.`,
    );
  }
  return (resume as Record<string, unknown>)[open];
}

/** 32 hex digits, as LangGraph's own ids have; the same for the same question in every attempt. */
export function interruptId(assignment: Assignment, episode: Pick<Episode, "origin">, index: number): string {
  return createHash("sha256").update(`${episode.origin}/${assignment.threadId}/${index}`).digest("hex").slice(0, 32);
}

const head = eventHead({ family: Family.FAMILY_CHECKPOINTS });
const none = Buffer.alloc(0);

/** The state after the run, for the thread's history. */
export function viewCheckpoint(
  assignment: Assignment,
  values: string,
  waiting: { episode: Episode; interrupt: Interrupt } | undefined,
  source: "loop" | "update" = "loop",
): OutgoingEvent {
  const now = Date.now();
  const id = checkpointId(now);
  const parent = newestCheckpoint(assignment);
  const step = (parent?.step ?? -1) + 1;
  // An edit of the state leaves a question open, and the answers that were given before it.
  const kept = source === "update" && parent?.lineage === LINEAGE ? parent.head : none;
  const metadata = JSON.stringify({
    source,
    step,
    parents: {},
    run_id: assignment.run!.runId,
    thread_id: assignment.threadId,
    graph_id: assignment.graphId,
    assistant_id: assignment.agentId,
    run_attempt: assignment.attempt,
  });
  const created = new Date(now).toISOString();
  const checkpoint: Checkpoint = {
    namespace: "",
    id,
    parentId: parent?.id ?? "",
    lineage: LINEAGE,
    schemaVersion: 1,
    step,
    head: waiting === undefined ? kept : Buffer.from(episodeHead(waiting.episode)),
    metadata: Buffer.from(metadata),
    channels: [],
    view: Buffer.from(
      `{"values":${values},"next":${waiting === undefined ? "[]" : JSON.stringify([assignment.graphId])},` +
        `"tasks":${waiting === undefined ? "[]" : waitingTask(assignment, waiting.interrupt)},` +
        `"metadata":${metadata},"created_at":"${created}"}`,
    ),
    writes: [],
  };
  const body = JSON.stringify({ id, parent_id: parent?.id, step, source });
  return { head, body, legacyBody: "", delta: false, checkpoints: [checkpoint] };
}

function episodeHead({ origin, answers, input }: Episode): string {
  return JSON.stringify({ origin, answers, input });
}

function waitingTask(assignment: Assignment, { id, taskId, value }: Interrupt): string {
  const fixed = JSON.stringify({
    id: taskId,
    name: assignment.graphId,
    error: null,
    path: [],
    checkpoint: null,
    state: null,
    result: null,
  });
  return `[${fixed.slice(0, -1)},"interrupts":[{"id":"${id}","value":${value.toString("utf8")}}]}]`;
}

function newestCheckpoint(assignment: Assignment): Checkpoint | undefined {
  return assignment.checkpoints.findLast((checkpoint) => checkpoint.namespace === "");
}
