import type { Pregel } from "@langchain/langgraph/pregel";
import type { RunConfig } from "../assignment.js";
import { RunnerError } from "../errors.js";

/** Any compiled graph; its state is known to its author only. */
// oxlint-disable-next-line typescript/no-explicit-any
export type CompiledGraph = Pregel<any, any>;

/** Gives the graph for one run; the same one each time unless the agent is a factory. */
export type GraphSource = (config: RunConfig, context: unknown) => CompiledGraph | Promise<CompiledGraph>;

/** Takes what a `langgraph.json` may name: a compiled graph, a graph to compile, a promise or a factory of either. */
export async function graphSource(
  graphId: string,
  graph: unknown,
): Promise<{ source: GraphSource; sample: CompiledGraph | undefined }> {
  if (typeof graph === "function") {
    const factory = graph as (config: RunConfig, runtime: object) => unknown;
    const source: GraphSource = async (config, context) => {
      const runtime = { accessContext: "threads.create_run", executionRuntime: { context } };
      return compiled(graphId, await factory(config, runtime));
    };
    return { source, sample: undefined };
  }
  const sample = compiled(graphId, await graph);
  return { source: () => sample, sample };
}

function compiled(graphId: string, graph: unknown): CompiledGraph {
  let found: unknown = graph;
  if (hasFunction(found, "compile")) found = (found as { compile(): unknown }).compile();
  // `createAgent` of LangChain wraps its graph, and looks like a compiled graph itself.
  const inner = typeof found === "object" && found !== null ? (found as { graph?: unknown }).graph : undefined;
  if (isCompiled(inner)) found = inner;
  if (!isCompiled(found)) {
    throw new RunnerError(
      "config",
      `agents.${graphId}: is not a LangGraph graph. Export a compiled graph, a StateGraph, or a function that returns one.`,
    );
  }
  snapshotDeltaChannels(found, new Set());
  return found;
}

export function isGraph(value: unknown): boolean {
  return hasFunction(value, "compile") || isCompiled(value) || isCompiled((value as { graph?: unknown } | null)?.graph);
}

function isCompiled(value: unknown): value is CompiledGraph {
  return (
    hasFunction(value, "stream") &&
    hasFunction(value, "getState") &&
    (value as { lg_is_pregel?: unknown }).lg_is_pregel === true
  );
}

function hasFunction(value: unknown, name: string): boolean {
  return typeof value === "object" && value !== null && typeof (value as Record<string, unknown>)[name] === "function";
}

/**
 * A DeltaChannel is rebuilt from the writes of all its ancestors. The plane hands out the newest checkpoint and not the whole line, so such a
 * channel writes its full value whenever it changed; content addressing keeps that cheap where it did not.
 */
function snapshotDeltaChannels(graph: CompiledGraph, seen: Set<CompiledGraph>): void {
  if (seen.has(graph)) return;
  seen.add(graph);
  for (const channel of Object.values(graph.channels) as { lc_graph_name?: string; snapshotFrequency?: number }[]) {
    if (isDelta(channel)) channel.snapshotFrequency = 1;
  }
  for (const [, subgraph] of graph.getSubgraphs()) snapshotDeltaChannels(subgraph as CompiledGraph, seen);
}

function isDelta(channel: { lc_graph_name?: string }): boolean {
  return channel.lc_graph_name === "DeltaChannel";
}
