import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Command, Send } from "@langchain/langgraph";
import { type Command as ClientCommand, metadataOf, type RunConfig } from "../assignment.js";
import { RunnerError } from "../errors.js";
import type { Assignment } from "../generated/fairlead/runner/v1/runner.js";

/** What the plane decides and a client cannot: the rest of `configurable` is the client's. */
const serverOwned = new Set([
  "thread_id",
  "run_id",
  "graph_id",
  "assistant_id",
  "checkpoint_ns",
  "langgraph_auth_user",
]);

export interface GraphConfig {
  readonly configurable: Record<string, unknown>;
  readonly metadata: Record<string, unknown>;
  readonly tags?: string[];
  readonly recursionLimit?: number;
  readonly context?: unknown;
  readonly runId: string;
  readonly interruptBefore?: string[] | "*";
  readonly interruptAfter?: string[] | "*";
}

export function graphConfig(assignment: Assignment, config: RunConfig, context: unknown): GraphConfig {
  const { runId } = assignment.run!;
  const ids = {
    thread_id: assignment.threadId,
    run_id: runId,
    graph_id: assignment.graphId,
    assistant_id: assignment.agentId,
  };
  const own = Object.entries(config.configurable ?? {}).filter(
    ([key]) => !serverOwned.has(key) && !key.startsWith("__"),
  );
  const limit = config.recursion_limit;
  if (limit !== undefined && limit !== null && (!Number.isInteger(limit) || limit < 1)) {
    throw new RunnerError(
      "unsupported",
      `config.recursion_limit: must be a whole number above 0, it is ${JSON.stringify(limit)}.`,
    );
  }
  return {
    configurable: { ...Object.fromEntries(own), ...ids },
    metadata: {
      ...(config["metadata"] as object | undefined),
      ...metadataOf(assignment),
      ...ids,
      run_attempt: assignment.attempt,
      langgraph_version: langgraphVersion(),
    },
    runId,
    // Absent keys must stay absent: `undefined` would wipe what is bound to the graph.
    ...(config.tags !== undefined && { tags: config.tags }),
    ...(limit !== undefined && limit !== null && { recursionLimit: limit }),
    ...(context !== undefined && context !== null && { context }),
    ...(assignment.interruptBefore.length > 0 && { interruptBefore: nodes(assignment.interruptBefore) }),
    ...(assignment.interruptAfter.length > 0 && { interruptAfter: nodes(assignment.interruptAfter) }),
  };
}

function nodes(names: string[]): string[] | "*" {
  return names.includes("*") ? "*" : names;
}

export function graphCommand(command: ClientCommand): Command {
  const { resume, update, goto } = command;
  const targets = goto === undefined || goto === null ? [] : Array.isArray(goto) ? goto : [goto];
  return new Command({
    ...(resume !== undefined && { resume }),
    ...(update !== undefined && update !== null && { update: update as Record<string, unknown> }),
    ...(targets.length > 0 && { goto: targets.map(target) }),
  });
}

function target(value: unknown): string | Send {
  if (typeof value === "string") return value;
  const { node, input } = (value ?? {}) as { node?: unknown; input?: unknown };
  if (typeof node !== "string") {
    throw new RunnerError("unsupported", "command.goto: each target must be the name of a node, or {node, input}.");
  }
  return new Send(node, input);
}

let version: string | undefined;

/** The entry point tells where the package lies; its package.json is not exported. */
function langgraphVersion(): string {
  if (version !== undefined) return version;
  version = "unknown";
  let folder = dirname(createRequire(import.meta.url).resolve("@langchain/langgraph"));
  while (folder !== dirname(folder)) {
    const file = join(folder, "package.json");
    if (existsSync(file)) {
      const manifest = JSON.parse(readFileSync(file, "utf8")) as { name?: string; version?: string };
      if (manifest.name === "@langchain/langgraph") version = manifest.version ?? version;
      break;
    }
    folder = dirname(folder);
  }
  return version;
}
