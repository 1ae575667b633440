import type { NestedStates, NoStateYet, StateRead } from "../catalog/read-state.js";
import type { ThreadId } from "../domain/ids.js";
import { elementSlices, topLevelSlices } from "../domain/raw-json.js";
import type { StateView, ThreadHead } from "../store/state-views.js";

// Thread states as JSON text. What the agent's side sent is spliced in as it was received.

const q = JSON.stringify;

export function toWireCheckpoint(threadId: ThreadId, namespace: string, id: string): string {
  return `{"thread_id":${q(threadId)},"checkpoint_ns":${q(namespace)},"checkpoint_id":${q(id)},"checkpoint_map":null}`;
}

/** A state of the past, as it was. */
export function toWireState(threadId: ThreadId, view: StateView): string {
  return compose(threadId, view, topLevelSlices(view.view.toString()));
}

/** The state as it is now: a thread that is busy, or that waits for a person, shows it, whatever its last checkpoint says. */
export function toWireStateNow(threadId: ThreadId, read: StateRead | NoStateYet): string {
  if (read.view === null) {
    const members = new Map([["values", read.values?.toString() ?? "{}"]]);
    return compose(threadId, null, withHead(members, read.head, null));
  }
  const members = withNested(threadId, topLevelSlices(read.view.view.toString()), read.nested);
  return compose(threadId, read.view, read.head ? withHead(members, read.head, read.view) : members);
}

/** Tasks that are sub-graphs get the states of those, which are states like any other. */
function withNested(threadId: ThreadId, members: Map<string, string>, nested: NestedStates): Map<string, string> {
  if (nested.size === 0) return members;
  const tasks = elementSlices(members.get("tasks") ?? "[]").map((slice) => {
    const task = topLevelSlices(slice);
    const { checkpoint_ns: namespace } = (JSON.parse(task.get("checkpoint") ?? "null") ?? {}) as {
      checkpoint_ns?: string;
    };
    const view = namespace ? nested.get(namespace) : undefined;
    if (!view) return slice;
    const inner = withNested(threadId, topLevelSlices(view.view.toString()), nested);
    return textOf(task.set("state", compose(threadId, view, inner)));
  });
  return members.set("tasks", `[${tasks.join(",")}]`);
}

function textOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, value]) => `${q(name)}:${value}`).join(",")}}`;
}

function withHead(members: Map<string, string>, head: ThreadHead, view: StateView | null): Map<string, string> {
  // Accepted, and nothing written yet: the run's first task is its start. What the last run left open is no longer so.
  if (head.activeRunId !== null && view?.runId !== head.activeRunId) {
    return members.set("next", '["__start__"]').set("tasks", `[${task(head.activeRunId, "__start__", "[]")}]`);
  }
  const asked = interruptsOf(members.get("tasks")).length > 0;
  if (head.interrupts === null) {
    return asked ? members.set("tasks", withoutInterrupts(members.get("tasks") as string)) : members;
  }
  if (asked || head.activeRunId !== null) return members;
  // The state was edited while a question was open: the question still is.
  const name = head.graphId ?? "__start__";
  const tasks = [...topLevelSlices(head.interrupts.toString())].map(([id, interrupts]) => task(id, name, interrupts));
  if ((members.get("next") ?? "[]") === "[]") members.set("next", q([name]));
  return members.set("tasks", `[${tasks.join(",")}]`);
}

function task(id: string, name: string, interrupts: string): string {
  return `{"id":${q(id)},"name":${q(name)},"path":[],"error":null,"interrupts":${interrupts},"checkpoint":null,"state":null,"result":null}`;
}

function compose(threadId: ThreadId, view: StateView | null, members: ReadonlyMap<string, string>): string {
  const checkpoint = view ? toWireCheckpoint(threadId, view.namespace, view.id) : "null";
  const parent = view?.parentId ? toWireCheckpoint(threadId, view.namespace, view.parentId) : "null";
  return (
    `{"values":${members.get("values") ?? "{}"},"next":${members.get("next") ?? "[]"},"tasks":${members.get("tasks") ?? "[]"},` +
    `"metadata":${members.get("metadata") ?? "{}"},"created_at":${members.get("created_at") ?? "null"},"checkpoint":${checkpoint},` +
    `"parent_checkpoint":${parent},"interrupts":[${interruptsOf(members.get("tasks")).join(",")}]}`
  );
}

/** The interrupts of all tasks, each as it was written. */
function interruptsOf(tasks: string | undefined): string[] {
  return elementSlices(tasks ?? "[]").flatMap((slice) => {
    const interrupts = topLevelSlices(slice).get("interrupts");
    return interrupts?.startsWith("[") ? elementSlices(interrupts) : [];
  });
}

function withoutInterrupts(tasks: string): string {
  const kept = elementSlices(tasks).map((slice) => {
    const members = topLevelSlices(slice).set("interrupts", "[]");
    const state = members.get("state") ?? "null";
    if (state !== "null") {
      const inner = topLevelSlices(state);
      members.set(
        "state",
        textOf(inner.set("tasks", withoutInterrupts(inner.get("tasks") ?? "[]")).set("interrupts", "[]")),
      );
    }
    return textOf(members);
  });
  return `[${kept.join(",")}]`;
}
