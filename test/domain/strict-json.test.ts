import { expect, test } from "vitest";
import { readArguments } from "../../src/domain/strict-json.js";

const read = (text: string) => readArguments(Buffer.from(text));

test.each([
  ['{"amount":1,"amount":500}', "twice"],
  ['{"a":{"b":1,"\\u0062":2}}', "twice"],
  ['{"__proto__":{"amount":1}}', "__proto__"],
  ['{"a":{"constructor":1}}', "constructor"],
  ['{"\\u005f_proto__":1}', "__proto__"],
  ['{"amount":9007199254740993}', "loses digits"],
  ['{"amount":1e400}', "loses digits"],
  ['{"amount":1e-400}', "loses digits"],
  ['{"amount":0.12345678901234567}', "loses digits"],
  ['{"a":"\\ud800"}', "half a character"],
  [`{"a":${"[".repeat(40)}${"]".repeat(40)}}`, "deeper"],
  [`{"a":"${"x".repeat(300_000)}"}`, "larger"],
  ["[1]", "not an object"],
  ["null", "not an object"],
  ["{} {}", "more than one"],
  ["{'a':1}", "not JSON"],
  ['{"a":01}', "not JSON"],
  ['{"a":NaN}', "not JSON"],
  ['{"a":1,}', "not JSON"],
  ['\ufeff{"a":1}', "not JSON"],
  ['{"a":"', "not JSON"],
  ["", "not JSON"],
])("arguments that two parsers could read differently are refused: %s", (text, why) => {
  const result = read(text);
  expect(result.ok ? "accepted" : result.complaint).toContain(why);
});

test("bytes that are no UTF-8 are refused", () => {
  expect(readArguments(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toEqual({
    ok: false,
    complaint: "not UTF-8",
  });
});

test.each([
  ['{ "b" : 1e3, "a" : [ 1.50, "\\u0041", null, true ] }', '{"a":[1.5,"A",null,true],"b":1000}'],
  ['{"n":-0,"s":"\\/"}', '{"n":0,"s":"/"}'],
  ['{"n":9007199254740991,"f":100.5}', '{"f":100.5,"n":9007199254740991}'],
  ["{}", "{}"],
])("equal arguments have one canonical text, whatever they were written like: %s", (text, canonical) => {
  expect(read(text)).toMatchObject({ ok: true, canonical });
});
