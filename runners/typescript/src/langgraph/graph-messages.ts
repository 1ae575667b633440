import { eventHead } from "../event-encoding.js";
import { Family } from "../generated/fairlead/runner/v1/runner.js";
import { messagesToJson } from "../json.js";
import {
  addText,
  addToolCall,
  finishMessage,
  type MessageBody,
  type OpenMessage,
  openBlock,
  startMessage,
} from "../message-grammar.js";
import type { OutgoingEvent } from "../outbox.js";

// Out of a message or a piece of one, and the metadata of where it was made, come the v2 grammar, the legacy `messages-tuple` pair and the legacy
// `messages` events. A piece that is only text, as nearly all are, is written by hand: `toDict` costs ten times as much.

/** What is used of a LangChain message, without importing LangChain. */
export interface GraphMessage {
  readonly id?: string;
  readonly content: unknown;
  readonly name?: string;
  readonly additional_kwargs?: object;
  readonly response_metadata?: object;
  readonly tool_call_chunks?: readonly { index?: number; id?: string; name?: string; args?: string }[];
  readonly tool_calls?: readonly { id?: string; name: string; args: unknown }[];
  readonly invalid_tool_calls?: readonly unknown[];
  readonly usage_metadata?: unknown;
  concat?(other: GraphMessage): GraphMessage;
  getType(): string;
}

export type MessageMetadata = Record<string, unknown>;

interface Streaming {
  readonly open: OpenMessage;
  readonly namespace: readonly string[];
  readonly node: string;
  readonly heads: Heads;
  /** Everything of a text-only piece after its content. */
  readonly pieceEnd: string;
  usage: unknown;
}

interface Heads {
  readonly body: Uint8Array;
  readonly tuple: Uint8Array;
}

const roles: Record<string, string> = { ai: "ai", human: "human", system: "system" };
const partialHead = eventHead({ family: Family.FAMILY_MESSAGES, mode: "messages", name: "messages/partial" });
const metadataHead = eventHead({ family: Family.FAMILY_MESSAGES, mode: "messages", name: "messages/metadata" });
const completeHead = eventHead({ family: Family.FAMILY_MESSAGES, mode: "messages", name: "messages/complete" });

export interface MessageTranslator {
  /** A message or a piece of one. */
  message(namespace: readonly string[], message: GraphMessage, metadata: MessageMetadata): void;
  /** A piece from a sub-graph whose stream was not asked for: only the legacy mode `messages` shows it. */
  hiddenPiece(piece: GraphMessage, metadata: MessageMetadata): void;
  /** The node has ended, so what it streamed is complete. */
  nodeEnded(namespace: readonly string[], node: string): void;
  /** A state of the thread itself: its messages are complete. */
  values(values: unknown): void;
  /** The run has ended. */
  end(): void;
}

