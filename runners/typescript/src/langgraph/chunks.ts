import type { Execution } from "../agent.js";
import { describeFailure } from "../errors.js";
import { eventHead } from "../event-encoding.js";
import { Family, type Step } from "../generated/fairlead/runner/v1/runner.js";
import { messagesToJson } from "../json.js";
import { type OutgoingEvent, taken } from "../outbox.js";
import { endedStep, startedStep, stepEvent } from "../steps.js";
import type { CheckpointSender } from "./checkpoint-sender.js";
import { createMessageTranslator, type MessageTranslator } from "./graph-messages.js";
import type { FairleadSaver } from "./saver.js";
import { type CheckpointChunk, type ConfigLike, checkpointOf, type GraphTask, tasksJson, viewJson } from "./view.js";

// What LangGraph streams, as events. Order is LangGraph's own, with one exception: the state of a step is held until its checkpoint comes, which
// follows at once, because clients expect the checkpoint first.

const INTERRUPT = "__interrupt__";

export interface ChunkTranslator {
  /** Undefined when there is nothing to wait for, which is the usual case. */
  chunk(namespace: readonly string[], mode: string, payload: unknown): Promise<void> | undefined;
  /** An item of LangChain's own event stream, for the legacy mode `events`. */
  langchainEvent(event: unknown): void;
  /** Sends what is held; the stream has ended. */
  end(): void;
  /** Did the graph stop at an interrupt or a breakpoint? */
  readonly interrupted: boolean;
  /** The newest state of the thread, as JSON text; empty before the first. */
  readonly values: string;
  onStep(step: Step): void;
  stepOfTask(id: string): Step | undefined;
  readonly messages: MessageTranslator;
  /** What the last event waits for, if it waits. */
  room(): Promise<void> | undefined;
}

export interface ChunkOptions {
  readonly execution: Execution;
  readonly saver: FairleadSaver;
  readonly sender: CheckpointSender;
  readonly asked: ReadonlySet<string>;
}

