import { RunnerError } from "./errors.js";
import { encodeEvents, type QueuedEvent, queueEvent } from "./event-encoding.js";
import {
  type Blob,
  type Checkpoint,
  type EventBatch,
  type PendingWrite,
  Retention,
  type RunRef,
  type Segment,
  type Step,
} from "./generated/fairlead/runner/v1/runner.js";

// What one run wants to tell the plane, from the moment it was emitted until the plane has acknowledged it.
//
// Events are numbered 1, 2, 3, … within (run, generation) when they are emitted. They gather in an open batch; sealing fixes a batch for ever:
// a resend repeats the same bytes under the same numbers, so the plane can tell a repetition from news. Sealed batches stay until an
// acknowledgement covers them. `sent` counts those at the head of `sealed` that were written to the *current* stream; a new stream starts at 0.
//
// What is under way is measured in loads: an event is one, and a large event is as many as its bytes.

/** Above this, `emit` answers with a promise that waits until half of it was acknowledged. */
export const SOFT_LIMIT_BYTES = 1024 * 1024;
/** Above this, emitting fails: the code does not await its emits, and memory has an end. */
export const HARD_LIMIT_BYTES = 64 * 1024 * 1024;

/** A load of an event that is larger than most. */
const LOAD_BYTES = 256;

export interface OutgoingEvent {
  /** From `eventHead`. */
  readonly head: Uint8Array;
  /** JSON text; empty when there is none. */
  readonly body: string;
  readonly legacyBody: string;
  /** A token delta: it may wait for company and may be pruned after the run. Everything else leaves at once. */
  readonly delta: boolean;
  /** Code that awaits it may be held up until its batch has left. What a graph says cannot be: its callbacks would overtake what waits. */
  readonly paced?: boolean;
  readonly checkpoints?: readonly Checkpoint[];
  readonly writes?: readonly PendingWrite[];
  readonly blobs?: readonly Blob[];
  readonly steps?: readonly Step[];
}

/** What a write and a blob cost beside their data, about. */
const WRITE_BYTES = 100;
const BLOB_BYTES = 60;
/** A batch that has grown to this is closed before more is added, so that no message becomes much larger. */
const FULL_BATCH_BYTES = 1024 * 1024;

interface OpenSegment {
  readonly retention: Retention;
  readonly events: QueuedEvent[];
}

interface OpenBatch {
  readonly first: number;
  count: number;
  bytes: number;
  readonly segments: OpenSegment[];
  readonly checkpoints: Checkpoint[];
  readonly writes: PendingWrite[];
  readonly blobs: Blob[];
  readonly steps: Step[];
}

export interface SealedBatch {
  readonly batch: EventBatch;
  readonly last: number;
  readonly bytes: number;
  readonly load: number;
  /** On the monotone clock; 0 before the first sending. */
  sentAt: number;
}

export interface Outbox {
  readonly run: RunRef;
  /** The number of the next event. */
  next: number;
  /** The last number of which the plane said that it is stored. */
  acknowledged: number;
  readonly sealed: SealedBatch[];
  sent: number;
  open: OpenBatch | undefined;
  bytes: number;
  /** When the open batch must leave; on the monotone clock. */
  dueAt: number;
  /** When a batch of this run left last. */
  leftAt: number;
  /** Why no event is taken any more; made only for an event that comes in spite of it. */
  closed: (() => RunnerError) | undefined;
  /** Checkpoints that had a successor before the plane heard of them. */
  readonly outlived: Set<string>;
  room: Signal | undefined;
  /** Whoever fills the open batch waits here until it is sealed. */
  turn: Signal | undefined;
}

