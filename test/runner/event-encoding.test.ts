import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeEvents, eventHead, MAX_EVENT_BYTES, queueEvent } from "../../runners/typescript/src/event-encoding.js";
import { type Event, EventList, Family } from "../../src/generated/proto/fairlead/runner/v1/runner.js";

const text = fc.string({ unit: "grapheme", maxLength: 300 });

const events = fc.array(
  fc.record({
    family: fc.integer({ min: 1, max: 13 }),
    mode: text,
    name: text,
    namespace: fc.array(text, { maxLength: 4 }),
    node: text,
    body: text,
    legacyBody: text,
    timeMs: fc.integer({ min: 1, max: 2 ** 45 }),
  }),
  { minLength: 1, maxLength: 20 },
);

test("what is encoded by hand is what the generated code decodes", () => {
  fc.assert(
    fc.property(events, (list) => {
      const queued = list.map(({ body, legacyBody, timeMs, ...kind }) => {
        return queueEvent(eventHead(kind as { family: Family }), body, legacyBody, timeMs);
      });
      const decoded = EventList.decode(encodeEvents(queued)).events;
      expect(decoded).toHaveLength(list.length);
      for (const [index, { body, legacyBody, ...rest }] of list.entries()) {
        expect(decoded[index]).toMatchObject({ ...rest, body: Buffer.from(body), legacyBody: Buffer.from(legacyBody) });
      }
      // And the other way round: not one byte more.
      expect(EventList.encode({ events: decoded }).finish().length).toBe(encodeEvents(queued).length);
    }),
  );
});

test("bodies of several sizes around the limits of a varint keep their length", () => {
  for (const size of [0, 1, 127, 128, 16_383, 16_384, 70_000]) {
    const body = "x".repeat(size);
    const bytes = encodeEvents([queueEvent(eventHead({ family: Family.FAMILY_CUSTOM }), body, body, 1)]);
    const [event] = EventList.decode(bytes).events as [Event];
    expect([event.body.length, event.legacyBody.length]).toEqual([size, size]);
  }
});

test("an event above 16 MiB is refused, with its size and the limit", () => {
  const head = eventHead({ family: Family.FAMILY_CUSTOM });
  expect(() => queueEvent(head, "x".repeat(MAX_EVENT_BYTES), "", 1)).not.toThrow();
  // Two bytes each: the limit is on bytes, not on characters.
  expect(() => queueEvent(head, "é".repeat(MAX_EVENT_BYTES / 2 + 1), "", 1)).toThrow(/16777218 bytes.*16777216/);
});
