import fc from "fast-check";
import { expect, test } from "vitest";
import { topLevelSlices } from "../../src/domain/raw-json.js";

const spaces = fc.stringMatching(/^[ \n\r\t]{0,3}$/);

test("each member's slice is the text of its value, whatever stands around it", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.json()), spaces, (members, space) => {
      const text = `${space}{${Object.entries(members)
        .map(([key, value]) => `${space}${JSON.stringify(key)}${space}:${space}${value}${space}`)
        .join(",")}}${space}`;
      const slices = topLevelSlices(text);
      const parsed = JSON.parse(text) as Record<string, unknown>;
      expect([...slices.keys()].sort()).toEqual(Object.keys(parsed).sort());
      for (const [key, value] of Object.entries(members)) expect(slices.get(key)).toBe(value.trim());
    }),
  );
});

test("numbers beyond 2^53, escapes and key order survive", () => {
  const input = '{"n": 9007199254740993, "s":"a\\"}{[,\\u0041", "o" : {"b":1,"a":[{"]":"}"}]} ,"z":1e400}';
  const slices = topLevelSlices(input);
  expect(slices.get("n")).toBe("9007199254740993");
  expect(slices.get("s")).toBe('"a\\"}{[,\\u0041"');
  expect(slices.get("o")).toBe('{"b":1,"a":[{"]":"}"}]}');
  expect(slices.get("z")).toBe("1e400");
});

test("of equal keys the last one counts, as in JSON.parse", () => {
  expect(topLevelSlices('{"a":1,"a":{"b":2}}').get("a")).toBe('{"b":2}');
});
