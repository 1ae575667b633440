// One runner process: plain functions (bare) or the graphs of graphs.mjs (graph).
import { setTimeout as pause } from "node:timers/promises";
import { createRunner, langgraph } from "@fairlead/runner";

const {
  RUNNER_ADDRESS = "",
  RUNNER_TOKEN = "",
  RUNNER_KIND = "bench",
  RUNNER_CAPACITY = "100",
  RUNNER_AGENTS,
} = process.env;

/** @param {import("@fairlead/runner").RunContext} run */
async function tokens(run) {
  const { n, gap } = run.input;
  for (let i = 0; i < n; i++) {
    if (gap > 0 && i > 0) await pause(gap);
    await run.emit.custom({ i, at: performance.timeOrigin + performance.now(), text: "token " });
  }
  return { done: n };
}

/** @type {Record<string, import("@fairlead/runner").AgentDefinition>} */
const bare = { echo: (run) => run.input, tokens };
const agents = RUNNER_AGENTS === "graph" ? await graphs() : bare;

async function graphs() {
  const { echo, tokens: speak } = await import("./graphs.mjs");
  return { echo: langgraph(echo), tokens: langgraph(speak) };
}

const runner = createRunner({
  address: RUNNER_ADDRESS,
  token: RUNNER_TOKEN,
  kind: RUNNER_KIND,
  capacity: Number(RUNNER_CAPACITY),
  agents,
});
await runner.start();
process.stdout.write("ready\n");
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void runner.stop().then(() => process.exit(0)));
await runner.ended;
