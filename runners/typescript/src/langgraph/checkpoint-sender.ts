import type { Execution } from "../agent.js";
import type { PendingWrite, Step } from "../generated/fairlead/runner/v1/runner.js";
import { type OutgoingEvent, taken } from "../outbox.js";
import { bare, type Cargo, cargoEvents } from "./checkpoint-wire.js";
import type { SaverHooks } from "./saver.js";

// Carries checkpoints to the plane, each as soon as it is complete.
//
// A checkpoint of a sub-graph is complete when LangGraph saves it. One of the thread itself still lacks its view, which LangGraph tells a moment
// later on its stream: it waits for that, and the writes of its tasks wait behind it, so that the plane never sees a write before its checkpoint.
//
// One sender per run sends one thing after the other: a checkpoint with large blobs is many events, and nothing may come between them.

export interface CheckpointSender extends SaverHooks {
  /** Is the checkpoint saved and not sent yet? Resolves when it is saved; false when nobody will save it. */
  saved(id: string): Promise<boolean>;
  isWaiting(): boolean;
  waitingIds(): string[];
  /** Sends a checkpoint of the thread itself, complete with its view, on an event with these bodies. */
  complete(id: string, view: string, event: Pick<OutgoingEvent, "head" | "body" | "legacyBody">): Promise<void>;
  /** Sends something else in its turn. */
  send(events: readonly OutgoingEvent[]): Promise<void>;
  /** Nothing more will be saved. */
  end(): void;
  /** Resolves when everything has been handed over; rejects when something was refused. */
  settled(): Promise<void>;
}

export function createCheckpointSender(
  execution: Execution,
  toWire: (id: string, view: string) => Cargo["checkpoint"],
  stepOfNamespace: (namespace: string) => Step | undefined,
): CheckpointSender {
  const waiting = new Map<string, { cargo: Cargo; writes: PendingWrite[] }>();
  const expected = new Map<string, (saved: boolean) => void>();
  let ended = false;
  let last: Promise<void> = Promise.resolve();
  let busy = 0;
  let refused: Error | undefined;

  function send(events: readonly OutgoingEvent[]): Promise<void> {
    const [only, ...more] = events;
    if (only === undefined) return taken;
    // The usual case, a single event with nothing before it, goes without a detour, so that it shares the batch of this turn.
    if (busy === 0 && more.length === 0) {
      const sent = execution.emit(only);
      if (sent !== taken) sent.catch(refuse);
      return sent;
    }
    busy += 1;
    const sent = last.then(async () => {
      for (const event of events) await execution.emit(event);
    });
    last = sent.catch(refuse).finally(() => {
      busy -= 1;
    });
    return sent;
  }

  function refuse(error: unknown): void {
    refused ??= error instanceof Error ? error : new Error(String(error));
  }

  function onCheckpoint(namespace: string, id: string, cargo: Cargo): Promise<void> {
    if (namespace !== "") {
      const step = stepOfNamespace(namespace);
      const events = cargoEvents(cargo);
      const final = events.pop()!;
      return send([...events, step === undefined ? final : { ...final, steps: [step] }]);
    }
    waiting.set(id, { cargo, writes: [] });
    expected.get(id)?.(true);
    expected.delete(id);
    return taken;
  }

  function onWrites(namespace: string, checkpointId: string, writes: PendingWrite[]): Promise<void> {
    const held = namespace === "" ? waiting.get(checkpointId) : undefined;
    if (held !== undefined) {
      held.writes.push(...writes);
      return taken;
    }
    if (busy === 0 && execution.attachWrites(writes)) return taken;
    return send([{ ...bare, delta: false, writes }]);
  }

  function saved(id: string): Promise<boolean> {
    if (waiting.has(id)) return Promise.resolve(true);
    if (ended) return Promise.resolve(false);
    return new Promise((resolve) => expected.set(id, resolve));
  }

  function complete(
    id: string,
    view: string,
    event: Pick<OutgoingEvent, "head" | "body" | "legacyBody">,
  ): Promise<void> {
    const held = waiting.get(id);
    waiting.delete(id);
    const checkpoint = toWire(id, view);
    const cargo = { checkpoint, blobs: held?.cargo.blobs ?? [], writes: held?.writes ?? [] };
    return send(cargoEvents(cargo, event));
  }

  return {
    onCheckpoint,
    onWrites,
    saved,
    isWaiting: () => waiting.size > 0,
    waitingIds: () => [...waiting.keys()],
    complete,
    send,
    end: () => {
      ended = true;
      for (const resolve of expected.values()) resolve(false);
      expected.clear();
    },
    settled: async () => {
      while (busy > 0) await last;
      if (refused !== undefined) throw refused;
    },
  };
}