export function createChunkTranslator({ execution, saver, sender, asked }: ChunkOptions): ChunkTranslator {
  const steps = new Map<string, Step>();
  // A message must not come before the state that it was made from.
  const messages = createMessageTranslator(asked, (event) => {
    releaseHeld();
    emit(event);
  });
  let interrupted = false;
  let values = "";
  /** A state whose checkpoint is expected next. */
  let held: { readonly json: string; readonly state: unknown } | undefined;
  /** What the last emit waits for; whoever handles the next chunk waits for it first. */
  let room: Promise<void> | undefined;

  function emit(event: OutgoingEvent): void {
    waitFor(sender.send([event]));
  }

  function waitFor(sent: Promise<void>): void {
    if (sent === taken) return;
    // Its error is met by whoever waits; nobody may be waiting yet.
    sent.catch(() => {});
    room = sent;
  }

  function head(family: Family, mode: string, namespace: readonly string[], node = ""): Uint8Array {
    return placedHead(family, asked.has(mode) ? mode : "", namespace, node);
  }

  function send(bytes: Uint8Array, body: string, legacyBody = ""): void {
    emit({ head: bytes, body, legacyBody: legacyBody === body ? "" : legacyBody, delta: false });
  }

  function chunk(namespace: readonly string[], mode: string, payload: unknown): Promise<void> | undefined {
    if (namespace.length > 0 || mode !== "checkpoints") releaseHeld();
    let waits: Promise<void> | undefined;
    if (mode === "values") onValues(namespace, payload);
    else if (mode === "updates") onUpdates(namespace, payload as Record<string, unknown>);
    else if (mode === "checkpoints") waits = onCheckpoint(namespace, payload as CheckpointChunk);
    else if (mode === "tasks") onTask(namespace, payload as GraphTask);
    else if (mode === "custom") onCustom(namespace, payload);
    else if (mode === "tools") onTool(namespace, payload as Record<string, unknown>);
    else if (mode === "debug") onDebug(namespace, payload as DebugChunk);
    if (waits === undefined && room === undefined) return undefined;
    const before = room;
    room = undefined;
    return Promise.all([before, waits]).then(() => {});
  }

  function onValues(namespace: readonly string[], payload: unknown): void {
    if (isInterrupt(payload)) {
      if (namespace.length === 0) interrupted = true;
      else send(head(Family.FAMILY_VALUES, "values", namespace), "", messagesToJson(payload, "values"));
      return;
    }
    const json = messagesToJson(payload, "values");
    if (namespace.length > 0) {
      send(head(Family.FAMILY_VALUES, "values", namespace), json);
      return;
    }
    values = json;
    held = { json, state: payload };
    execution.remember(json);
  }

  function releaseHeld(): void {
    if (held === undefined) return;
    const { json, state } = held;
    held = undefined;
    send(head(Family.FAMILY_VALUES, "values", []), json);
    messages.values(state);
  }

  function onUpdates(namespace: readonly string[], payload: Record<string, unknown>): void {
    if (INTERRUPT in payload) {
      if (namespace.length === 0) interrupted = true;
      if (asked.has("updates"))
        send(head(Family.FAMILY_UPDATES, "updates", namespace), "", messagesToJson(payload, "updates"));
      return;
    }
    const [node = "", ...more] = Object.keys(payload);
    const delta = messagesToJson(payload[node] ?? null, "updates");
    messages.nodeEnded(namespace, node);
    if (!asked.has("updates")) {
      send(head(Family.FAMILY_UPDATES, "", namespace, node), delta);
      return;
    }
    const legacy = more.length > 0 ? messagesToJson(payload, "updates") : `{${JSON.stringify(node)}:${delta}}`;
    send(head(Family.FAMILY_UPDATES, "updates", namespace, node), delta, legacy);
  }

  function onCheckpoint(namespace: readonly string[], payload: CheckpointChunk): Promise<void> | undefined {
    const id = payload.config.configurable?.["checkpoint_id"] as string;
    const parent = payload.parentConfig?.configurable?.["checkpoint_id"];
    const { source, step } = payload.metadata;
    const body = JSON.stringify({ id, parent_id: parent, step, source });
    const state = held?.json ?? messagesToJson(payload.values, "values");
    const legacyBody = asked.has("checkpoints")
      ? `{"values":${state},"metadata":${JSON.stringify(payload.metadata)},"next":${JSON.stringify(payload.next)}}`
      : "";
    const bytes = head(Family.FAMILY_CHECKPOINTS, "checkpoints", namespace);
    if (namespace.length > 0 || saver.isSeeded(id)) {
      if (namespace.length > 0 || legacyBody !== "") send(bytes, body, legacyBody);
      releaseHeld();
      return undefined;
    }
    // LangGraph saves the checkpoint at about the same time; what must be read of it now is read now, before the graph goes on.
    const { next } = payload;
    // The state of a thread that goes with its run is not kept, so it needs no view.
    const tasks = execution.assignment.ephemeral ? undefined : tasksJson(payload.tasks);
    return sender.saved(id).then((saved) => {
      if (saved) {
        const view = tasks === undefined ? "" : viewOf(id, state, next, tasks);
        waitFor(sender.complete(id, view, { head: bytes, body, legacyBody }));
      }
      releaseHeld();
    });
  }

  function viewOf(id: string, state: string, next: readonly string[], tasks: string): string {
    return viewJson({ values: state, next, tasks, metadata: saver.metadataTextOf(id), createdAt: saver.createdAt(id) });
  }

  function onTask(namespace: readonly string[], payload: GraphTask): void {
    const ending = "result" in payload || "error" in payload;
    const started = steps.get(payload.id);
    const step = ending && started !== undefined ? endOf(started, payload) : startOf(namespace, payload);
    steps.set(payload.id, step);
    if (!asked.has("tasks")) {
      emit(stepEvent(step));
      return;
    }
    const body = messagesToJson(withoutState(payload), "tasks");
    emit({ head: head(Family.FAMILY_TASKS, "tasks", namespace), body, legacyBody: "", delta: false, steps: [step] });
  }

  function startOf(namespace: readonly string[], { id, name }: GraphTask): Step {
    return startedStep({ id, kind: "node", name, parentId: parentOf(namespace), namespace });
  }

  function parentOf(namespace: readonly string[]): string {
    for (const part of namespace.toReversed()) {
      const id = part.slice(part.lastIndexOf(":") + 1);
      if (steps.has(id)) return id;
    }
    return "";
  }

  function onCustom(namespace: readonly string[], payload: unknown): void {
    const json = messagesToJson(payload ?? null, "custom");
    const named = typeof payload === "object" && payload !== null && !Array.isArray(payload) && "name" in payload;
    const body = named ? json : `{"payload":${json}}`;
    send(head(Family.FAMILY_CUSTOM, "custom", namespace), body, asked.has("custom") ? json : "");
  }

  function onTool(namespace: readonly string[], payload: Record<string, unknown>): void {
    const body = messagesToJson(toolEvent(payload), "tools");
    send(head(Family.FAMILY_TOOLS, "tools", namespace), body, messagesToJson(payload, "tools"));
  }

  function onDebug(namespace: readonly string[], debug: DebugChunk): void {
    if (!asked.has("debug")) return;
    const shown =
      debug.type === "checkpoint"
        ? debugCheckpoint(debug.payload as CheckpointChunk)
        : withoutState(debug.payload as GraphTask);
    send(head(Family.FAMILY_DEBUG, "debug", namespace), "", messagesToJson({ ...debug, payload: shown }, "debug"));
  }

  return {
    chunk,
    messages,
    room: () => {
      const waits = room;
      room = undefined;
      return waits;
    },
    langchainEvent: (event) => {
      let json: string;
      try {
        json = messagesToJson(event, "events");
      } catch {
        // Such events may hold whatever a chain passes around; what cannot be written is of no use to a client.
        return;
      }
      send(head(Family.FAMILY_CUSTOM, "events", []), "", json);
    },
    end: () => {
      releaseHeld();
      messages.end();
    },
    get interrupted() {
      return interrupted;
    },
    get values() {
      return values;
    },
    onStep: (step) => {
      steps.set(step.id, step);
      emit(stepEvent(step));
    },
    stepOfTask: (id) => steps.get(id),
  };
}

