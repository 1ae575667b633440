import { langgraph } from "@fairlead/runner";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redisAvailable } from "../support/redis.js";
import { type MeasuredPlane, startMeasuredPlane } from "./measured-plane.js";

// What a LangGraph run may cost the plane and Postgres at 64 clients. Its nodes answer at once, so that all it has to say fits into one message, and it
// needs no more statements than a plain function.

const clients = 64;
const runs = 320;

let measured: MeasuredPlane;

beforeAll(async () => {
  const State = Annotation.Root({ said: Annotation<string>(), heard: Annotation<string>() });
  const graph = new StateGraph(State)
    .addNode("listen", ({ said }) => ({ heard: said }))
    .addNode("nod", () => ({}))
    .addEdge(START, "listen")
    .addEdge("listen", "nod")
    .compile();
  measured = await startMeasuredPlane();
  await measured.runner({ plain: (run) => run.input, graph: langgraph(graph) });
  await measured.runs("plain", clients, clients);
  await measured.runs("graph", clients, clients);
}, 120_000);

afterAll(() => measured?.stop());

/** Rows and statements a run. */
async function costs(agent: "plain" | "graph", more: object = {}) {
  const before = await measured.rows();
  await measured.resetStatements();
  await measured.runs(agent, runs, clients, more);
  const statements = (await measured.statements()) / runs;
  const after = await measured.rows();
  const rows = (table: keyof typeof after): number => (after[table] - before[table]) / runs;
  const found = {
    statements,
    // Each message of a run, and its report, is a chunk of its log.
    messages: rows("run_event") + rows("run_delta"),
    checkpoints: rows("checkpoint"),
    writes: rows("checkpoint_write"),
    blobs: rows("checkpoint_blob"),
    steps: rows("step"),
  };
  process.stdout.write(`a ${agent} run: ${JSON.stringify(found)}\n`);
  return found;
}

test.skipIf(!redisAvailable())(
  "a stateless graph run is one message, no checkpoint, and no more statements than a plain function (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    // A stranger who takes the machine for a moment makes batches small, so the best of three rounds counts.
    const isCheap = (graph: number, plain: number): boolean => graph <= Math.max(0.6, 1.5 * plain);
    let plain = await costs("plain");
    let graph = await costs("graph");
    for (let round = 1; round < 3 && !isCheap(graph.statements, plain.statements); round++) {
      plain = await costs("plain");
      graph = await costs("graph");
    }
    expect(plain.statements, "the counters count").toBeGreaterThan(0.01);
    expect(isCheap(graph.statements, plain.statements), JSON.stringify({ plain, graph })).toBe(true);
    expect(graph.messages).toBeLessThan(1.05);
    expect(graph).toMatchObject({ checkpoints: 0, writes: 0, blobs: 0, steps: 2 });
  },
);

test.skipIf(!redisAvailable())(
  "a graph run whose thread stays is one message too: a row a checkpoint, what is new of its values, and no write of a superstep that is over (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    const found = await costs("graph", { on_completion: "keep" });
    expect(found.messages).toBeLessThan(1.05);
    expect(found).toMatchObject({ checkpoints: 4, writes: 0, steps: 2 });
    // The input, and what was said and heard, which are the same bytes.
    expect(found.blobs).toBeLessThan(2.05);
  },
);
