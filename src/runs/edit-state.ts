import { createHash } from "node:crypto";
import { DomainError } from "../domain/errors.js";
import type { RunId, ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import type { Agent } from "../store/agents.js";
import { withTenantReads } from "../store/reads.js";
import type { CreateItem } from "../store/run-path/create.js";
import { findViewOfRun, type StateView } from "../store/state-views.js";
import { cancelRun } from "./cancel-run.js";
import { settleCreate } from "./create-run.js";
import { awaitOutcome } from "./follow-run.js";
import type { Plane } from "./plane.js";

export interface EditState {
  readonly threadId: ThreadId;
  /** Its reducers apply the edit. */
  readonly agent: Agent;
  /** {"values", "as_node"} as JSON text. */
  readonly update: string;
  readonly fromCheckpointId: string | null;
  readonly waitMs: number;
}

/** Applies an edit to a thread's state with the agent's own reducers: an assignment of its own, which no list of runs shows. */
export async function editState(plane: Plane, scope: Scope, input: EditState): Promise<StateView> {
  const { agent, threadId } = input;
  const item: CreateItem = {
    tenantId: scope.tenantId,
    runId: uuidv7() as RunId,
    runIdChosen: false,
    threadId,
    threadMode: "existing",
    threadMetadata: "{}",
    agentId: agent.id,
    graphId: agent.graphId,
    poolId: agent.poolId,
    kind: agent.kind,
    purpose: "update_state",
    strategy: "reject",
    resume: null,
    resumeIds: [],
    maxAttempts: agent.maxAttempts,
    recovery: "restart",
    queueTimeoutMs: input.waitMs,
    runTimeoutMs: null,
    dueMs: null,
    input: null,
    command: null,
    config: null,
    context: null,
    metadata: "{}",
    stateUpdate: input.update,
    streamModes: [],
    streamSubgraphs: false,
    streamResumable: false,
    interruptBefore: [],
    interruptAfter: [],
    onDisconnect: "continue",
    deleteThread: false,
    fromCheckpointId: input.fromCheckpointId,
    credentialId: scope.actor.id,
    requestHash: createHash("sha256").update(input.update).digest("hex"),
    idempotencyKey: null,
    traceparent: null,
  };
  const { runId } = settleCreate(plane, item, await plane.path.create(item));
  const inTime = AbortSignal.timeout(input.waitMs);
  const outcome = await awaitOutcome(plane, scope, runId, inTime).catch(async (error: unknown) => {
    if (!inTime.aborted) throw error;
    // Undone, so that the edit does not appear after the caller was told that it failed.
    await cancelRun(plane, scope, runId, "rollback");
    throw late();
  });
  if (outcome.status === "success") {
    const view = await withTenantReads(plane.stores, scope, (tenant) => findViewOfRun(tenant, threadId, runId));
    if (view) return view;
    throw new DomainError("NOT_SUPPORTED", "The assistant keeps no checkpoints, so its state cannot be edited.");
  }
  if (outcome.status !== "error") throw late();
  const { error, message } = JSON.parse(outcome.error ?? "{}") as { error?: string; message?: string };
  if (error === "not_started") throw late();
  throw new DomainError("INVALID_INPUT", `values: the assistant could not apply them: ${message ?? "it failed"}`, {
    field: "values",
  });
}

function late(): DomainError {
  return new DomainError("WAIT_TIMED_OUT", "The state was not updated in time and stays as it was; try again.");
}
