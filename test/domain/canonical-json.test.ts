import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { genesisHash, placeOf, writeRecord } from "../../src/domain/audit-record.js";
import { canonicalJson } from "../../src/domain/canonical-json.js";

const anyText = fc.string({ unit: "binary" });
const anyJson = fc.jsonValue({ stringUnit: "binary", maxDepth: 4 });

/** The same value with the members of every object in another order. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, turned(member)]),
  );
}

describe("canonical JSON", () => {
  test("is the example of RFC 8785", () => {
    const numbers = [JSON.parse("333333333.33333329"), 1e30, 4.5, 2e-3, 0.000000000000000000000000001];
    const text = "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\u002f";
    expect(canonicalJson({ numbers, string: text, literals: [null, true, false] })).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
    const keys = { "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7 };
    expect(Object.values(JSON.parse(canonicalJson(keys).replace(/"1":4/, '"x":4')) as object)).toEqual([
      2, 4, 6, 7, 1, 5, 3,
    ]);
  });

  test("says the same value, and is the same text in whatever order members were set", () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const text = canonicalJson(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(turned(value))).toBe(text);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  test("writes -0, large and small numbers as ECMAScript does, and keeps what was composed apart", () => {
    expect(canonicalJson([-0, 1e21, 1e20, 123456789012345680000, 5e-324, 1e-7, 0.1 + 0.2])).toBe(
      "[0,1e+21,100000000000000000000,123456789012345680000,5e-324,1e-7,0.30000000000000004]",
    );
    expect(canonicalJson("\u00e9")).not.toBe(canonicalJson("e\u0301"));
    expect(canonicalJson("a\ud800b")).toBe('"a\ufffdb"');
    expect(canonicalJson("\ud83d\ude00")).toBe('"\ud83d\ude00"');
    expect(canonicalJson({ a: undefined, b: [undefined] })).toBe('{"b":[null]}');
  });

  test.each([
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [10n],
    [new Date(0)],
    [() => 1],
    [{ "\ud800": 1, "\ud801": 2 }],
  ])("refuses %o, of which nobody knows what to hash", (value) => {
    expect(() => canonicalJson({ value })).toThrow("Canonical JSON cannot hold");
  });
});

describe("the text of a record", () => {
  const record = fc.record({
    tenantId: fc.uuid(),
    id: fc.uuid(),
    seq: fc.integer({ min: 1, max: 2 ** 50 }),
    at: fc.constant("2026-01-31T12:00:00.123456Z"),
    actorKind: anyText,
    actorId: fc.option(anyText),
    action: anyText,
    targetKind: anyText,
    targetId: anyText,
    outcome: fc.constantFrom("success", "denied"),
    detail: anyJson.map((value) => canonicalJson({ value })),
    prev: fc.constant(genesisHash),
  });

  test("is canonical JSON, and says where it stands whatever is in it", () => {
    fc.assert(
      fc.property(record, fc.integer({ min: 1, max: 2 ** 50 }), (parts, other) => {
        const text = writeRecord(parts);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        const place = placeOf(text);
        expect(place).toMatchObject({ seq: parts.seq, prev: parts.prev, tenantId: parts.tenantId });
        expect(place?.renumbered(other)).toBe(writeRecord({ ...parts, seq: other }));
      }),
      { numRuns: 1_000 },
    );
  });

  test("of another version is not taken for one of this", () => {
    const [parts] = fc.sample(record, 1) as [Parameters<typeof writeRecord>[0]];
    expect(placeOf(writeRecord(parts).replace(/1\}$/, "2}"))).toBeNull();
    expect(placeOf("{}")).toBeNull();
  });
});
