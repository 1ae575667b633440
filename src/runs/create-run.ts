import { DomainError } from "../domain/errors.js";
import type { RunId, ThreadId } from "../domain/ids.js";
import { runKey } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import type { Agent } from "../store/agents.js";
import type { Created, CreateItem } from "../store/run-path/create.js";
import type { Plane } from "./plane.js";
import { wakeRun } from "./publish.js";

/** What a client asks for. JSON members are text as the client sent it, null when absent. */
export interface CreateRun
  extends Pick<
    CreateItem,
    | "strategy"
    | "resume"
    | "resumeIds"
    | "input"
    | "command"
    | "config"
    | "context"
    | "metadata"
    | "streamModes"
    | "streamSubgraphs"
    | "streamResumable"
    | "interruptBefore"
    | "interruptAfter"
    | "onDisconnect"
    | "fromCheckpointId"
    | "requestHash"
    | "idempotencyKey"
    | "traceparent"
  > {
  readonly agent: Agent;
  /** Null for a stateless run, which gets a temporary thread. */
  readonly threadId: ThreadId | null;
  readonly ifThreadMissing: "create" | "reject";
  readonly runId: RunId | null;
  readonly onCompletion: "delete" | "keep";
  readonly afterMs: number | null;
}

export interface CreatedRun {
  readonly runId: RunId;
  readonly threadId: ThreadId;
  readonly createdAt: Date;
  /** The request was answered before: this is the run of then. */
  readonly isReplay: boolean;
}

/** Creates a run: replay check, thread, strategy, resume target, admission and insert in one statement; then wakes a runner. */
export async function createRun(plane: Plane, scope: Scope, input: CreateRun): Promise<CreatedRun> {
  const { agent } = input;
  // Member by member: what a spread makes is slow to read ever after, and this is read by every step of the path.
  const item: CreateItem = {
    tenantId: scope.tenantId,
    runId: input.runId ?? (uuidv7() as RunId),
    runIdChosen: input.runId !== null,
    threadId: input.threadId ?? (uuidv7() as ThreadId),
    threadMode: threadModeOf(input),
    threadMetadata: "{}",
    agentId: agent.id,
    graphId: agent.graphId,
    poolId: agent.poolId,
    kind: agent.kind,
    purpose: "run",
    strategy: input.strategy,
    resume: input.resume,
    resumeIds: input.resumeIds,
    maxAttempts: agent.maxAttempts,
    recovery: agent.recovery,
    queueTimeoutMs: agent.queueTimeoutMs,
    runTimeoutMs: agent.runTimeoutMs,
    dueMs: input.afterMs,
    input: input.input,
    command: input.command,
    config: input.config,
    context: input.context,
    metadata: input.metadata,
    stateUpdate: null,
    streamModes: input.streamModes,
    streamSubgraphs: input.streamSubgraphs,
    streamResumable: input.streamResumable,
    interruptBefore: input.interruptBefore,
    interruptAfter: input.interruptAfter,
    onDisconnect: input.onDisconnect,
    deleteThread: input.threadId === null && input.onCompletion === "delete",
    fromCheckpointId: input.fromCheckpointId,
    credentialId: scope.actor.id,
    requestHash: input.requestHash,
    idempotencyKey: input.idempotencyKey,
    traceparent: input.traceparent,
  };
  return settleCreate(plane, item, await plane.path.create(item));
}

/** The thread of a stateless run is temporary, unless it is to be kept. */
function threadModeOf(input: CreateRun): CreateItem["threadMode"] {
  if (input.threadId === null) return input.onCompletion === "keep" ? "create" : "temporary";
  return input.ifThreadMissing === "create" ? "create" : "existing";
}

/** Maps the verdict, and wakes a runner when a run was made. */
export function settleCreate(plane: Plane, item: CreateItem, created: Created): CreatedRun {
  switch (created.verdict) {
    case "created": {
      plane.feeds.begin(runKey(item.tenantId, created.runId));
      const queue = { poolId: item.poolId, kind: item.kind, graphId: item.graphId };
      if (created.isHead && item.dueMs === null && !created.claimed) {
        wakeRun(plane, { tenantId: item.tenantId, runId: created.runId, queue, isAdmitted: created.isAdmitted });
      }
      return { runId: created.runId, threadId: item.threadId, createdAt: created.createdAt, isReplay: false };
    }
    case "replayed":
      return { runId: created.runId, threadId: item.threadId, createdAt: created.createdAt, isReplay: true };
    case "mismatch":
      throw new DomainError("IDEMPOTENCY_MISMATCH", undefined, { runId: created.runId });
    case "halted":
      throw new DomainError("HALTED");
    case "over_budget":
      throw new DomainError("BUDGET_EXCEEDED");
    case "thread_not_found":
      throw new DomainError(
        "THREAD_NOT_FOUND",
        `There is no thread ${item.threadId}. Create it first, or send if_not_exists: "create".`,
      );
    case "thread_busy":
      throw new DomainError("THREAD_BUSY", `The thread is busy with run ${created.blockingRunId}.`, {
        blockingRunId: created.blockingRunId,
      });
    case "checkpoint_not_found":
      throw new DomainError("CHECKPOINT_NOT_FOUND", `The thread has no checkpoint ${item.fromCheckpointId}.`);
    case "no_such_interrupt":
      throw new DomainError(
        "NO_SUCH_INTERRUPT",
        created.openInterrupts.length === 0
          ? "The thread does not wait for an answer."
          : `The thread does not wait for this answer. Open: ${created.openInterrupts.join(", ")}.`,
        { openInterrupts: created.openInterrupts },
      );
    case "ambiguous_resume":
      throw new DomainError(
        "AMBIGUOUS_RESUME",
        `Several questions are open: resume with an object keyed by their ids (${created.openInterrupts.join(", ")}).`,
        { openInterrupts: created.openInterrupts },
      );
  }
}
