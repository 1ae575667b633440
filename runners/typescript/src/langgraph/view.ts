import type { StateSnapshot } from "@langchain/langgraph";
import type { Interrupt } from "../generated/fairlead/runner/v1/runner.js";
import { messagesToJson } from "../json.js";

// The state of a thread as clients see it: {values, next, tasks, metadata, created_at}. Each checkpoint gets one. LangGraph tells it with every step
// on its own stream; only at an interrupt or an error it has to be asked again, because what happened after the step is part of it.

/** A task as LangGraph describes it, on its stream and in snapshots. */
export interface GraphTask {
  readonly id: string;
  readonly name: string;
  readonly path?: unknown;
  readonly error?: unknown;
  readonly interrupts?: readonly GraphInterruptInfo[];
  readonly state?: unknown;
  readonly result?: unknown;
}

export interface GraphInterruptInfo {
  readonly id?: string;
  readonly value?: unknown;
}

/** What LangGraph streams in mode `checkpoints`. */
export interface CheckpointChunk {
  readonly config: ConfigLike;
  readonly parentConfig?: ConfigLike;
  readonly values: unknown;
  readonly metadata: { readonly source?: string; readonly step?: number };
  readonly next: readonly string[];
  readonly tasks: readonly GraphTask[];
}

export interface ConfigLike {
  readonly configurable?: Record<string, unknown>;
  readonly [key: string]: unknown;
}

export interface ViewParts {
  /** JSON text. */
  readonly values: string;
  readonly next: readonly string[];
  /** From `tasksJson`. */
  readonly tasks: string;
  /** JSON text. */
  readonly metadata: string;
  readonly createdAt: string | undefined;
}

export function viewJson({ values, next, tasks, metadata, createdAt }: ViewParts): string {
  return `{"values":${values},"next":${JSON.stringify(next)},"tasks":${tasks},"metadata":${metadata},"created_at":${JSON.stringify(createdAt ?? null)}}`;
}

export function tasksJson(tasks: readonly GraphTask[]): string {
  return tasks.length === 0 ? "[]" : messagesToJson(tasks.map(taskView), "tasks");
}

function taskView(task: GraphTask): object {
  const error = task.error;
  return {
    id: task.id,
    name: task.name,
    error: error === undefined || error === null ? null : errorText(error),
    interrupts: task.interrupts ?? [],
    path: task.path ?? [],
    checkpoint: subgraphCheckpoint(task.state),
    state: null,
    result: task.result ?? null,
  };
}

function errorText(error: unknown): string {
  const { message } = error as { message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(error);
}

/** A task that is a sub-graph names the namespace under which its state can be asked for. */
function subgraphCheckpoint(state: unknown): object | null {
  const config = (isSnapshot(state) ? state.config : state) as ConfigLike | undefined;
  return config?.configurable ? checkpointOf(config, false) : null;
}

export function isSnapshot(state: unknown): state is StateSnapshot {
  return typeof state === "object" && state !== null && "values" in state && "next" in state;
}

/** The checkpoint that a config names, in the words of the Agent Protocol. */
export function checkpointOf(config: ConfigLike | undefined, needsId: boolean): Record<string, unknown> | null {
  const { thread_id, checkpoint_id, checkpoint_ns, checkpoint_map } = config?.configurable ?? {};
  if (typeof thread_id !== "string" || (needsId && typeof checkpoint_id !== "string")) return null;
  return {
    thread_id,
    checkpoint_id: checkpoint_id || null,
    checkpoint_ns: checkpoint_ns || "",
    checkpoint_map: checkpoint_map || null,
  };
}

/** Names the tasks of a checkpoint that have given their output. */
export type FinishedTasks = (namespace: string, checkpointId: string) => ReadonlySet<string>;

/** A state without the questions of tasks that have been answered since: LangGraph keeps showing them until the step is complete. */
export function withoutAnswered(state: StateSnapshot, finished: FinishedTasks): StateSnapshot {
  const { checkpoint_ns: namespace = "", checkpoint_id: id = "" } = (state.config.configurable ?? {}) as Record<
    string,
    string
  >;
  const done = finished(namespace, id);
  const tasks = state.tasks.map((task) => ({
    ...task,
    interrupts: done.has(task.id) ? [] : task.interrupts,
    ...(isSnapshot(task.state) && { state: withoutAnswered(task.state, finished) }),
  }));
  return { ...state, tasks };
}

/** Every question that is open in a state, those of sub-graphs under the namespace of the sub-graph. */
export function openInterrupts(state: Pick<StateSnapshot, "tasks">, namespace: readonly string[] = []): Interrupt[] {
  return (state.tasks as readonly GraphTask[]).flatMap((task) => {
    if (isSnapshot(task.state)) {
      const inner = openInterrupts(task.state, [...namespace, `${task.name}:${task.id}`]);
      if (inner.length > 0) return inner;
    }
    return (task.interrupts ?? []).map((interrupt) => ({
      id: interrupt.id ?? "",
      namespace: [...namespace],
      taskId: task.id,
      value: Buffer.from(messagesToJson(interrupt.value ?? null, "interrupt")),
    }));
  });
}
