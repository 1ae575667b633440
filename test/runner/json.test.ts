import { AIMessage, AIMessageChunk, type AIMessageFields, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { MemorySaver, Send } from "@langchain/langgraph";
import fc from "fast-check";
import { expect, test } from "vitest";
import { messagesToJson, toJson } from "../../runners/typescript/src/json.js";
import { dumps } from "../../runners/typescript/src/langgraph/serializer.js";

const message = fc.oneof(
  fc.string().map((content) => new HumanMessage({ content, id: `h-${content.length}` })),
  fc.string().map(
    (content) =>
      new AIMessage({
        content,
        usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
      } as AIMessageFields),
  ),
  fc
    .string()
    .map((args) => new AIMessageChunk({ content: "", tool_call_chunks: [{ index: 0, id: "c", name: "t", args }] })),
  fc
    .string()
    .map(
      (text) =>
        new AIMessage({ content: [{ type: "text", text }], tool_calls: [{ id: "c", name: "t", args: { text } }] }),
    ),
  fc.string().map((content) => new ToolMessage({ content, tool_call_id: "c", artifact: { content } })),
);
const state = fc.letrec((tie) => ({
  node: fc.oneof(
    { maxDepth: 4 },
    message,
    fc.jsonValue(),
    fc.array(tie("node"), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie("node"), { maxKeys: 4 }),
  ),
})).node;

/** How the official server writes it: slowly, and with certainty. */
function reference(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, key, shown: unknown) {
    const raw = this[key] as { toDict?: () => { type: string; data: object } } | undefined;
    if (typeof raw?.toDict !== "function") return shown;
    const { type, data } = raw.toDict();
    return { ...data, type };
  });
}

test("messages anywhere in a state are written as the official server writes them", () => {
  fc.assert(
    fc.property(state, (value) => {
      const expected = JSON.parse(reference({ value })) as unknown;
      expect(JSON.parse(messagesToJson({ value }, "value"))).toEqual(expected);
      expect(JSON.parse(toJson({ value }, "value"))).toEqual(expected);
      expect(messagesToJson({ value }, "value")).not.toContain("\n");
    }),
  );
});

test("a message that was changed after it was written is written anew", () => {
  const one = new AIMessage({ content: "a", tool_calls: [] });
  const write = (): Record<string, unknown> =>
    (JSON.parse(messagesToJson([one], "m")) as Record<string, unknown>[])[0]!;
  expect(write()).toMatchObject({ content: "a" });
  one.content = "b";
  expect(write()).toMatchObject({ content: "b" });
  // So LangGraph names a message that came without an id.
  one.id = "late";
  one.lc_kwargs["id"] = "late";
  expect(write()).toMatchObject({ id: "late" });
  one.tool_calls!.push({ id: "c", name: "t", args: {} });
  expect(write()).toMatchObject({ tool_calls: [{ name: "t" }] });
  const blocks = new HumanMessage({ content: [{ type: "text", text: "x" }] });
  messagesToJson([blocks], "m");
  (blocks.content as { text: string }[])[0]!.text = "y";
  expect(messagesToJson([blocks], "m")).toContain('"y"');
});

test("checkpoint bytes are those of LangGraph's own serialiser", async () => {
  const original = new MemorySaver().serde;
  await fc.assert(
    fc.asyncProperty(state, async (value) => {
      for (const one of [value, [value, undefined], { a: value, b: undefined }]) {
        const [type, data] = await original.dumpsTyped(one);
        expect(await dumps(original, one)).toEqual([type, Buffer.from(data)]);
      }
    }),
    { numRuns: 60 },
  );
});

test("what only LangGraph can write is left to LangGraph, and comes back as it was", async () => {
  const original = new MemorySaver().serde;
  const values = [
    new Set([1]),
    new Map([["a", 1]]),
    /x/g,
    new Uint8Array([1, 2]),
    new Send("node", { a: 1 }),
    new Error("e"),
  ];
  for (const value of values) {
    const [type, data] = await dumps(original, { value });
    const [sameType, same] = await original.dumpsTyped({ value });
    expect([type, data.toString()]).toEqual([sameType, Buffer.from(same).toString()]);
  }
  const [type, bytes] = await dumps(original, new Uint8Array([1, 2]));
  expect(await original.loadsTyped(type, bytes)).toEqual(Buffer.from([1, 2]));
  const cycle: Record<string, unknown> = { a: 1 };
  cycle["self"] = cycle;
  expect((await dumps(original, cycle))[1].toString()).toContain("Circular");
});

test("what cannot be written says what it is and why", () => {
  expect(() => toJson({ n: 1n }, "values")).toThrow(/^values cannot be written as JSON: .*BigInt/);
  expect(() => toJson(() => 1, "custom")).toThrow(/^custom cannot be written as JSON: it is function/);
  expect(() => messagesToJson({ m: [new AIMessage("x")], n: 1n }, "values")).toThrow(/values cannot be written/);
});
