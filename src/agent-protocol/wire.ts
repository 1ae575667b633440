import type { RunState } from "../domain/moves/run.js";
import type { Agent, AgentSchemas } from "../store/agents.js";
import type { Run } from "../store/runs.js";
import type { Thread } from "../store/threads.js";

// domain → JSON text. Client JSON is spliced in as it was received.

/** Run states as clients know them: a run that waits for a person succeeded, `interrupted` means cancelled. */
export const wireRunStatus = {
  pending: "pending",
  running: "running",
  success: "success",
  waiting: "success",
  error: "error",
  timeout: "timeout",
  cancelled: "interrupted",
} as const satisfies Record<RunState, string>;

/** Which states a client's status filter means. */
export const runStatesOf: Record<string, readonly RunState[]> = {
  pending: ["pending"],
  running: ["running"],
  success: ["success", "waiting"],
  error: ["error"],
  timeout: ["timeout"],
  interrupted: ["cancelled"],
};

const q = JSON.stringify;
const raw = (bytes: Buffer | null): string => (bytes === null ? "null" : bytes.toString());

export function toWireRun(run: Run): string {
  const kwargs =
    `{"input":${raw(run.input)},"command":${raw(run.command)},"config":${run.config === null ? "{}" : raw(run.config)},"context":${raw(run.context)},` +
    `"stream_mode":${q(run.streamModes)},"interrupt_before":${q(nodes(run.interruptBefore))},"interrupt_after":${q(nodes(run.interruptAfter))},` +
    `"subgraphs":${run.streamSubgraphs},"resumable":${run.streamResumable},"temporary":${run.temporary}}`;
  return (
    `{"run_id":${q(run.id)},"thread_id":${q(run.threadId)},"assistant_id":${q(run.agentId)},"created_at":${q(run.createdAt)},"updated_at":${q(run.updatedAt)},` +
    `"status":${q(wireRunStatus[run.status])},"status_reason":${q(run.statusReason)},"metadata":${run.metadata},"kwargs":${kwargs},` +
    `"multitask_strategy":${q(run.multitaskStrategy)},"error":${run.error ?? "null"}}`
  );
}

export const runMembers = [
  "run_id",
  "thread_id",
  "assistant_id",
  "created_at",
  "updated_at",
  "status",
  "status_reason",
  "metadata",
  "kwargs",
  "multitask_strategy",
  "error",
] as const;

const nodes = (list: readonly string[]): "*" | readonly string[] | null =>
  list.length === 0 ? null : list[0] === "*" ? "*" : list;

export function toWireThread(thread: Thread): string {
  return (
    `{"thread_id":${q(thread.id)},"created_at":${q(thread.createdAt)},"updated_at":${q(thread.updatedAt)},"state_updated_at":${q(thread.stateUpdatedAt)},` +
    `"metadata":${thread.metadata},"status":${q(thread.status)},"config":{},"values":${raw(thread.values)},"interrupts":${thread.interrupts === null ? "{}" : raw(thread.interrupts)}}`
  );
}

export const assistantMembers = [
  "assistant_id",
  "graph_id",
  "created_at",
  "updated_at",
  "config",
  "context",
  "metadata",
  "version",
  "name",
  "description",
] as const;

export function toWireSchemas(agent: Agent, schemas: AgentSchemas): string {
  return (
    `{"graph_id":${q(agent.graphId)},"input_schema":${schemas.input ?? "null"},"output_schema":${schemas.output ?? "null"},` +
    `"state_schema":${schemas.state ?? "null"},"config_schema":${schemas.config ?? "null"},"context_schema":${schemas.context ?? "null"}}`
  );
}

export function toWireAssistant(agent: Agent): string {
  return (
    `{"assistant_id":${q(agent.id)},"graph_id":${q(agent.graphId)},"created_at":${q(agent.createdAt)},"updated_at":${q(agent.updatedAt)},"config":${agent.config},` +
    `"context":${agent.context},"metadata":${agent.metadata},"version":${agent.version},"name":${q(agent.name)},"description":${q(agent.description)}}`
  );
}
