import { ensureConfig } from "@langchain/core/runnables";
import { getConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { ChunkTranslator } from "./chunks.js";
import type { CompiledGraph } from "./graph.js";
import type { GraphConfig } from "./run-config.js";

// Three ways to hear what a graph does, the cheapest that serves. Messages and tool calls are heard through callbacks in all of them.
//
// 1. As the parent of the graph: LangGraph pushes what a sub-graph streams into the stream of its parent, synchronously. Standing in for a parent
//    saves the trip of each chunk through three web streams, 40 to 60 µs a chunk, and lets nothing lag behind the graph. As nothing is read, the
//    method that `stream` wraps is called itself, which saves two more web streams and two abort signals a run. The key is LangGraph's own
//    (CONFIG_KEY_STREAM) and the method LangChain's, so a small graph is tried once per process before it is relied upon.
// 2. `stream`, when the first does not work.
// 3. `streamEvents`, for the legacy mode `events`, which is LangChain's own.

export interface StreamRequest {
  readonly options: GraphConfig & {
    readonly signal: AbortSignal;
    readonly subgraphs: boolean;
    readonly callbacks?: object[];
  };
  readonly modes: ReadonlySet<string>;
  readonly withEvents: boolean;
  readonly chunks: Pick<ChunkTranslator, "chunk" | "langchainEvent">;
}

// The types of LangGraph follow the modes that are named in the call; here they come from the client.
interface LooseGraph {
  stream(input: unknown, options: object): Promise<AsyncIterable<unknown[]>>;
  _streamIterator(input: unknown, options: object): AsyncIterable<unknown>;
  streamEvents(input: unknown, options: object): AsyncIterable<unknown>;
}

export async function streamGraph(graph: CompiledGraph, input: unknown, request: StreamRequest): Promise<void> {
  const { modes, withEvents, options } = request;
  const loose = graph as unknown as LooseGraph;
  if (withEvents) return withLangChainEvents(loose, input, request);
  // With a checkpoint map LangGraph names the stream of an interrupt after the deepest sub-graph, if there is a parent.
  const mapped = options.configurable["checkpoint_map"] !== undefined;
  if (!mapped && (await pushesToParent())) return asParent(loose, input, request);
  const streamMode = [...modes];
  for await (const chunk of await loose.stream(input, { ...options, streamMode })) await handle(chunk, request);
}

function handle(chunk: unknown[], { chunks, options }: StreamRequest): Promise<void> | undefined {
  return options.subgraphs
    ? chunks.chunk(chunk[0] as string[], chunk[1] as string, chunk[2])
    : chunks.chunk([], chunk[0] as string, chunk[1]);
}

interface LangChainEvent {
  readonly event: string;
  readonly run_id: string;
  readonly tags?: readonly string[];
  readonly data: { readonly chunk: unknown[] };
}

async function withLangChainEvents(graph: LooseGraph, input: unknown, request: StreamRequest): Promise<void> {
  const { modes, options, chunks } = request;
  for await (const event of graph.streamEvents(input, { ...options, streamMode: [...modes], version: "v2" })) {
    const { event: name, run_id, data, tags } = event as LangChainEvent;
    if (tags?.includes("langsmith:hidden")) continue;
    if (name === "on_chain_stream" && run_id === options.runId) await handle(data.chunk, request);
    else chunks.langchainEvent(event);
  }
}

type Chunk = [namespace: readonly string[], mode: string, payload: unknown];

async function asParent(graph: LooseGraph, input: unknown, { options, modes, chunks }: StreamRequest): Promise<void> {
  let failure: Error | undefined;
  /** Chunks that came while an earlier one is waited for. */
  const queue: Chunk[] = [];
  let draining: Promise<void> | undefined;

  function push(chunk: Chunk): void {
    // Sub-graphs push here too. The stream of a run that did not ask for them does not have them.
    if (chunk[0].length > 0 && !options.subgraphs) return;
    // Thrown into LangGraph's loop, which ends the run with it.
    if (failure !== undefined) throw failure;
    if (draining !== undefined) {
      queue.push(chunk);
      return;
    }
    const waits = chunks.chunk(...chunk);
    if (waits !== undefined) draining = drain(waits);
  }

  async function drain(first: Promise<void>): Promise<void> {
    try {
      await first;
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await chunks.chunk(...next);
    } catch (error) {
      queue.length = 0;
      failure ??= error instanceof Error ? error : new Error(String(error));
    }
    draining = undefined;
  }

  const parent = { modes, push };
  const writer = (payload: unknown): void => push([options.subgraphs ? callerNamespace() : [], "custom", payload]);
  const configurable = { ...options.configurable, __pregel_stream: parent };
  try {
    await runThrough(graph, input, { ...options, configurable, writer });
  } finally {
    await draining;
  }
  if (failure !== undefined) throw failure;
}

/** It yields nothing to a parent's child, but ends when the graph does. */
async function runThrough(graph: LooseGraph, input: unknown, options: object): Promise<void> {
  const { recursionLimit } = (graph as { config?: { recursionLimit?: number } }).config ?? {};
  const config = ensureConfig({ recursionLimit, ...options, streamMode: ["custom"] } as object);
  for await (const _ of graph._streamIterator(input, config));
}

/** The graph in which the node runs that writes just now. */
function callerNamespace(): string[] {
  const namespace: unknown = getConfig()?.configurable?.["checkpoint_ns"];
  return typeof namespace === "string" ? namespace.split("|").slice(0, -1) : [];
}

let tried: Promise<boolean> | undefined;

function pushesToParent(): Promise<boolean> {
  tried ??= tryParent().catch(() => false);
  return tried;
}

async function tryParent(): Promise<boolean> {
  const seen: string[] = [];
  const parent = { modes: new Set(["values", "updates", "tasks"]), push: ([, mode]: Chunk) => seen.push(mode) };
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("node", (_state, config) => {
      config.writer?.("written");
      return { messages: [] };
    })
    .addEdge(START, "node")
    .compile();
  const writer = (): void => void seen.push("custom");
  await runThrough(
    graph as unknown as LooseGraph,
    { messages: [] },
    {
      configurable: { __pregel_stream: parent },
      writer,
    },
  );
  return ["values", "updates", "tasks", "custom"].every((mode) => seen.includes(mode));
}
