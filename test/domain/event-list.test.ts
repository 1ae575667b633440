import fc from "fast-check";
import { expect, test } from "vitest";
import { walkEvents } from "../../src/domain/event-list.js";
import { Event, EventList } from "../../src/generated/proto/fairlead/runner/v1/runner.js";

const anEvent = fc.record({
  family: fc.integer({ min: 0, max: 13 }),
  mode: fc.constantFrom("", "values", "messages-tuple", "custom"),
  name: fc.constantFrom("", "messages", "messages/partial"),
  namespace: fc.array(fc.string(), { maxLength: 3 }),
  node: fc.string(),
  body: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  legacyBody: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  timeMs: fc.integer({ min: 0, max: 2 ** 45 }),
});

test("walking a list sees what a protobuf decoder sees", () => {
  fc.assert(
    fc.property(fc.array(anEvent, { maxLength: 20 }), (events) => {
      const bytes = EventList.encode({ events: events.map((event) => Event.create(event as Partial<Event>)) }).finish();
      const seen: unknown[] = [];
      const count = walkEvents(bytes, (view) => {
        seen.push({
          family: view.family,
          mode: view.mode,
          name: view.name,
          namespace: [...view.namespace],
          node: view.node,
          body: Buffer.from(bytes.subarray(view.bodyStart, view.bodyEnd)),
          legacyBody: Buffer.from(bytes.subarray(view.legacyStart, view.legacyEnd)),
          timeMs: view.timeMs,
        });
      });
      expect(count).toBe(events.length);
      expect(seen).toEqual(events);
    }),
  );
});

test("two lists one after the other are one list", () => {
  const list = (name: string) => EventList.encode({ events: [Event.create({ name })] }).finish();
  const names: string[] = [];
  expect(walkEvents(Buffer.concat([list("a"), list("b")]), (view) => names.push(view.name))).toBe(2);
  expect(names).toEqual(["a", "b"]);
});

test("bytes that are no list are refused, and never read past their end", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      try {
        walkEvents(bytes, (view) => {
          for (const at of [view.bodyStart, view.bodyEnd, view.legacyStart, view.legacyEnd])
            expect(at).toBeLessThanOrEqual(bytes.length);
        });
      } catch (error) {
        expect((error as Error).name).toBe("MalformedEvents");
      }
    }),
    { numRuns: 2_000 },
  );
});

test("a list that was cut anywhere is refused or shorter, never different", () => {
  const bytes = EventList.encode({
    events: [1, 2, 3].map((n) => Event.create({ name: `event-${n}`, body: Buffer.alloc(40, n) })),
  }).finish();
  for (let cut = 0; cut < bytes.length; cut++) {
    const names: string[] = [];
    let failed = false;
    try {
      walkEvents(bytes.subarray(0, cut), (view) => names.push(view.name));
    } catch {
      failed = true;
    }
    expect(names).toEqual(["event-1", "event-2", "event-3"].slice(0, names.length));
    if (!failed) expect(names.length).toBeLessThan(3);
  }
});