export function createMessageTranslator(
  asked: ReadonlySet<string>,
  emit: (event: OutgoingEvent) => void,
): MessageTranslator {
  const asTuple = asked.has("messages-tuple");
  const asMessages = asked.has("messages");
  const streaming = new Map<string, Streaming>();
  const completed = new Set<string>();
  /** All pieces so far by message; kept only for the legacy mode `messages`. */
  const wholes = new Map<string, GraphMessage>();
  const headsByPlace = new Map<string, Heads>();
  /** LangGraph passes the same object with every piece of a message. */
  const metadataJson = new WeakMap<MessageMetadata, string>();

  function message(namespace: readonly string[], piece: GraphMessage, metadata: MessageMetadata): void {
    const isPiece = typeof piece.concat === "function" && piece.tool_call_chunks !== undefined;
    if (isPiece && piece.id !== undefined) part(namespace, piece, piece.id, metadata);
    else whole(namespace, piece, metadata);
  }

  function part(namespace: readonly string[], piece: GraphMessage, id: string, metadata: MessageMetadata): void {
    let current = streaming.get(id);
    if (current === undefined) {
      current = begin(namespace, id, nodeOf(metadata), metadata);
      streaming.set(id, current);
    }
    if (piece.usage_metadata !== undefined) current.usage = piece.usage_metadata;
    const bodies = partBodies(current.open, piece);
    const last = bodies.pop();
    for (const body of bodies) send(current.heads.body, body);
    const legacyBody = asTuple ? pairJson(pieceJson(piece, current.pieceEnd), metadata) : "";
    if (last !== undefined || legacyBody !== "") {
      const head = asTuple ? current.heads.tuple : current.heads.body;
      emit({ head, body: last?.body ?? "", legacyBody, delta: last?.delta ?? true });
    }
    if (asMessages) grow(piece, id, metadata);
  }

  function grow(piece: GraphMessage, id: string, metadata: MessageMetadata): void {
    const before = wholes.get(id);
    if (before === undefined) {
      const { tags: _tags, name: _name, ...shown } = metadata;
      emit({ head: metadataHead, body: "", legacyBody: JSON.stringify({ [id]: { metadata: shown } }), delta: false });
    }
    const grown = before?.concat?.(piece) ?? piece;
    wholes.set(id, grown);
    emit({ head: partialHead, body: "", legacyBody: messagesToJson([grown], "messages"), delta: true });
  }

  function begin(namespace: readonly string[], id: string, node: string, metadata: MessageMetadata): Streaming {
    const heads = headsFor(namespace, node);
    const [open, start] = startMessage(id, "ai", startMetadata(metadata));
    send(heads.body, start);
    return { open, namespace, node, heads, pieceEnd: pieceEnd(id), usage: undefined };
  }

  /** A message that was not streamed: made by a node, or by a model that answers at once. */
  function whole(namespace: readonly string[], one: GraphMessage, metadata: MessageMetadata): void {
    const heads = headsFor(namespace, nodeOf(metadata));
    const legacyBody = asTuple ? pairJson(messagesToJson(one, "message"), metadata) : "";
    const role = roles[one.getType()];
    if (role === undefined || one.id === undefined) {
      if (legacyBody !== "") emit({ head: heads.tuple, body: "", legacyBody, delta: false });
      return;
    }
    const [open, start] = startMessage(one.id, role, startMetadata(metadata));
    emit({ head: asTuple ? heads.tuple : heads.body, body: start.body, legacyBody, delta: false });
    for (const { type, text } of textParts(one.content)) {
      for (const body of openBlock(open, type)) send(heads.body, body);
      send(heads.body, { body: addText(open, text), delta: false });
    }
    for (const [key, { id, name, args }] of (one.tool_calls ?? []).entries()) {
      for (const body of addToolCall(open, { key, id, name, args: JSON.stringify(args ?? {}) })) {
        send(heads.body, { ...body, delta: false });
      }
    }
    for (const body of finishMessage(open, one.usage_metadata)) send(heads.body, body);
  }

  function nodeEnded(namespace: readonly string[], node: string): void {
    if (streaming.size === 0) return;
    for (const [id, current] of streaming) {
      if (current.node === node && current.namespace.join("|") === namespace.join("|")) finish(id, current);
    }
  }

  function finish(id: string, current: Streaming): void {
    streaming.delete(id);
    for (const body of finishMessage(current.open, current.usage)) send(current.heads.body, body);
  }

  function values(state: unknown): void {
    if (!asMessages || typeof state !== "object" || state === null) return;
    const list = (state as { messages?: unknown }).messages;
    const messages = (Array.isArray(list) ? list : [list]) as (GraphMessage | undefined)[];
    const fresh = messages.filter((one) => one?.id !== undefined && !completed.has(one.id));
    if (fresh.length === 0) return;
    for (const one of fresh) completed.add(one!.id!);
    emit({ head: completeHead, body: "", legacyBody: messagesToJson(fresh, "messages"), delta: false });
  }

  function pairJson(pieceText: string, metadata: MessageMetadata): string {
    let text = metadataJson.get(metadata);
    if (text === undefined) {
      text = messagesToJson(metadata, "message metadata");
      metadataJson.set(metadata, text);
    }
    return `[${pieceText},${text}]`;
  }

  function headsFor(namespace: readonly string[], node: string): Heads {
    const key = `${namespace.join("|")}\n${node}`;
    let heads = headsByPlace.get(key);
    if (heads === undefined) {
      const place = { family: Family.FAMILY_MESSAGES, namespace, node };
      heads = { body: eventHead(place), tuple: eventHead({ ...place, mode: "messages-tuple", name: "messages" }) };
      headsByPlace.set(key, heads);
    }
    return heads;
  }

  function send(head: Uint8Array, { body, delta }: MessageBody): void {
    emit({ head, body, legacyBody: "", delta });
  }

  return {
    message,
    hiddenPiece: (piece, metadata) => {
      if (asMessages && piece.id !== undefined) grow(piece, piece.id, metadata);
    },
    nodeEnded,
    values,
    end: () => {
      for (const [id, current] of streaming) finish(id, current);
    },
  };
}

