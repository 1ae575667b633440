import { createHash } from "node:crypto";
import { z } from "zod";
import { DomainError, invalidInput, notSupported } from "../domain/errors.js";
import { isUuid, type RunId, type ThreadId } from "../domain/ids.js";
import { topLevelSlices } from "../domain/raw-json.js";
import type { CreateRun } from "../runs/create-run.js";
import { parseWith, storableJson } from "./json-body.js";

// What clients send to create a run. Every known field is honoured, or refused with 422 when set to something that is not built; its default, null and
// unknown keys are accepted, because the SDKs send them.

export const streamModes = [
  "values",
  "updates",
  "messages",
  "messages-tuple",
  "custom",
  "debug",
  "tasks",
  "checkpoints",
  "events",
  "tools",
] as const;

const nullable = <T extends z.ZodType>(type: T) => type.nullish();
const jsonObject = z.record(z.string(), z.unknown());
const nodes = z.union([z.literal("*"), z.array(z.string().max(200)).max(1_000)]);
const modes = z.union([z.enum(streamModes), z.array(z.enum(streamModes))]);

const schema = z.object({
  assistant_id: z.string().min(1).max(200),
  input: z.unknown().optional(),
  command: nullable(
    z.object({ resume: z.unknown().optional(), update: z.unknown().optional(), goto: z.unknown().optional() }),
  ),
  config: nullable(
    z.looseObject({
      configurable: nullable(jsonObject),
      tags: nullable(z.array(z.string())),
      recursion_limit: nullable(z.number().int().positive()),
    }),
  ),
  context: nullable(z.unknown()),
  metadata: nullable(jsonObject),
  checkpoint: nullable(
    z.looseObject({
      thread_id: nullable(z.string()),
      checkpoint_id: nullable(z.string().max(200)),
      checkpoint_ns: nullable(z.string()),
    }),
  ),
  checkpoint_id: nullable(z.string().max(200)),
  stream_mode: nullable(modes),
  stream_subgraphs: nullable(z.boolean()),
  stream_resumable: nullable(z.boolean()),
  interrupt_before: nullable(nodes),
  interrupt_after: nullable(nodes),
  multitask_strategy: nullable(z.enum(["enqueue", "reject", "interrupt", "rollback"])),
  on_disconnect: nullable(z.enum(["continue", "cancel"])),
  on_completion: nullable(z.enum(["delete", "keep"])),
  if_not_exists: nullable(z.enum(["create", "reject"])),
  after_seconds: nullable(
    z
      .number()
      .min(0)
      .max(30 * 86_400),
  ),
  webhook: nullable(z.string()),
  durability: nullable(z.enum(["sync", "async", "exit"])),
  checkpoint_during: nullable(z.boolean()),
  feedback_keys: nullable(z.array(z.string())),
  strict_resume: nullable(z.boolean()),
  run_id: nullable(z.string()),
  thread_id: nullable(z.string()),
});

export interface RunRequest extends Omit<CreateRun, "agent"> {
  readonly assistantId: string;
}

export interface RunRequestFrame {
  /** The thread of the path; null on the stateless routes. */
  readonly threadId: ThreadId | null;
  /** The route's pattern: the same body on another route is another request. */
  readonly route: string;
  readonly idempotencyKey: string | null;
  readonly traceparent: string | null;
}

