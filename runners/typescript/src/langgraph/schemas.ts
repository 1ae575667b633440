import { getInputTypeSchema, getOutputTypeSchema, getStateTypeSchema } from "@langchain/langgraph/zod/schema";
import type { AgentOptions } from "../agent-options.js";
import type { CompiledGraph } from "./graph.js";

type Schema = Record<string, unknown>;

/** What can be known of a graph's shape: everything for states made with zod, the names of the keys otherwise. */
export function schemasOf(graph: CompiledGraph): Pick<AgentOptions, "inputSchema" | "outputSchema" | "stateSchema"> {
  const fallback = keysOf(graph);
  return {
    inputSchema: described(getInputTypeSchema, graph) ?? fallback,
    outputSchema: described(getOutputTypeSchema, graph) ?? fallback,
    stateSchema: described(getStateTypeSchema, graph) ?? fallback,
  };
}

function described(schema: (graph: unknown) => unknown, graph: CompiledGraph): Schema | undefined {
  try {
    const found = schema(graph);
    return typeof found === "object" && found !== null ? (found as Schema) : undefined;
  } catch {
    // A state may hold zod types that have no JSON Schema; the names of its keys are better than no agent.
    return undefined;
  }
}

function keysOf(graph: CompiledGraph): Schema {
  const properties: Record<string, Schema> = {};
  for (const key of graph.streamChannelsList as string[]) {
    if (!key.startsWith("__")) properties[key] = key === "messages" ? { type: "array", items: { type: "object" } } : {};
  }
  return { type: "object", title: graph.getName(), properties };
}
