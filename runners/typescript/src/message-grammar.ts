// The bodies of the `messages` family in the grammar of the thread stream: one message is a start, blocks that never interleave (start, deltas,
// finish), and a finish. The legacy bodies differ per framework and are made there.

export interface MessageBody {
  /** JSON text. */
  readonly body: string;
  /** A token delta, which may wait for company. */
  readonly delta: boolean;
}

export interface MessageMetadata {
  readonly [key: string]: string | number | boolean | undefined;
}

type Block =
  | { readonly type: "text" | "reasoning"; text: string }
  | { readonly type: "tool"; readonly key: number; id: string; name: string; args: string };

export interface OpenMessage {
  readonly id: string;
  /** Position of the open block. */
  index: number;
  block: Block | undefined;
}

export function startMessage(id: string, role: string, metadata?: MessageMetadata): [OpenMessage, MessageBody] {
  const body = JSON.stringify({ event: "message-start", id, role, metadata });
  return [
    { id, index: -1, block: undefined },
    { body, delta: false },
  ];
}

/** Opens a block of this type, if the message has none open. */
export function openBlock(message: OpenMessage, type: "text" | "reasoning"): MessageBody[] {
  const bodies: MessageBody[] = [];
  if (message.block?.type === type) return bodies;
  finishBlock(message, bodies);
  message.block = { type, text: "" };
  startBlock(message, { type, [type]: "" }, bodies);
  return bodies;
}

/** The next piece of the open block: JSON text of a delta. */
export function addText(message: OpenMessage, text: string): string {
  const block = message.block as { type: "text" | "reasoning"; text: string };
  const { type } = block;
  block.text += text;
  const delta = `{"type":"${type}-delta","${type}":${JSON.stringify(text)}}`;
  return `{"event":"content-block-delta","index":${message.index},"delta":${delta}}`;
}

export interface ToolCallPart {
  /** Which call of the message it belongs to. */
  readonly key: number;
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly args?: string | undefined;
}

export function addToolCall(message: OpenMessage, part: ToolCallPart): MessageBody[] {
  const bodies: MessageBody[] = [];
  let block = message.block;
  if (block?.type !== "tool" || block.key !== part.key) {
    finishBlock(message, bodies);
    block = { type: "tool", key: part.key, id: part.id ?? "", name: part.name ?? "", args: "" };
    message.block = block;
    startBlock(message, { type: "tool_call_chunk", id: block.id, name: block.name, args: "" }, bodies);
  }
  block.id ||= part.id ?? "";
  block.name ||= part.name ?? "";
  if (part.args !== undefined && part.args !== "") {
    block.args += part.args;
    const delta = { type: "tool-call-delta", args: part.args };
    bodies.push({ body: JSON.stringify({ event: "content-block-delta", index: message.index, delta }), delta: true });
  }
  return bodies;
}

export function finishMessage(message: OpenMessage, usage?: unknown): MessageBody[] {
  const bodies: MessageBody[] = [];
  finishBlock(message, bodies);
  bodies.push({ body: JSON.stringify({ event: "message-finish", usage: usage ?? undefined }), delta: false });
  return bodies;
}

function startBlock(message: OpenMessage, content: object, bodies: MessageBody[]): void {
  message.index += 1;
  bodies.push({ body: JSON.stringify({ event: "content-block-start", index: message.index, content }), delta: false });
}

function finishBlock(message: OpenMessage, bodies: MessageBody[]): void {
  const block = message.block;
  if (block === undefined) return;
  message.block = undefined;
  const content = block.type === "tool" ? toolCall(block) : { type: block.type, [block.type]: block.text };
  bodies.push({ body: JSON.stringify({ event: "content-block-finish", index: message.index, content }), delta: false });
}

function toolCall({ id, name, args }: { id: string; name: string; args: string }): object {
  try {
    return { type: "tool_call", id, name, args: JSON.parse(args === "" ? "{}" : args) };
  } catch {
    return { type: "invalid_tool_call", id, name, args, error: "The arguments are not JSON." };
  }
}