/** Parses the body of a run creation. `text` is the body as received: its members are kept byte for byte. */
export function parseRunRequest(text: string, body: unknown, frame: RunRequestFrame): RunRequest {
  const { idempotencyKey } = frame;
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new DomainError("INVALID_INPUT", "body: must be a JSON object");
  const given = parseWith(schema, body);

  if (given.multitask_strategy === "interrupt" || given.multitask_strategy === "rollback") {
    throw notSupported(
      "multitask_strategy",
      `"${given.multitask_strategy}" is not supported yet; use "enqueue" or "reject"`,
    );
  }
  if (given.webhook) throw notSupported("webhook", "webhooks are not supported yet");
  if (given.feedback_keys && given.feedback_keys.length > 0)
    throw notSupported("feedback_keys", "feedback is not supported yet");
  if (given.durability && given.durability !== "async")
    throw notSupported("durability", `"${given.durability}" is not supported yet; the default is "async"`);
  if (given.checkpoint_during === false) throw notSupported("checkpoint_during", "false is not supported yet");
  if (given.checkpoint?.checkpoint_ns)
    throw notSupported("checkpoint.checkpoint_ns", "a run starts from a checkpoint of the root graph");
  if (given.run_id && !isUuid(given.run_id)) throw invalidInput("run_id", "must be a UUID");
  if (given.thread_id && !isUuid(given.thread_id)) throw invalidInput("thread_id", "must be a UUID");
  // The normative protocol names the thread of a run in the body.
  const threadId = frame.threadId ?? ((given.thread_id?.toLowerCase() as ThreadId | undefined) || null);
  if (frame.threadId && given.thread_id && given.thread_id.toLowerCase() !== frame.threadId)
    throw invalidInput("thread_id", "is not the thread of the path; leave it out");
  const checkpointThread = given.checkpoint?.thread_id;
  if (threadId && checkpointThread && checkpointThread.toLowerCase() !== threadId)
    throw invalidInput("checkpoint.thread_id", "is another thread's; leave it out or use the thread's own checkpoint");
  if (idempotencyKey !== null && (idempotencyKey.length < 1 || idempotencyKey.length > 255))
    throw invalidInput("Idempotency-Key", "1 to 255 characters");

  const slices = topLevelSlices(text);
  const slice = (name: string): string | null => {
    const value = slices.get(name);
    return value === undefined || value === "null" ? null : value;
  };
  const resume = resumeOf(
    given.command?.resume,
    given.command !== null && given.command !== undefined && "resume" in given.command,
  );
  const checkpointId = given.checkpoint_id || given.checkpoint?.checkpoint_id;
  // `input: null` means "continue from there", and so does its absence.
  return {
    assistantId: given.assistant_id,
    threadId,
    runId: (given.run_id?.toLowerCase() as RunId | undefined) ?? null,
    idempotencyKey,
    requestHash: createHash("sha256")
      .update(`${frame.route} ${frame.threadId ?? ""}\n`)
      .update(text)
      .digest("hex"),
    ifThreadMissing: given.if_not_exists ?? "reject",
    strategy: given.multitask_strategy ?? "enqueue",
    resume: resume.kind,
    resumeIds: resume.ids,
    input: slice("input"),
    command: slice("command"),
    config: slice("config"),
    context: slice("context"),
    metadata: storableJson("metadata", slice("metadata") ?? "{}"),
    streamModes: given.stream_mode
      ? Array.isArray(given.stream_mode)
        ? given.stream_mode
        : [given.stream_mode]
      : ["values"],
    streamSubgraphs: given.stream_subgraphs ?? false,
    streamResumable: given.stream_resumable ?? false,
    interruptBefore: nodeList(given.interrupt_before),
    interruptAfter: nodeList(given.interrupt_after),
    onDisconnect: given.on_disconnect ?? "continue",
    onCompletion: given.on_completion ?? "delete",
    // A stateless run has nothing to start from: what the SDKs send along is not looked at.
    fromCheckpointId: threadId && checkpointId ? checkpointId : null,
    afterMs: given.after_seconds ? Math.round(given.after_seconds * 1000) : null,
    traceparent: traceparentPattern.test(frame.traceparent ?? "") ? frame.traceparent : null,
  };
}

const traceparentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** LangGraph's rule: an object whose keys are all interrupt ids answers by id, everything else is the one answer. */
function resumeOf(value: unknown, isGiven: boolean): { kind: CreateRun["resume"]; ids: string[] } {
  if (!isGiven || value === undefined || value === null) return { kind: null, ids: [] };
  if (typeof value === "object" && !Array.isArray(value)) {
    const keys = Object.keys(value);
    if (keys.length > 0 && keys.every((key) => /^[0-9a-f]{32}$/.test(key))) return { kind: "map", ids: keys };
  }
  return { kind: "one", ids: [] };
}

function nodeList(value: "*" | string[] | null | undefined): string[] {
  return value === "*" ? ["*"] : (value ?? []);
}
