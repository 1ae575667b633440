import type { RunContext } from "@fairlead/runner";
import { expect, test } from "vitest";
import {
  BatchVerdict,
  ControlKind,
  type EventBatch,
  Family,
  Outcome,
  ReportVerdict,
  type StreamEventsRequest,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import type { Plane } from "./support/plane.js";
import type { StoredRun } from "./support/plane-store.js";
import { until } from "./support/until.js";
import { gate, world } from "./support/world.js";

function messages(plane: Plane): EventBatch[][] {
  return plane.calls
    .filter(({ method, request }) => method === "streamEvents" && request !== undefined)
    .map(({ request }) => (request as StreamEventsRequest).batches)
    .filter((batches) => batches.length > 0);
}

const countOf = (batch: EventBatch): number => batch.segments.reduce((sum, { count }) => sum + count, 0);
const custom = (run: StoredRun): unknown[] => {
  return run.events.filter(({ family }) => family === Family.FAMILY_CUSTOM).map(({ json }) => json.payload);
};
const numbers = (run: StoredRun): number[] => run.events.map(({ number }) => number);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

/** Says one thing per call of `say`, and ends with `end`. */
function talker() {
  const queue: (() => void)[] = [];
  const waiting: unknown[] = [];
  const say = (what: unknown): void => {
    waiting.push(what);
    for (const go of queue.splice(0)) go();
  };
  const agent = async (run: RunContext): Promise<unknown> => {
    for (;;) {
      while (waiting.length > 0) {
        const what = waiting.shift();
        if (what === "end") return {};
        await run.emit.custom(what);
      }
      await new Promise<void>((resolve) => queue.push(resolve));
    }
  };
  return { say, end: () => say("end"), agent };
}

test("an event leaves at once: the plane sees it before the next one is made", async () => {
  const { say, end, agent } = talker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign();
  for (const n of [1, 2, 3]) {
    say(n);
    await until(`event ${n}`, () => run.stored === n);
  }
  end();
  await plane.ended(run);
  expect(custom(run)).toEqual([1, 2, 3]);
});

test("the first token leaves alone, and the flood after it in batches of at most 16 events or 4 KB", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => {
      await run.emit.messages("first");
      await new Promise((resolve) => setImmediate(resolve));
      for (let i = 0; i < 500; i += 1) await run.emit.messages(`token ${i} `);
      return {};
    },
  });
  const run = plane.assign();
  await plane.ended(run);
  const batches = messages(plane).flat();
  // Start of message, start of block, first token.
  expect(countOf(batches[0]!)).toBe(3);
  expect(Math.max(...batches.slice(1).map(countOf))).toBeLessThanOrEqual(16);
  expect(batches.length).toBeGreaterThan(500 / 16 / 2);
  expect(numbers(run)).toEqual(upTo(run.report!.events));
});

test("what several runs say in one turn of the event loop shares one message", async () => {
  const start = gate();
  const go = gate();
  const { plane } = await world(
    {
      echo: async (run: RunContext) => {
        await start.passed;
        await run.emit.custom("x");
        await go.passed;
        return {};
      },
    },
    { capacity: 20 },
  );
  const runs = Array.from({ length: 20 }, () => plane.assign());
  await until("all are held", () => plane.calls.filter(({ method }) => method === "heartbeat").length > 0);
  start.open();
  await until("all have spoken", () => runs.every(({ stored }) => stored === 1));
  const firsts = messages(plane);
  expect(firsts.flat()).toHaveLength(20);
  expect(firsts).toHaveLength(1);
  go.open();
  await Promise.all(runs.map((run) => plane.ended(run)));
  // And so do their reports.
  expect(plane.calls.filter(({ method }) => method === "reportStatus")).toHaveLength(1);
});

test("a stream that breaks between any two events loses and doubles nothing", async () => {
  const { say, end, agent } = talker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign();
  const total = 12;
  for (let n = 1; n <= total; n += 1) {
    say(n);
    await until(`event ${n}`, () => run.stored === n);
    plane.breakStreams();
  }
  end();
  await plane.ended(run);
  expect(custom(run)).toEqual(upTo(total));
  expect(numbers(run)).toEqual(upTo(run.report!.events));
});

