import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { isCommand } from "@langchain/langgraph";
import type { GraphMessage, MessageMetadata, MessageTranslator } from "./graph-messages.js";

// Messages as they come into being, seen through LangChain's callbacks: pieces from models, whole ones from nodes. This follows LangGraph's own
// handler for stream mode `messages` step by step (StreamMessagesHandler of 1.7.3), with two differences: it is called in line and not through a
// queue and three web streams, which is what a token costs most; and it hears the models of sub-graphs too, whose pieces the legacy mode
// `messages` shows even when the stream of sub-graphs was not asked for.

type Metadata = Record<string, unknown> | undefined;
type Tags = readonly string[] | undefined;

interface Place {
  readonly namespace: readonly string[];
  readonly metadata: MessageMetadata;
  /** Part of a sub-graph whose stream was not asked for. */
  readonly hidden: boolean;
}

type MutableMessage = BaseMessage & { lc_kwargs: Record<string, unknown>; tool_call_id?: string };

interface LlmOutput {
  readonly generations?: readonly (readonly { readonly message?: unknown }[])[];
}

export interface MessageCallbacks {
  chatModelStart(runId: string, tags: Tags, metadata: Metadata, name: string | undefined): void;
  newToken(token: string, runId: string, fields: { chunk?: { message?: unknown } } | undefined): void;
  modelEnd(output: LlmOutput, runId: string): void;
  nodeStart(inputs: unknown, runId: string, tags: Tags, metadata: Metadata, name: string | undefined): void;
  nodeEnd(outputs: unknown, runId: string): void;
  failed(runId: string): void;
}

export function messageCallbacks(translator: MessageTranslator, subgraphs: boolean): MessageCallbacks {
  const places = new Map<string, Place>();
  const seen = new Set<string>();
  const streamed = new Set<string>();
  const stableIds = new Map<string, string>();

  function placeOf(tags: Tags, metadata: Metadata, name: string | undefined): Place | undefined {
    const at = metadata?.["langgraph_checkpoint_ns"] ?? metadata?.["checkpoint_ns"];
    if (typeof at !== "string" || at === "") return undefined;
    const namespace = graphNamespace(at, metadata!);
    return { namespace, metadata: { tags, name, ...metadata }, hidden: !subgraphs && namespace.length > 0 };
  }

  function emit(place: Place, message: MutableMessage, runId: string, dedupe = false, position?: number): void {
    if (dedupe && message.id !== undefined && seen.has(message.id)) return;
    const id = idFor(message, runId, position);
    if (id !== message.id) {
      message.id = id;
      message.lc_kwargs["id"] = id;
    }
    const one = message as unknown as GraphMessage;
    if (place.hidden) {
      // The node that runs the sub-graph will show the whole message as its own.
      translator.hiddenPiece(one, place.metadata);
      return;
    }
    seen.add(id);
    translator.message(place.namespace, one, place.metadata);
  }

  /** A model's pieces and its final message must have one id, whatever the provider says in between. */
  function idFor(message: MutableMessage, runId: string, position: number | undefined): string {
    if (message.getType() === "tool") return message.id ?? `run-${runId}-tool-${message.tool_call_id}`;
    if (position !== undefined) return message.id ?? `run-${runId}-out-${position}`;
    const own = message.id === `run-${runId}` ? undefined : message.id;
    const id = own ?? stableIds.get(runId) ?? `run-${runId}`;
    if (!stableIds.has(runId)) stableIds.set(runId, id);
    return id;
  }

  return {
    chatModelStart: (runId, tags, metadata, name) => {
      if (tags?.includes("langsmith:nostream") || tags?.includes("nostream")) return;
      const place = placeOf(tags, metadata, name);
      if (place !== undefined) places.set(runId, place);
    },
    newToken: (token, runId, fields) => {
      streamed.add(runId);
      const place = places.get(runId);
      if (place === undefined) return;
      const message = fields?.chunk?.message;
      emit(place, isMessage(message) ? message : (new AIMessageChunk({ content: token }) as MutableMessage), runId);
    },
    modelEnd: (output, runId) => {
      const place = places.get(runId);
      const message = output.generations?.[0]?.[0]?.message;
      if (place !== undefined && !place.hidden && !streamed.has(runId) && isMessage(message))
        emit(place, message, runId, true);
      places.delete(runId);
      streamed.delete(runId);
      stableIds.delete(runId);
    },
    nodeStart: (inputs, runId, tags, metadata, name) => {
      if (metadata === undefined || name !== metadata["langgraph_node"] || tags?.includes("langsmith:hidden")) return;
      const place = placeOf(tags, metadata, name);
      if (place === undefined || place.hidden) return;
      places.set(runId, place);
      // What a node was given, it has not made.
      for (const message of messagesIn(inputs)) if (message.id !== undefined) seen.add(message.id);
    },
    nodeEnd: (outputs, runId) => {
      const place = places.get(runId);
      places.delete(runId);
      if (place === undefined) return;
      let position = 0;
      for (const message of messagesMade(outputs)) {
        emit(place, message, runId, true, position);
        position += 1;
      }
    },
    failed: (runId) => {
      places.delete(runId);
      streamed.delete(runId);
      stableIds.delete(runId);
    },
  };
}

/** The graph that something ran in: its checkpoint namespace without the task itself, nor the tasks that called it through `task()`. */
export function graphNamespace(checkpointNamespace: string, metadata: Record<string, unknown>): string[] {
  const namespace = checkpointNamespace.split("|");
  let path = metadata["langgraph_path"];
  let tasks = 1;
  while (Array.isArray(path) && path[0] === "__pregel_push" && path[path.length - 1] === true) {
    tasks += 1;
    path = path[1];
  }
  return namespace.slice(0, Math.max(namespace.length - tasks, 0));
}

function isMessage(value: unknown): value is MutableMessage {
  return typeof value === "object" && value !== null && typeof (value as { getType?: unknown }).getType === "function";
}

function* messagesIn(inputs: unknown): Generator<MutableMessage> {
  if (typeof inputs !== "object" || inputs === null) return;
  for (const value of Object.values(inputs)) {
    if (isMessage(value)) yield value;
    else if (Array.isArray(value)) yield* value.filter(isMessage);
  }
}

/** In the update of a node: a message, a list, a state, a command, or a list that holds commands. */
function* messagesMade(output: unknown): Generator<MutableMessage> {
  if (isCommand(output)) yield* messagesMade(output.update);
  else if (isMessage(output)) yield output;
  else if (Array.isArray(output)) {
    const commands = output.some((item) => isCommand(item));
    for (const item of output as unknown[]) {
      if (commands) yield* messagesMade(item);
      else if (isMessage(item)) yield item;
    }
  } else if (typeof output === "object" && output !== null) {
    for (const value of Object.values(output)) {
      if (Array.isArray(value)) yield* messagesMade(value);
      else if (isMessage(value)) yield value;
    }
  }
}
