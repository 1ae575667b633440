// How LangChain messages are written: for clients as `{content, id, …, type}`, for checkpoints in LangChain's own `{"lc": 1}` form. Both come from
// `toJSON`, which is slow, and a state of many messages is written with every step although only its end changes. So what was written of a text
// message is kept as long as nothing of it was replaced. Nothing of LangChain is imported: messages are known by what they can do.

export interface MessageLike {
  toDict(): { type: string; data: Record<string, unknown> };
  toJSON(): { kwargs?: Record<string, unknown> };
  getType(): string;
}

export function isMessage(value: object): value is MessageLike {
  return typeof (value as Partial<MessageLike>).toDict === "function";
}

interface Written {
  readonly fields: readonly unknown[];
  readonly lc: { kwargs?: Record<string, unknown> };
  dict: string | undefined;
  stored: string | undefined;
}

const written = new WeakMap<object, Written>();

/** For clients. `stringify` writes what is not a message. */
export function messageDict(message: MessageLike, stringify: (value: unknown) => string): string {
  const kept = writtenOf(message);
  kept.dict ??= stringify({ ...kept.lc.kwargs, type: message.getType() });
  return kept.dict;
}

/** For checkpoints. */
export function storedMessage(message: MessageLike, replacer: (key: string, value: unknown) => unknown): string {
  const kept = writtenOf(message);
  kept.stored ??= JSON.stringify(kept.lc, replacer);
  return kept.stored;
}

function writtenOf(message: MessageLike): Written {
  const fields = fieldsOf(message);
  const before = written.get(message);
  if (before?.fields.every((field, index) => field === fields[index])) return before;
  const now: Written = { fields, lc: message.toJSON(), dict: undefined, stored: undefined };
  // Lists of blocks are often changed in place, which comparing them would not show.
  if (typeof fields[0] === "string") written.set(message, now);
  return now;
}

function fieldsOf(message: object): unknown[] {
  const fields = message as Record<string, unknown>;
  const calls = fields["tool_calls"];
  return [
    fields["content"],
    fields["id"],
    fields["name"],
    fields["additional_kwargs"],
    fields["response_metadata"],
    fields["usage_metadata"],
    fields["artifact"],
    fields["status"],
    calls,
    Array.isArray(calls) ? calls.length : 0,
  ];
}
