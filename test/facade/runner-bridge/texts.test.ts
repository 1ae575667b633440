import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  BatchVerdict,
  type EventBatch,
  Outcome,
  type Report,
  ReportVerdict,
  type RunRef,
} from "../../../src/generated/proto/fairlead/runner/v1/runner.js";
import { batchOf, type RawRunner, rawRunner } from "../../support/raw-runner.js";
import { startWorld, type World } from "../../support/world.js";

// Every string of a batch, a report and a poll, one by one, holding U+0000. (A half of a surrogate pair cannot be written in protobuf.)

let world: World;
let runner: RawRunner;
beforeAll(async () => {
  world = await startWorld();
  runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken() });
  await runner.getJob({ waitMs: 100 });
});
afterAll(async () => {
  runner.close();
  await world.stop();
});

async function take(): Promise<RunRef> {
  const response = await world.fetch("/runs", {
    method: "POST",
    body: JSON.stringify({ assistant_id: "raw", input: {} }),
  });
  expect(response.status).toBe(200);
  return (await runner.take()).run as RunRef;
}

/** Copies of a message, each with one of its strings spoilt, by the string's path; elements of lists have the list's. */
function spoilt<Message>(message: Message, path = ""): [string, Message][] {
  if (typeof message === "string") return [[path, `${message}\u0000` as Message]];
  if (message === null || typeof message !== "object" || message instanceof Uint8Array) return [];
  if (Array.isArray(message))
    return message.flatMap((element, at) =>
      spoilt(element, path).map(([place, bad]): [string, Message] => [place, message.with(at, bad) as Message]),
    );
  return Object.entries(message).flatMap(([name, member]) => {
    const wire = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return spoilt(member, path === "" ? wire : `${path}.${wire}`).map(([place, bad]): [string, Message] => [
      place,
      { ...message, [name]: bad },
    ]);
  });
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const extras = {
  checkpoints: [
    {
      namespace: "ns",
      id: "c1",
      parentId: "c0",
      lineage: "test",
      schemaVersion: 1,
      step: 1,
      head: Buffer.alloc(0),
      metadata: json({}),
      channels: [{ name: "channel", digest: Buffer.alloc(32), type: "json" }],
      view: json({}),
      writes: [],
    },
  ],
  writes: [
    {
      namespace: "ns",
      checkpointId: "c1",
      taskId: "t",
      index: 0,
      channel: "channel",
      type: "json",
      data: Buffer.alloc(0),
    },
  ],
  steps: [
    {
      id: "s",
      parentId: "p",
      kind: "tool",
      name: "search",
      status: "success",
      namespace: ["ns"],
      startedMs: 1_700_000_000_000,
      endedMs: 1_700_000_000_001,
      usage: json({ tokens: 1 }),
      error: "none",
    },
  ],
} as unknown as Partial<EventBatch>;

describe("a batch", () => {
  test.each(spoilt(extras).map(([path, bad]) => ({ path, bad })))(
    "with U+0000 in $path is refused by that name",
    async ({ path, bad }) => {
      const run = await take();
      const stream = runner.events();
      const [answer] = await stream.send(batchOf(run, 1, 1, bad));
      expect(answer).toMatchObject({
        verdict: BatchVerdict.BATCH_VERDICT_INVALID,
        message: expect.stringContaining(path),
      });
      stream.call.cancel();
    },
  );

  test.each([json({ note: "\u0000" }), Buffer.from('{"\\ud800":1}')])(
    "with JSON for the database that it cannot read is refused by its name",
    async (usage) => {
      const run = await take();
      const stream = runner.events();
      const steps = (extras.steps ?? []).map((step) => ({ ...step, usage }));
      const [answer] = await stream.send(batchOf(run, 1, 1, { steps }));
      expect(answer).toMatchObject({
        verdict: BatchVerdict.BATCH_VERDICT_INVALID,
        message: expect.stringContaining("steps.usage: contains"),
      });
      stream.call.cancel();
    },
  );

  test("without it is stored", async () => {
    const run = await take();
    const stream = runner.events();
    expect(await stream.send(batchOf(run, 1, 1, extras))).toMatchObject([
      { verdict: BatchVerdict.BATCH_VERDICT_STORED },
    ]);
    stream.call.cancel();
  });
});

const waiting: Partial<Report> = {
  outcome: Outcome.OUTCOME_WAITING,
  next: ["node"],
  interrupts: [{ id: "i", namespace: ["ns"], taskId: "t", value: json("sure?") }],
};
test.each(spoilt(waiting).map(([path, bad]) => ({ path, bad })))(
  "a report with U+0000 in $path is refused by that name",
  async ({ path, bad }) => {
    const run = await take();
    expect(await runner.report({ ...bad, run })).toMatchObject([
      { verdict: ReportVerdict.REPORT_VERDICT_INVALID, message: expect.stringContaining(path) },
    ]);
  },
);

test("an agent's error keeps its words when they hold U+0000", async () => {
  const run = await take();
  const report = {
    run,
    outcome: Outcome.OUTCOME_ERROR,
    failure: { type: "Odd\u0000Error", message: "read \u0000 bytes" },
  };
  expect(await runner.report(report)).toMatchObject([{ verdict: ReportVerdict.REPORT_VERDICT_RECORDED }]);
  const joined = await world.fetch(`/runs/${run.runId}/join`);
  expect(await joined.json()).toMatchObject({ __error__: { error: "Odd\ufffdError", message: "read \ufffd bytes" } });
});

const agent = { name: "raw", description: "says nothing", graphId: "raw" };
test.each([...spoilt({ version: "1", announcementDigest: "d", kind: "typescript" }), ...spoilt({ agents: [agent] })])(
  "a poll with U+0000 in %s is refused by that name",
  async (path, bad) => {
    const { agents } = bad as { agents?: object[] };
    const offers = { ...offer(), ...agents?.[0] };
    const request = { waitMs: 100, announcementDigest: `with ${path}`, ...bad, agents: [offers] };
    const refused = runner.getJob(request as never).then(
      () => null,
      (error: { code: number; details: string }) => error,
    );
    expect(await refused).toMatchObject(
      path === "kind"
        ? { code: status.PERMISSION_DENIED }
        : { code: status.INVALID_ARGUMENT, details: expect.stringContaining(path) },
    );
  },
);

/** An agent as the runner's own polls offer it. */
function offer(): object {
  const empty = Buffer.alloc(0);
  return {
    inputSchema: empty,
    outputSchema: empty,
    stateSchema: empty,
    configSchema: empty,
    contextSchema: empty,
    recovery: 0,
    maxAttempts: 0,
    queueTimeoutMs: 0,
    runTimeoutMs: 0,
  };
}