interface Signal {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export function createOutbox(run: RunRef): Outbox {
  return {
    run,
    next: 1,
    acknowledged: 0,
    sealed: [],
    sent: 0,
    open: undefined,
    bytes: 0,
    dueAt: Number.POSITIVE_INFINITY,
    leftAt: Number.NEGATIVE_INFINITY,
    closed: undefined,
    outlived: new Set(),
    room: undefined,
    turn: undefined,
  };
}

function openBatch(first: number): OpenBatch {
  return { first, count: 0, bytes: 0, segments: [], checkpoints: [], writes: [], blobs: [], steps: [] };
}

/** How many events were emitted so far. */
export function emitted(outbox: Outbox): number {
  return outbox.next - 1;
}

/** Adds writes to a batch that has not left yet, so that they need no event of their own. False when there is none. */
export function attachWrites(outbox: Outbox, writes: readonly PendingWrite[]): boolean {
  const batch = outbox.open;
  if (batch === undefined || outbox.closed !== undefined) return false;
  const bytes = addWrites(outbox, batch, writes);
  batch.bytes += bytes;
  outbox.bytes += bytes;
  return true;
}

/**
 * Pending writes say how far a superstep has come, in case its run is lost. Once the next checkpoint is there nobody needs them: where neither the
 * checkpoint nor its writes have left, the writes stay here, all of them, so that the plane never has a part.
 */
function outlive(outbox: Outbox, batch: OpenBatch, { namespace, parentId }: Checkpoint): void {
  if (!batch.checkpoints.some((one) => one.id === parentId && one.namespace === namespace)) return;
  outbox.outlived.add(nameOf(namespace, parentId));
  const { writes } = batch;
  let kept = 0;
  let bytes = 0;
  for (const write of writes) {
    if (write.checkpointId === parentId && write.namespace === namespace) bytes += write.data.length + WRITE_BYTES;
    else writes[kept++] = write;
  }
  writes.length = kept;
  batch.bytes -= bytes;
  outbox.bytes -= bytes;
}

/** Answers with their size. */
function addWrites(outbox: Outbox, batch: OpenBatch, writes: readonly PendingWrite[]): number {
  let bytes = 0;
  for (const write of writes) {
    if (outbox.outlived.size > 0 && outbox.outlived.has(nameOf(write.namespace, write.checkpointId))) continue;
    batch.writes.push(write);
    bytes += write.data.length + WRITE_BYTES;
  }
  return bytes;
}

function nameOf(namespace: string, checkpointId: string): string {
  return `${namespace}\0${checkpointId}`;
}

/** Appends an event to the open batch and gives it the next number. */
export function append(outbox: Outbox, event: OutgoingEvent, timeMs: number): void {
  if (outbox.closed !== undefined) throw outbox.closed();
  if (outbox.bytes > HARD_LIMIT_BYTES) {
    throw new RunnerError(
      "buffer_full",
      `${outbox.bytes} bytes of events wait to be sent. Await the promises that emit() returns: they wait until there is room.`,
    );
  }
  // Refuses what is too large before anything is changed.
  const queued = queueEvent(event.head, event.body, event.legacyBody, timeMs);
  if (outbox.open !== undefined && outbox.open.bytes > FULL_BATCH_BYTES) seal(outbox);
  outbox.open ??= openBatch(outbox.next);
  const batch = outbox.open;
  const retention = event.delta ? Retention.RETENTION_DELTA : Retention.RETENTION_DURABLE;
  const last = batch.segments[batch.segments.length - 1];
  if (last?.retention === retention) last.events.push(queued);
  else batch.segments.push({ retention, events: [queued] });
  let bytes = queued.bytes;
  batch.count += 1;
  outbox.next += 1;
  if (event.checkpoints !== undefined) for (const one of event.checkpoints) bytes += checkpointBytes(one);
  if (event.writes !== undefined) bytes += addWrites(outbox, batch, event.writes);
  if (event.blobs !== undefined) for (const one of event.blobs) bytes += one.data.length + BLOB_BYTES;
  if (event.checkpoints !== undefined) for (const one of event.checkpoints) addCheckpoint(outbox, batch, one);
  if (event.blobs !== undefined) batch.blobs.push(...event.blobs);
  if (event.steps !== undefined) batch.steps.push(...event.steps);
  batch.bytes += bytes;
  outbox.bytes += bytes;
}

function addCheckpoint(outbox: Outbox, batch: OpenBatch, checkpoint: Checkpoint): void {
  batch.checkpoints.push(checkpoint);
  if (checkpoint.parentId !== "") outlive(outbox, batch, checkpoint);
}

function checkpointBytes(checkpoint: Checkpoint): number {
  return checkpoint.head.length + checkpoint.metadata.length + checkpoint.view.length + checkpoint.channels.length * 60;
}

/** The answer to an event for which there is room: compare with it to save waiting. */
export const taken = Promise.resolve();

export function isCrowded(outbox: Outbox): boolean {
  return outbox.bytes > SOFT_LIMIT_BYTES;
}

/** Resolves when there is room for more; at once while the outbox is below its soft limit. */
export function whenRoom(outbox: Outbox): Promise<void> {
  if (!isCrowded(outbox)) return taken;
  outbox.room ??= createSignal();
  return outbox.room.promise;
}

function createSignal(): Signal {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Resolves when the open batch has left, or will never leave. */
export function whenSealed(outbox: Outbox): Promise<void> {
  outbox.turn ??= createSignal();
  return outbox.turn.promise;
}

/** Lets go on who waits for the open batch to leave. */
export function endTurn(outbox: Outbox): void {
  outbox.turn?.resolve();
  outbox.turn = undefined;
}

function loadOf(count: number, bytes: number): number {
  return Math.max(count, Math.ceil(bytes / LOAD_BYTES));
}

export function openLoad({ open }: Outbox): number {
  return open === undefined ? 0 : loadOf(open.count, open.bytes);
}

/** What was written to the current stream and is not acknowledged. */
export function underWay(outbox: Outbox): number {
  let load = 0;
  for (let at = 0; at < outbox.sent; at += 1) load += outbox.sealed[at]!.load;
  return load;
}

/** Fixes the open batch. Nothing is ever added to a sealed one. */
export function seal(outbox: Outbox): void {
  const open = outbox.open;
  if (open === undefined) return;
  outbox.open = undefined;
  outbox.dueAt = Number.POSITIVE_INFINITY;
  endTurn(outbox);
  const segments: Segment[] = open.segments.map(({ retention, events }) => ({
    retention,
    count: events.length,
    events: encodeEvents(events),
  }));
  const { first, checkpoints, writes, blobs, steps } = open;
  const batch: EventBatch = { run: outbox.run, first, segments, checkpoints, writes, blobs, steps };
  const { count, bytes } = open;
  outbox.sealed.push({ batch, last: first + count - 1, bytes, load: loadOf(count, bytes), sentAt: 0 });
}

/** Forgets what the plane has stored. */
export function acknowledge(outbox: Outbox, stored: number): void {
  if (stored <= outbox.acknowledged) return;
  outbox.acknowledged = stored;
  let covered = 0;
  for (const sealed of outbox.sealed) {
    if (sealed.last > stored) break;
    outbox.bytes -= sealed.bytes;
    covered += 1;
  }
  outbox.sealed.splice(0, covered);
  outbox.sent = Math.max(0, outbox.sent - covered);
  if (outbox.bytes <= SOFT_LIMIT_BYTES / 2) makeRoom(outbox);
}

/** Everything that is not acknowledged has to be sent again. False when the plane misses events that it had acknowledged before. */
export function rewind(outbox: Outbox, stored: number): boolean {
  if (stored < outbox.acknowledged) return false;
  acknowledge(outbox, stored);
  outbox.sent = 0;
  const first = outbox.sealed[0]?.batch.first ?? outbox.open?.first ?? outbox.next;
  return first === outbox.acknowledged + 1;
}

/** Is there anything that the plane has not acknowledged? */
export function isDrained(outbox: Outbox): boolean {
  return outbox.sealed.length === 0 && outbox.open === undefined;
}

/**
 * Everything unacknowledged as one batch, to travel with the report. Undefined when there is nothing. `isLast`: nobody continues from here, and nobody
 * can read the thread, so its checkpoints stay here.
 */
export function tailOf(outbox: Outbox, isLast = false): EventBatch | undefined {
  const tail = wholeTail(outbox);
  return tail && isLast ? { ...tail, checkpoints: [], writes: [], blobs: [] } : tail;
}

function wholeTail(outbox: Outbox): EventBatch | undefined {
  seal(outbox);
  const [only, ...more] = outbox.sealed;
  if (only === undefined) return undefined;
  if (more.length === 0) return only.batch;
  const all = outbox.sealed.map((sealed) => sealed.batch);
  return {
    run: outbox.run,
    first: only.batch.first,
    segments: all.flatMap((batch) => batch.segments),
    checkpoints: all.flatMap((batch) => batch.checkpoints),
    writes: all.flatMap((batch) => batch.writes),
    blobs: all.flatMap((batch) => batch.blobs),
    steps: all.flatMap((batch) => batch.steps),
  };
}

/** Takes no event any more; `why` is what a late emit throws. Whoever waits for room goes on and meets it there. */
export function close(outbox: Outbox, why: () => RunnerError): void {
  outbox.closed ??= why;
  endTurn(outbox);
  makeRoom(outbox);
}

/** Drops everything: nothing of this run may be sent any more. */
export function discard(outbox: Outbox, why: RunnerError): void {
  outbox.closed = () => why;
  endTurn(outbox);
  makeRoom(outbox);
  outbox.sealed.length = 0;
  outbox.sent = 0;
  outbox.open = undefined;
  outbox.bytes = 0;
  outbox.dueAt = Number.POSITIVE_INFINITY;
}

function makeRoom(outbox: Outbox): void {
  outbox.room?.resolve();
  outbox.room = undefined;
}
