import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const program = fileURLToPath(new URL("../fixtures/langgraph/surroundings.mjs", import.meta.url));

async function surroundings(who: "spare" | "langchain", env: Record<string, string>) {
  // Nobody listens there: what is traced is lost, and LangSmith says so on the other stream.
  const nowhere = { LANGSMITH_ENDPOINT: "http://127.0.0.1:9", LANGSMITH_API_KEY: "none" };
  const { stdout } = await promisify(execFile)(process.execPath, [program, who], {
    env: { PATH: process.env["PATH"], ...nowhere, ...env },
  });
  return JSON.parse(stdout) as { replaced: boolean; seen: Record<string, unknown> };
}

test("a graph finds config, variables, callbacks and its tree as LangChain makes them, although no tree is made for each call", async () => {
  const [spared, langchains] = await Promise.all([surroundings("spare", {}), surroundings("langchain", {})]);
  expect(spared.replaced).toBe(true);
  expect(langchains.replaced).toBe(false);
  expect(spared.seen).toEqual(langchains.seen);
  expect(spared.seen).toMatchObject({
    sameConfig: true,
    innerTags: ["mine"],
    innerVariable: "me",
    both: ["a", "b"],
    isTree: true,
    tracing: false,
  });
});

test("who traces gets LangChain's own trees", async () => {
  const { replaced, seen } = await surroundings("spare", { LANGSMITH_TRACING: "true" });
  expect(replaced).toBe(false);
  expect(seen).toMatchObject({ tracing: true, isTree: true, answer: "hello" });
});