const heads = new Map<string, Uint8Array>();
const MAX_HEADS = 1_000;

/** Most runs of a process use the same few heads; those of sub-graphs hold task ids and are used by one run only. */
function placedHead(family: Family, mode: string, namespace: readonly string[], node: string): Uint8Array {
  if (namespace.length > 0) return eventHead({ family, mode, namespace, node });
  const key = `${family}|${mode}|${node}`;
  let bytes = heads.get(key);
  if (bytes === undefined) {
    if (heads.size >= MAX_HEADS) heads.clear();
    bytes = eventHead({ family, mode, node });
    heads.set(key, bytes);
  }
  return bytes;
}

interface DebugChunk {
  readonly type: "checkpoint" | "task" | "task_result";
  readonly payload: unknown;
}

function isInterrupt(payload: unknown): boolean {
  return typeof payload === "object" && payload !== null && INTERRUPT in payload && Object.keys(payload).length === 1;
}

function endOf(step: Step, task: GraphTask): Step {
  if (task.error !== undefined && task.error !== null) {
    const { type, message } = describeFailure(task.error);
    return endedStep(step, "error", { error: `${type}: ${message}` });
  }
  return endedStep(step, (task.interrupts?.length ?? 0) > 0 ? "interrupted" : "success");
}

/** A task that is a sub-graph shows where its state is, not the config that leads there. */
function withoutState(task: GraphTask): object {
  const checkpoint = checkpointOf(task.state as ConfigLike | undefined, false);
  if (checkpoint === null) return task;
  const { state: _state, ...rest } = task;
  return { ...rest, checkpoint };
}

function debugCheckpoint(payload: CheckpointChunk): object {
  const { parentConfig, ...rest } = payload;
  return {
    ...rest,
    config: publicConfig(payload.config),
    parent_config: parentConfig && publicConfig(parentConfig),
    checkpoint: checkpointOf(payload.config, true),
    parent_checkpoint: checkpointOf(parentConfig, true),
    tasks: payload.tasks.map(withoutState),
  };
}

/** Without what LangGraph passes to itself. */
function publicConfig({ callbacks: _callbacks, ...config }: ConfigLike): object {
  const configurable = Object.entries(config.configurable ?? {}).filter(([key]) => !key.startsWith("__"));
  return { ...config, configurable: Object.fromEntries(configurable) };
}

function toolEvent(payload: Record<string, unknown>): object {
  const tool_call_id = nameIn(payload["toolCallId"], "");
  switch (payload["event"]) {
    case "on_tool_start":
      return {
        event: "tool-started",
        tool_call_id,
        tool_name: nameIn(payload["name"], "unknown"),
        input: payload["input"],
      };
    case "on_tool_event":
      return { event: "tool-output-delta", tool_call_id, delta: textOf(payload["data"]) };
    case "on_tool_end":
      return { event: "tool-finished", tool_call_id, output: payload["output"] };
    default:
      return { event: "tool-error", tool_call_id, message: describeFailure(payload["error"]).message };
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? "");
}

function nameIn(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}
