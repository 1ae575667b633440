import { RunnerError } from "@fairlead/runner";
import fc from "fast-check";
import { expect, test } from "vitest";
import { eventHead } from "../../runners/typescript/src/event-encoding.js";
import {
  acknowledge,
  append,
  attachWrites,
  createOutbox,
  discard,
  emitted,
  isDrained,
  type Outbox,
  rewind,
  SOFT_LIMIT_BYTES,
  seal,
  tailOf,
  taken,
  whenRoom,
} from "../../runners/typescript/src/outbox.js";
import {
  type Checkpoint,
  type EventBatch,
  Family,
  type PendingWrite,
  Retention,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";

const head = eventHead({ family: Family.FAMILY_CUSTOM });
const ref = { tenantId: "t", runId: "r", generation: 1 };

function add(outbox: Outbox, delta = false, body = "{}"): void {
  append(outbox, { head, body, legacyBody: "", delta }, 1);
}

function countOf(batch: EventBatch): number {
  return batch.segments.reduce((sum, segment) => sum + segment.count, 0);
}

test("events are numbered from 1 without a gap, and a segment holds one retention class", () => {
  const outbox = createOutbox(ref);
  for (const delta of [false, true, true, false]) add(outbox, delta);
  seal(outbox);
  add(outbox);
  seal(outbox);
  expect(outbox.sealed.map(({ batch }) => [batch.first, batch.segments.map((s) => [s.retention, s.count])])).toEqual([
    [
      1,
      [
        [Retention.RETENTION_DURABLE, 1],
        [Retention.RETENTION_DELTA, 2],
        [Retention.RETENTION_DURABLE, 1],
      ],
    ],
    [5, [[Retention.RETENTION_DURABLE, 1]]],
  ]);
  expect(emitted(outbox)).toBe(5);
});

test("any mix of emitting, sealing, sending, acknowledging and rewinding keeps what follows the stored events contiguous", () => {
  const command = fc.oneof(
    fc.record({ do: fc.constant("add" as const), delta: fc.boolean() }),
    fc.record({ do: fc.constantFrom("seal" as const, "send" as const) }),
    fc.record({ do: fc.constantFrom("ack" as const, "rewind" as const), batches: fc.nat(5) }),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const outbox = createOutbox(ref);
      let stored = 0;
      for (const one of commands) {
        if (one.do === "add") add(outbox, one.delta);
        if (one.do === "seal") seal(outbox);
        if (one.do === "send") outbox.sent = outbox.sealed.length;
        if (one.do === "ack" || one.do === "rewind") {
          // A plane stores whole batches, and only those that it was sent.
          stored = outbox.sealed[Math.min(one.batches, outbox.sent) - 1]?.last ?? stored;
          if (one.do === "ack") acknowledge(outbox, stored);
          else expect([rewind(outbox, stored), outbox.sent]).toEqual([true, 0]);
        }
        let next = stored + 1;
        for (const { batch, last } of outbox.sealed) {
          expect(batch.first).toBe(next);
          next = last + 1;
        }
        expect(outbox.open?.first ?? outbox.next).toBe(next);
        expect(outbox.sent).toBeLessThanOrEqual(outbox.sealed.length);
        expect(outbox.bytes >= 0 && isDrained(outbox) === (outbox.bytes === 0)).toBe(true);
      }
      const tail = tailOf(outbox);
      expect(tail === undefined ? 0 : countOf(tail)).toBe(emitted(outbox) - stored);
      if (tail !== undefined) expect(tail.first).toBe(stored + 1);
    }),
  );
});

test("a plane that misses events which it had acknowledged is noticed", () => {
  const outbox = createOutbox(ref);
  for (let i = 0; i < 3; i += 1) {
    add(outbox);
    seal(outbox);
  }
  acknowledge(outbox, 2);
  expect(rewind(outbox, 1)).toBe(false);
  expect(rewind(outbox, 2)).toBe(true);
});

test("emitting waits above the soft limit until half of it was acknowledged", async () => {
  const outbox = createOutbox(ref);
  const body = JSON.stringify("x".repeat(100_000));
  while (outbox.bytes <= SOFT_LIMIT_BYTES) {
    expect(whenRoom(outbox)).toBe(taken);
    add(outbox, false, body);
    seal(outbox);
  }
  const room = whenRoom(outbox);
  let resolved = false;
  void room.then(() => {
    resolved = true;
  });
  acknowledge(outbox, 1);
  await Promise.resolve();
  expect(resolved).toBe(false);
  acknowledge(outbox, emitted(outbox));
  await room;
  expect(outbox.bytes).toBe(0);
});