function partBodies(open: OpenMessage, piece: GraphMessage): MessageBody[] {
  const bodies: MessageBody[] = [];
  for (const { type, text } of textParts(piece.content)) {
    bodies.push(...openBlock(open, type), { body: addText(open, text), delta: true });
  }
  for (const { index = 0, id, name, args } of piece.tool_call_chunks ?? []) {
    bodies.push(...addToolCall(open, { key: index, id, name, args }));
  }
  return bodies;
}

function* textParts(content: unknown): Generator<{ type: "text" | "reasoning"; text: string }> {
  if (typeof content === "string") {
    if (content !== "") yield { type: "text", text: content };
    return;
  }
  if (!Array.isArray(content)) return;
  for (const block of content as Record<string, unknown>[]) {
    if (block["type"] === "text" && typeof block["text"] === "string") yield { type: "text", text: block["text"] };
    const reasoning = block["reasoning"] ?? block["thinking"];
    if (typeof reasoning === "string") yield { type: "reasoning", text: reasoning };
  }
}

/** Keys in the order of the official server. */
function pieceEnd(id: string): string {
  const rest = {
    tool_calls: [],
    additional_kwargs: {},
    invalid_tool_calls: [],
    tool_call_chunks: [],
    response_metadata: {},
  };
  return `,${JSON.stringify({ ...rest, id, type: "ai" }).slice(1)}`;
}

function pieceJson(piece: GraphMessage, end: string): string {
  const {
    content,
    name,
    additional_kwargs = {},
    response_metadata = {},
    tool_call_chunks = [],
    usage_metadata,
  } = piece;
  const onlyText =
    typeof content === "string" &&
    name === undefined &&
    usage_metadata === undefined &&
    tool_call_chunks.length === 0 &&
    (piece.tool_calls?.length ?? 0) === 0 &&
    (piece.invalid_tool_calls?.length ?? 0) === 0 &&
    isEmpty(additional_kwargs) &&
    isEmpty(response_metadata) &&
    piece.getType() === "ai";
  return onlyText ? `{"content":${JSON.stringify(content)}${end}` : messagesToJson(piece, "message");
}

function isEmpty(object: object): boolean {
  for (const _ in object) return false;
  return true;
}

function nodeOf(metadata: MessageMetadata): string {
  const node = metadata["langgraph_node"];
  return typeof node === "string" ? node : "";
}

function startMetadata({
  run_id,
  thread_id,
  ls_provider,
  ls_model_name,
}: MessageMetadata): Record<string, string | undefined> {
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  return { run_id: text(run_id), thread_id: text(thread_id), provider: text(ls_provider), model: text(ls_model_name) };
}
