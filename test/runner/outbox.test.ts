import { RunnerError } from "@fairlead/runner";
import fc from "fast-check";
import { expect, test } from "vitest";
import { eventHead } from "../../runners/typescript/src/event-encoding.js";
import {
  acknowledge,
  append,
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
import { type EventBatch, Family, Retention } from "../../src/generated/proto/fairlead/runner/v1/runner.js";

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
