import { RunnerError } from "./errors.js";
import type { Assignment } from "./generated/fairlead/runner/v1/runner.js";
import { fromJson } from "./json.js";

// What an assignment says, as values. Nothing is parsed before an agent asks for it.

export interface Command {
  readonly resume?: unknown;
  readonly update?: unknown;
  readonly goto?: unknown;
}

export interface RunConfig {
  readonly tags?: string[];
  readonly recursion_limit?: number;
  readonly configurable?: Record<string, unknown>;
  readonly [key: string]: unknown;
}

export function commandOf(assignment: Assignment): Command | undefined {
  const command = fromJson(assignment.command, "command");
  if (command === undefined || command === null) return undefined;
  if (typeof command !== "object" || Array.isArray(command)) {
    throw new RunnerError("unsupported", "command: must be an object with resume, update or goto.");
  }
  return command as Command;
}

/** The run's config over the agent's own: lists are joined, `configurable` is merged key by key, all else is replaced. */
export function configOf(assignment: Assignment): RunConfig {
  if (assignment.agentConfig.length === 0 && assignment.config.length === 0) return {};
  const base = objectOf(fromJson(assignment.agentConfig, "agent config"), "config of the agent") as RunConfig;
  const own = objectOf(fromJson(assignment.config, "config"), "config") as RunConfig;
  const merged: Record<string, unknown> = { ...base, ...own };
  const configurable = { ...base.configurable, ...own.configurable };
  if (Object.keys(configurable).length > 0) merged["configurable"] = configurable;
  const tags = [...(base.tags ?? []), ...(own.tags ?? [])];
  if (tags.length > 0) merged["tags"] = tags;
  return merged as RunConfig;
}

export function metadataOf(assignment: Assignment): Record<string, unknown> {
  return objectOf(fromJson(assignment.metadata, "metadata"), "metadata");
}

export function contextOf(assignment: Assignment): unknown {
  return fromJson(assignment.context, "context");
}

/** The thread's portable state, written at the end of every run by whichever agent ran. */
export function threadValuesOf(assignment: Assignment): unknown {
  return fromJson(assignment.threadValues, "thread state");
}

/** The edit of PURPOSE_UPDATE_STATE. */
export function stateUpdateOf(assignment: Assignment): { values: unknown; asNode: string | undefined } {
  const update = objectOf(fromJson(assignment.stateUpdate, "state update"), "state update");
  const asNode = update["as_node"];
  if (asNode !== undefined && asNode !== null && typeof asNode !== "string") {
    throw new RunnerError("unsupported", "as_node: must be the name of a node.");
  }
  return { values: update["values"], asNode: asNode ?? undefined };
}

function objectOf(value: unknown, what: string): Record<string, unknown> {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new RunnerError(
      "unsupported",
      `${what}: must be an object, it is ${Array.isArray(value) ? "a list" : typeof value}.`,
    );
  }
  return value as Record<string, unknown>;
}
