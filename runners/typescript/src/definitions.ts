import type { Agent } from "./agent.js";
import type { AgentOptions } from "./agent-options.js";
import { RunnerError } from "./errors.js";
import { type AgentFunction, type FunctionOptions, functionAgent } from "./function-agent.js";
import type { langgraphAgent } from "./langgraph/adapter.js";

/** Everything that can stand under `agents`: a function, a function with options, or a LangGraph graph. */
export type AgentDefinition = AgentFunction | FunctionDefinition | GraphDefinition;

export interface FunctionDefinition {
  readonly kind: "function";
  readonly work: AgentFunction;
  readonly options: FunctionOptions;
}

export interface GraphDefinition {
  readonly kind: "langgraph";
  readonly graph: unknown;
  readonly options: AgentOptions;
}

/** A plain function with options. */
export function agent(work: AgentFunction, options: FunctionOptions = {}): FunctionDefinition {
  return { kind: "function", work, options };
}

/** A LangGraph.js graph: compiled, not compiled, or a function that makes one from the run's config. */
export function langgraph(graph: unknown, options: AgentOptions = {}): GraphDefinition {
  return { kind: "langgraph", graph, options };
}

/** LangGraph is loaded only when an agent needs it. */
export async function createAgent(graphId: string, definition: AgentDefinition): Promise<Agent> {
  if (typeof definition === "function") return functionAgent(graphId, definition);
  if (definition?.kind === "function") return functionAgent(graphId, definition.work, definition.options);
  if (definition?.kind === "langgraph") {
    const langGraph = await loadLangGraph(graphId);
    return langGraph.langgraphAgent(graphId, definition.graph, definition.options);
  }
  throw new RunnerError("config", `agents.${graphId}: must be a function, agent(…) or langgraph(…).`);
}

async function loadLangGraph(graphId: string): Promise<{ langgraphAgent: typeof langgraphAgent }> {
  try {
    return await import("./langgraph/adapter.js");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const message = `agents.${graphId}: needs LangGraph.js, which is not installed. Run: npm install @langchain/langgraph @langchain/core`;
    throw new RunnerError("config", message, { cause: error });
  }
}
