import { afterAll, beforeAll, expect, test } from "vitest";
import { EventList, Family, Outcome, Retention } from "../../../src/generated/proto/fairlead/runner/v1/runner.js";
import { type RawRunner, rawRunner } from "../../support/raw-runner.js";
import { startWorld, type World } from "../../support/world.js";

// Nothing between a client and its agent reads their JSON: what was sent comes back byte for byte. The agent here speaks the wire by hand, because
// JavaScript itself cannot keep such numbers.

const odd =
  '{"z":9007199254740993,"a":{"é":"😀\\u2028\\u0000","n":1.10,"big":123456789012345678901234567890,"e":1E+2},"__proto__":{"x":1},"1":[ ]}';

let world: World;
let agent: RawRunner;
beforeAll(async () => {
  world = await startWorld();
  agent = rawRunner({ address: world.grpcAddress, token: await world.runnerToken("raw"), kind: "raw" });
  await agent.getJob({ waitMs: 0 });
});
afterAll(async () => {
  agent.close();
  await world.stop();
});

/** Takes the next run and ends it with these values, and a checkpoint of them. */
async function answer(outcome: Outcome.OUTCOME_SUCCESS | Outcome.OUTCOME_WAITING) {
  const assignment = await agent.take();
  const runId = assignment.run?.runId as string;
  const asked = outcome === Outcome.OUTCOME_WAITING;
  const interrupts = asked ? `[{"id":"q1","value":${odd}}]` : "[]";
  const view = `{"values":${odd},"next":${asked ? '["raw"]' : "[]"},"tasks":[{"id":"t1","name":"raw","interrupts":${interrupts}}],"metadata":{"odd":${odd}},"created_at":"2026-01-01T00:00:00Z"}`;
  const event = {
    family: Family.FAMILY_VALUES,
    mode: "values",
    name: "",
    namespace: [],
    node: "",
    body: Buffer.from(odd),
    legacyBody: Buffer.alloc(0),
    timeMs: 1,
  };
  const [verdict] = await agent.report({
    run: assignment.run,
    outcome,
    events: 1,
    values: Buffer.from(odd),
    interrupts: asked ? [{ id: "q1", namespace: [], taskId: "t1", value: Buffer.from(odd) }] : [],
    tail: {
      run: assignment.run,
      first: 1,
      segments: [
        {
          retention: Retention.RETENTION_DURABLE,
          count: 1,
          events: Buffer.from(EventList.encode({ events: [event] }).finish()),
        },
      ],
      checkpoints: [
        {
          namespace: "",
          id: `c-${runId}`,
          parentId: "",
          lineage: "raw",
          schemaVersion: 1,
          step: 0,
          head: Buffer.alloc(0),
          metadata: Buffer.from("{}"),
          channels: [],
          view: Buffer.from(view),
          writes: [],
        },
      ],
      writes: [],
      blobs: [],
      steps: [],
    },
  });
  expect(verdict?.message).toBe("");
  return assignment;
}

const get = async (path: string) => (await world.fetch(path)).text();

test("input, config and context reach the agent, and values, states and streams the client, as they were written", async () => {
  const { thread_id: id } = await world.client().threads.create();
  const body = `{"assistant_id":"raw","input":${odd},"config":{"configurable":${odd}},"context":${odd}}`;
  const created = await (await world.fetch(`/threads/${id}/runs`, { method: "POST", body })).text();
  expect(created).toContain(`"input":${odd}`);
  expect(created).toContain(`"context":${odd}`);
  const { run_id: runId } = JSON.parse(created) as { run_id: string };
  const assignment = await answer(Outcome.OUTCOME_SUCCESS);
  expect(assignment.input.toString()).toBe(odd);
  expect(assignment.context.toString()).toBe(odd);
  expect(assignment.config.toString()).toBe(`{"configurable":${odd}}`);
  expect(await get(`/threads/${id}/runs/${runId}/join`)).toBe(odd);
  expect(await get(`/threads/${id}/state`)).toContain(`{"values":${odd},"next":[]`);
  expect(await get(`/threads/${id}/history`)).toContain(`[{"values":${odd},"next":[]`);
  expect(await get(`/threads/${id}`)).toContain(`"values":${odd}`);
  const stream = await world.fetch(`/threads/${id}/runs/${runId}/stream`, { headers: { "last-event-id": "1" } });
  expect(await stream.text()).toContain(`event: values\ndata: ${odd}\nid: 2\n\n`);
});

test("a question is asked in the agent's own words, wherever it is read", async () => {
  const { thread_id: id } = await world.client().threads.create();
  const body = `{"assistant_id":"raw","input":{}}`;
  const waited = world.fetch(`/threads/${id}/runs/wait`, { method: "POST", body });
  await answer(Outcome.OUTCOME_WAITING);
  const question = `{"id":"q1","value":${odd}}`;
  expect(await (await waited).text()).toBe(`${odd.slice(0, -1)},"__interrupt__":[${question}]}`);
  expect(await get(`/threads/${id}`)).toContain(`"interrupts":{"t1":[${question}]}`);
  expect(await get(`/threads/${id}/state`)).toContain(`"interrupts":[${question}]}`);
});