test("batches that the plane never stored are sent again on the next stream", async () => {
  const { say, end, agent } = talker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign();
  say(1);
  await until("the first", () => run.stored === 1);
  plane.switches.dropBatches = true;
  for (const n of [2, 3, 4]) say(n);
  await until("three batches on the wire", () =>
    messages(plane)
      .flat()
      .some((batch) => batch.first + countOf(batch) > 4),
  );
  expect(run.stored).toBe(1);
  plane.switches.dropBatches = false;
  plane.breakStreams();
  await until("the rest", () => run.stored === 4);
  end();
  await plane.ended(run);
  expect(custom(run)).toEqual([1, 2, 3, 4]);
});

test("a batch that the plane answers out of order is sent again from the last stored event", async () => {
  const { say, end, agent } = talker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign();
  plane.switches.dropBatches = true;
  say(1);
  await until("a lost batch", () => messages(plane).length === 1);
  plane.switches.dropBatches = false;
  say(2);
  await until("both", () => run.stored === 2);
  end();
  await plane.ended(run);
  expect(run.verdicts).toContain(BatchVerdict.BATCH_VERDICT_OUT_OF_ORDER);
  expect(custom(run)).toEqual([1, 2]);
});

test("acknowledgements that never come do not stop a run from ending", async () => {
  const { say, end, agent } = talker();
  const { plane } = await world({ echo: agent }, { switches: { dropAcks: true } });
  const run = plane.assign();
  for (const n of [1, 2, 3]) say(n);
  await until("stored in silence", () => run.stored === 3);
  end();
  await plane.ended(run);
  expect(custom(run)).toEqual([1, 2, 3]);
  // The report carried them again; the plane said what it missed, which was only the end.
  expect(run.reports.length).toBeGreaterThan(1);
});

test("a report that the plane answers with MISSING is repeated with the missing events until it is recorded", async () => {
  const { plane } = await world(
    { echo: async (run: RunContext) => run.emit.custom("only").then(() => ({ done: true })) },
    { switches: { reportVerdicts: [ReportVerdict.REPORT_VERDICT_MISSING, ReportVerdict.REPORT_VERDICT_MISSING] } },
  );
  const run = plane.assign();
  await plane.ended(run);
  expect(run.reports).toHaveLength(3);
  expect(custom(run)).toEqual(["only"]);
});

test("a report that overtook events which are acknowledged before it is answered is sent again, and the run is not given up", async () => {
  const { say, end, agent } = talker();
  const { plane } = await world({ echo: agent }, { switches: { dropAcks: true, overtaken: true } });
  const run = plane.assign();
  for (const n of [1, 2, 3]) say(n);
  await until("stored in silence", () => run.stored === 3);
  end();
  await plane.ended(run);
  expect(custom(run)).toEqual([1, 2, 3]);
});

test("a tail that is too large for a report goes over the stream first", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => {
      for (let i = 0; i < 5; i += 1) void run.emit.custom("x".repeat(600_000));
      return { done: true };
    },
  });
  const run = plane.assign();
  await plane.ended(run);
  const tail = run.report!.tail?.segments.reduce((sum, { events }) => sum + events.length, 0) ?? 0;
  expect(tail).toBeLessThan(2 * 600_000);
  expect(messages(plane).flat().length).toBeGreaterThan(1);
  expect(custom(run)).toHaveLength(5);
});

test("emitting waits while the plane does not take more, so memory and queues stay bounded", async () => {
  let emittedEvents = 0;
  const { plane } = await world({
    echo: async (run: RunContext) => {
      for (; emittedEvents < 200; emittedEvents += 1) await run.emit.custom("x".repeat(30_000));
      return {};
    },
  });
  plane.switches.dropBatches = true;
  const run = plane.assign();
  await until("something is under way", () => messages(plane).length > 1);
  await until("nothing moves", () => plane.calls.some(({ method }) => method === "heartbeat"));
  // A run has 128 KB under way and as much that waits; a batch is never cut.
  expect(emittedEvents).toBeLessThan(14);
  plane.switches.dropBatches = false;
  plane.breakStreams();
  await plane.ended(run);
  expect(custom(run)).toHaveLength(200);
});

