import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { AgentEntry } from "./config-file.js";
import { type AgentDefinition, agent, langgraph } from "./definitions.js";
import { RunnerError } from "./errors.js";
import type { AgentFunction } from "./function-agent.js";

/** Imports what a configuration names. A function is an agent function unless the configuration says that it makes a graph. */
export async function loadAgents(entries: readonly AgentEntry[]): Promise<Record<string, AgentDefinition>> {
  const agents: Record<string, AgentDefinition> = {};
  for (const entry of entries) agents[entry.graphId] = await loadAgent(entry);
  return agents;
}

async function loadAgent(entry: AgentEntry): Promise<AgentDefinition> {
  const { graphId, file, exportName, framework, options } = entry;
  const found = await importExport(entry);
  if (isDefinition(found)) return found;
  if (typeof found === "function")
    return framework === "langgraph" ? langgraph(found, options) : agent(found as AgentFunction, options);
  if (typeof found === "object" && found !== null && framework !== "function") return langgraph(found, options);
  throw new RunnerError(
    "config",
    `agents.${graphId}: the export "${exportName}" of ${file} is ${found === null ? "null" : typeof found}. Export an async function or a LangGraph graph.`,
  );
}

async function importExport({ graphId, file, exportName }: AgentEntry): Promise<unknown> {
  if (!existsSync(file)) throw new RunnerError("config", `agents.${graphId}: the file ${file} does not exist.`);
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new RunnerError("config", `agents.${graphId}: ${file} cannot be loaded: ${reason}`, { cause: error });
  }
  if (!(exportName in module)) {
    const names = Object.keys(module).join(", ") || "nothing";
    throw new RunnerError("config", `agents.${graphId}: ${file} has no export "${exportName}"; it exports: ${names}.`);
  }
  return module[exportName];
}

function isDefinition(value: unknown): value is AgentDefinition {
  if (typeof value !== "object" || value === null) return false;
  const { kind, options } = value as { kind?: unknown; options?: unknown };
  return (kind === "function" || kind === "langgraph") && typeof options === "object";
}