test("emitting without ever waiting is refused before memory ends, and the message says what to do", () => {
  const outbox = createOutbox(ref);
  const body = JSON.stringify("x".repeat(8 * 1024 * 1024));
  expect(() => {
    for (let i = 0; i < 20; i += 1) add(outbox, false, body);
  }).toThrow(/Await the promises that emit\(\) returns/);
  expect(outbox.bytes).toBeLessThan(80 * 1024 * 1024);
});

test("an outbox that was discarded holds nothing and takes nothing", () => {
  const outbox = createOutbox(ref);
  add(outbox);
  seal(outbox);
  add(outbox);
  discard(outbox, new RunnerError("superseded", "gone"));
  expect([outbox.bytes, outbox.sealed.length, tailOf(outbox)]).toEqual([0, 0, undefined]);
  expect(() => add(outbox)).toThrow("gone");
});

const checkpoint = (id: string, parentId: string): Checkpoint => ({
  ...{ namespace: "", id, parentId, lineage: "test", schemaVersion: 1, step: 0, head: Buffer.from("{}") },
  ...{ metadata: Buffer.from("{}"), channels: [], view: Buffer.from("{}"), writes: [] },
});
const writes = (checkpointId: string, ...taskIds: string[]): PendingWrite[] =>
  taskIds.map((taskId) => {
    return { namespace: "", checkpointId, taskId, index: 0, channel: "x", type: "json", data: Buffer.from("1") };
  });

function put(outbox: Outbox, id: string, parentId: string, pending: PendingWrite[] = []): void {
  const event = { head, body: "", legacyBody: "", delta: false };
  append(outbox, { ...event, checkpoints: [checkpoint(id, parentId)], writes: pending }, 1);
}

const told = ({ batch }: { batch: EventBatch }): string[][] => [
  batch.checkpoints.map(({ id }) => id),
  batch.writes.map(({ checkpointId, taskId }) => `${checkpointId} ${taskId}`),
];

test("pending writes whose superstep was over before they left are not sent, also when they come late, and cost no room", () => {
  const outbox = createOutbox(ref);
  put(outbox, "a", "", writes("a", "early"));
  attachWrites(outbox, writes("a", "next"));
  put(outbox, "b", "a");
  attachWrites(outbox, writes("a", "late"));
  attachWrites(outbox, writes("b", "open"));
  seal(outbox);
  expect(outbox.sealed.map(told)).toEqual([[["a", "b"], ["b open"]]]);
  acknowledge(outbox, emitted(outbox));
  expect(outbox.bytes).toBe(0);
  const event = { head, body: "", legacyBody: "", delta: false };
  append(outbox, { ...event, writes: writes("a", "very late") }, 1);
  seal(outbox);
  expect(outbox.sealed.map(told)).toEqual([[[], []]]);
});

test("once some writes of a checkpoint may have left, all the others are sent too", () => {
  const outbox = createOutbox(ref);
  put(outbox, "a", "", writes("a", "gone"));
  seal(outbox);
  attachWrites(outbox, writes("a", "nowhere to go"));
  const event = { head, body: "", legacyBody: "", delta: false };
  append(outbox, { ...event, writes: writes("a", "kept") }, 1);
  put(outbox, "b", "a");
  seal(outbox);
  expect(outbox.sealed.map(told)).toEqual([
    [["a"], ["a gone"]],
    [["b"], ["a kept"]],
  ]);
});

test("what ends a run that leaves nothing behind carries its events and steps, and no checkpoint", () => {
  const outbox = createOutbox(ref);
  put(outbox, "a", "", writes("a", "t"));
  seal(outbox);
  put(outbox, "b", "c");
  const last = tailOf(outbox, true)!;
  expect([countOf(last), last.checkpoints, last.writes, last.blobs]).toEqual([2, [], [], []]);
  // The same events once more, for somebody who may have to go on.
  const whole = tailOf(outbox)!;
  expect([countOf(whole), whole.checkpoints.map(({ id }) => id), whole.writes.length]).toEqual([2, ["a", "b"], 1]);
});