test("runs that flood have a bounded number of events under way, and a sibling's first event leaves all the same", async () => {
  const flood = async (run: RunContext): Promise<void> => {
    for (let i = 0; i < 600; i += 1) await run.emit.custom(i);
  };
  const agents = { echo: flood, calm: (run: RunContext) => run.emit.custom("here") };
  const { plane } = await world(agents, { capacity: 64 });
  const mostUnderWay = 4_096;
  plane.switches.dropAcks = true;
  const runs = Array.from({ length: 20 }, () => plane.assign());
  const stored = (): number => runs.reduce((sum, run) => sum + run.stored, 0);
  await until("the window is full", () => runs.every((run) => run.stored >= 16));
  await until("nothing moves", () => plane.calls.some(({ method }) => method === "heartbeat"));
  expect(stored()).toBeLessThan(2 * mostUnderWay);
  const calm = plane.assign({ graphId: "calm" });
  await until("a new run has spoken", () => calm.stored === 1);
  expect(custom(calm)).toEqual(["here"]);
  plane.switches.dropAcks = false;
  plane.breakStreams();
  await Promise.all(runs.map((run) => plane.ended(run, 20_000)));
  for (const run of runs) expect(custom(run)).toHaveLength(600);
});

test("a run makes no more than its window in a turn of the event loop, so that none keeps the others from speaking", async () => {
  const perTurn = [0];
  const agent = async (run: RunContext): Promise<void> => {
    const next = setInterval(() => perTurn.push(0), 0);
    for (let i = 0; i < 3_000; i += 1) {
      await run.emit.custom(i);
      perTurn[perTurn.length - 1]! += 1;
    }
    clearInterval(next);
  };
  const { plane } = await world({ echo: agent });
  const run = plane.assign();
  await plane.ended(run, 20_000);
  expect(custom(run)).toHaveLength(3_000);
  expect(Math.max(...perTurn)).toBeLessThan(3_000 / 2);
});

test("a plane that asks for less gets larger batches, less often", async () => {
  const rest = gate();
  const { plane } = await world({
    echo: async (run: RunContext) => {
      for (let i = 0; i < 100; i += 1) await run.emit.messages("a ");
      await rest.passed;
      for (let i = 0; i < 1_000; i += 1) await run.emit.messages("b ");
      return {};
    },
  });
  const run = plane.assign();
  await until("the first part", () => run.stored >= 100);
  const before = messages(plane).flat();
  for (let i = 0; i < 3; i += 1) plane.control({ run: undefined, kind: ControlKind.CONTROL_KIND_SLOW_DOWN });
  // A control that asks for an answer proves that those before it have arrived.
  plane.control({ run: { ...run.assignment.run! }, kind: ControlKind.CONTROL_KIND_CANCEL });
  const calls = plane.calls.length;
  await until("controls are read", () => plane.calls.length >= calls);
  rest.open();
  await plane.ended(run);
  const after = messages(plane).flat().slice(before.length);
  expect(Math.max(...before.map(countOf))).toBeLessThanOrEqual(16);
  expect(Math.max(...after.map(countOf))).toBeGreaterThan(32);
  expect(run.outcome).toBe(Outcome.OUTCOME_SUCCESS);
});

test("equal run ids in two tenants are two runs", async () => {
  const { plane } = await world({
    echo: async (run: RunContext) => run.emit.custom(run.tenantId).then(() => run.tenantId),
  });
  const runId = crypto.randomUUID();
  const threadId = crypto.randomUUID();
  const runs = ["t1", "t2"].map((tenantId) => plane.assign({ run: { tenantId, runId, generation: 1 }, threadId }));
  await Promise.all(runs.map((run) => plane.ended(run)));
  expect(runs.map(custom)).toEqual([["t1"], ["t2"]]);
  expect(runs.map((run) => run.report!.values.toString())).toEqual(['"t1"', '"t2"']);
});
