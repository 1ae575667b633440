import type { RunContext } from "@fairlead/runner";
import { expect, test } from "vitest";
import {
  ControlKind,
  type HeartbeatRequest,
  Outcome,
  ReportVerdict,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import type { Plane } from "./support/plane.js";
import type { StoredRun } from "./support/plane-store.js";
import { until } from "./support/until.js";
import { gate, runnerFor, world } from "./support/world.js";

function heartbeats(plane: Plane): HeartbeatRequest[] {
  return plane.calls.filter(({ method }) => method === "heartbeat").map(({ request }) => request as HeartbeatRequest);
}

/** An agent that works until it is told to stop, and keeps why. */
function worker() {
  const stopped: unknown[] = [];
  const started: string[] = [];
  const agent = async (run: RunContext): Promise<unknown> => {
    started.push(run.runId);
    await new Promise<void>((resolve) => run.signal.addEventListener("abort", () => resolve()));
    stopped.push(run.signal.reason);
    throw run.signal.reason;
  };
  return { agent, stopped, started };
}

test("one heartbeat speaks for all runs, the first one soon after the offer", async () => {
  const { agent, started } = worker();
  const { plane } = await world({ echo: agent }, { capacity: 10 });
  for (let i = 0; i < 10; i += 1) plane.assign({ heartbeatMs: 200 });
  await until("all are held", () => started.length === 10);
  const at = performance.now();
  await until("two heartbeats", () => heartbeats(plane).length >= 2);
  expect(heartbeats(plane).map(({ runs }) => runs.length)).toEqual(Array(heartbeats(plane).length).fill(10));
  // The offer lapses after five seconds.
  expect(performance.now() - at).toBeLessThan(2_000);
});

test("a run of a few milliseconds needs no heartbeat at all", async () => {
  const { plane } = await world({ echo: async () => ({}) }, { capacity: 20 });
  const runs = Array.from({ length: 50 }, () => plane.assign());
  await Promise.all(runs.map((run) => plane.ended(run)));
  expect(heartbeats(plane)).toEqual([]);
});

test("many runs that never wait for anything keep no cancel from the last of them", async () => {
  const begun: string[] = [];
  const runs: StoredRun[] = [];
  const { plane } = await world(
    {
      echo: async ({ runId }) => {
        begun.push(runId);
        if (begun.length === 2) plane.cancelByWatch(runs.at(-1)!);
        for (const end = performance.now() + 15; performance.now() < end; );
        return {};
      },
    },
    { capacity: 80 },
  );
  for (let i = 0; i < 80; i += 1) runs.push(plane.assign());
  await Promise.all(runs.map((run) => plane.ended(run)));
  expect(begun).toHaveLength(79);
  expect(runs.at(-1)!.outcome).toBe(Outcome.OUTCOME_CANCELLED);
});

const ways: Record<string, (plane: Plane, run: StoredRun) => void> = {
  "the answer to a heartbeat": (_plane, run) => {
    run.cancel = true;
  },
  "the watch for cancels": (plane, run) => plane.cancelByWatch(run),
  "a control on the event stream": (plane, run) => {
    plane.control({ run: run.assignment.run, kind: ControlKind.CONTROL_KIND_CANCEL });
  },
};

test.each(Object.keys(ways))(
  "a cancel by %s stops the agent with a reason, and the run ends as cancelled",
  async (way) => {
    const { agent, stopped, started } = worker();
    const { plane } = await world({ echo: agent });
    const run = plane.assign({ heartbeatMs: 100, json: { threadValues: { kept: 1 } } });
    await until("it works", () => started.length === 1 && heartbeats(plane).length > 0);
    ways[way]!(plane, run);
    await plane.ended(run);
    expect(run.outcome).toBe(Outcome.OUTCOME_CANCELLED);
    expect(stopped).toMatchObject([{ code: "cancelled" }]);
  },
);

test("an agent that ends well in spite of a cancel has ended well", async () => {
  const go = gate();
  const began = gate();
  const { plane } = await world({
    echo: async (run: RunContext) => {
      began.open();
      await go.passed;
      return { aborted: run.signal.aborted };
    },
  });
  const run = plane.assign({ heartbeatMs: 50 });
  await began.passed;
  run.cancel = true;
  await until("the cancel was told", () => heartbeats(plane).length >= 2);
  go.open();
  await plane.ended(run);
  expect([run.outcome, run.report!.values.toString()]).toEqual([Outcome.OUTCOME_SUCCESS, '{"aborted":true}']);
});

test("a cancel that overtakes its run is remembered: the agent is never called", async () => {
  const { agent, started } = worker();
  const { plane } = await world({ echo: agent, other: async () => ({}) });
  const ref = { tenantId: "tenant-1", runId: crypto.randomUUID(), generation: 1 };
  await until("the watch is open", () => plane.calls.some(({ method }) => method === "watchCancels"));
  plane.cancelByWatch({ assignment: { run: ref }, generation: 1 } as StoredRun);
  // What comes after on the same connection proves that the cancel was read.
  await plane.ended(plane.assign({ graphId: "other" }));
  const run = plane.assign({ run: ref });
  await plane.ended(run);
  expect([run.outcome, started]).toEqual([Outcome.OUTCOME_CANCELLED, []]);
});

test("open cancels are heard again when the watch is opened again", async () => {
  const { agent, started } = worker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign({ heartbeatMs: 60_000, leaseMs: 60_000 });
  await until("it works", () => started.length === 1);
  await plane.stop();
  run.cancel = true;
  await plane.start();
  await plane.ended(run, 10_000);
  expect(run.outcome).toBe(Outcome.OUTCOME_CANCELLED);
});

const takeovers: Record<string, (plane: Plane, run: StoredRun, say: () => void) => void> = {
  "the answer to a heartbeat": (_plane, run) => {
    run.generation += 1;
  },
  "the answer to a batch": (_plane, run, say) => {
    run.generation += 1;
    say();
  },
  "a control on the event stream": (plane, run) => {
    const ref = run.assignment.run;
    run.generation += 1;
    plane.control({ run: ref, kind: ControlKind.CONTROL_KIND_SUPERSEDED });
  },
};

test.each(Object.keys(takeovers))(
  "a run that %s says is taken over stops at once, and nothing more is sent of it",
  async (way) => {
    const said = gate();
    const stopped = gate<unknown>();
    const { plane } = await world({
      echo: async (run: RunContext) => {
        run.signal.addEventListener("abort", () => stopped.open(run.signal.reason));
        await said.passed;
        await run.emit.custom("for the plane");
        await stopped.passed;
        // Deaf code goes on working and talking.
        void run.emit.custom("too late");
        return { done: true };
      },
      other: async () => ({}),
    });
    const slow = way === "the answer to a heartbeat" ? 100 : 60_000;
    const run = plane.assign({ heartbeatMs: slow, leaseMs: 60_000 });
    if (way !== "the answer to a batch") {
      said.open();
      await until("it has spoken", () => run.stored === 1);
    } else {
      await until("it is held", () => heartbeats(plane).length > 0);
    }
    takeovers[way]!(plane, run, said.open);
    expect(await stopped.passed).toMatchObject({ code: "superseded" });
    const calls = plane.calls.length;
    await plane.ended(plane.assign({ graphId: "other" }));
    const about = plane.calls
      .slice(calls)
      .filter(({ request }) => JSON.stringify(request)?.includes(run.assignment.run!.runId));
    expect(about).toEqual([]);
    expect(run.reports).toEqual([]);
  },
);

test("a report that is answered superseded is not repeated", async () => {
  const { plane } = await world({ echo: async () => ({}) });
  plane.switches.reportVerdicts.push(ReportVerdict.REPORT_VERDICT_SUPERSEDED);
  const run = plane.assign();
  await until("it was reported", () => run.reports.length === 1);
  await plane.ended(plane.assign());
  expect([run.reports.length, run.outcome]).toEqual([1, Outcome.OUTCOME_UNSPECIFIED]);
});

test("the next generation of a run that comes to the same process replaces the one before", async () => {
  const { agent, stopped, started } = worker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign();
  await until("the first works", () => started.length === 1);
  plane.reassign(run);
  await until("the second works", () => started.length === 2);
  expect(stopped).toMatchObject([{ code: "superseded" }]);
  run.cancel = true;
  plane.cancelByWatch(run);
  await plane.ended(run);
  expect(run.outcome).toBe(Outcome.OUTCOME_CANCELLED);
});

test("a run without an answer to its heartbeats ends here when its lease ends, and not before", async () => {
  const { agent, stopped, started } = worker();
  const { plane } = await world({ echo: agent });
  const run = plane.assign({ heartbeatMs: 100, leaseMs: 1_000 });
  await until("it works", () => started.length === 1 && heartbeats(plane).length > 0);
  plane.switches.unavailable.add("heartbeat");
  const deafAt = performance.now();
  await until("it was stopped", () => stopped.length === 1);
  const afterMs = performance.now() - deafAt;
  expect(stopped).toMatchObject([{ code: "lease_over" }]);
  expect(afterMs).toBeGreaterThan(700);
  expect(afterMs).toBeLessThan(2_000);
  plane.switches.unavailable.clear();
  // A report about it could only be refused.
  await plane.ended(plane.assign({ graphId: "nobody" }));
  expect(run.reports).toEqual([]);
});

test("a run whose report waits for the plane's store is held by heartbeats, and given up by nobody", async () => {
  const answered = gate();
  const { plane } = await world({ echo: async () => ({ done: true }) }, { switches: { reportsWait: answered.passed } });
  const run = plane.assign({ heartbeatMs: 100, leaseMs: 1_000 });
  await until("it is reported", () => plane.calls.some(({ method }) => method === "reportStatus"));
  const since = performance.now();
  await until("two leases have passed", () => performance.now() - since > 2_000);
  expect(heartbeats(plane).at(-1)?.runs).toMatchObject([{ runId: run.assignment.run?.runId }]);
  expect(heartbeats(plane).length).toBeGreaterThan(4);
  answered.open();
  await plane.ended(run);
  expect(run.outcome).toBe(Outcome.OUTCOME_SUCCESS);
  // The runner has heard it: nothing is left to be beaten for.
  const soFar = heartbeats(plane).length;
  await plane.ended(plane.assign({ graphId: "nobody" }));
  expect(heartbeats(plane).length - soFar).toBeLessThanOrEqual(1);
});

test.each([
  ["goes on", (run: RunContext) => new Promise((resolve) => run.signal.addEventListener("abort", resolve))],
  ["ends", async () => ({ late: true })],
])("a process that stood still past its lease and %s then sends nothing of what it makes", async (_what, then) => {
  const go = gate();
  const { plane } = await world({
    echo: async (run: RunContext) => {
      await go.passed;
      // As SIGSTOP does it: no timer, no answer, and then on as if nothing had been.
      const until = performance.now() + 1_500;
      while (performance.now() < until);
      void run.emit.custom("from the past");
      return then(run);
    },
  });
  const run = plane.assign({ heartbeatMs: 100, leaseMs: 1_000 });
  await until("it is held", () => heartbeats(plane).length > 0);
  go.open();
  await plane.ended(plane.assign({ graphId: "nobody" }));
  expect([run.events, run.reports]).toEqual([[], []]);
});

test("in the last third of an unanswered lease no step starts; it starts with the next answer", async () => {
  const go = gate();
  const began: number[] = [];
  const { plane } = await world({
    echo: async (run: RunContext) => {
      await go.passed;
      await run.step("tool", "charge", () => began.push(performance.now()));
      return {};
    },
  });
  const run = plane.assign({ heartbeatMs: 100, leaseMs: 3_000 });
  await until("it is held", () => heartbeats(plane).length > 0);
  plane.switches.unavailable.add("heartbeat");
  const deafAt = performance.now();
  await until("two thirds are over", () => performance.now() - deafAt > 2_200);
  go.open();
  await until("it asks again and again", () => heartbeats(plane).length > 4);
  expect(began).toEqual([]);
  plane.switches.unavailable.clear();
  const heardAt = performance.now();
  await plane.ended(run);
  expect(began).toHaveLength(1);
  expect(began[0]).toBeGreaterThanOrEqual(heardAt);
  expect(run.outcome).toBe(Outcome.OUTCOME_SUCCESS);
});

test("a plane that restarts in the middle of a run loses nothing of it", async () => {
  const go = gate();
  const { plane } = await world({
    echo: async (run: RunContext) => {
      for (let n = 1; n <= 3; n += 1) await run.emit.custom(n);
      await go.passed;
      for (let n = 4; n <= 6; n += 1) await run.emit.custom(n);
      return { done: true };
    },
  });
  const run = plane.assign({ heartbeatMs: 100 });
  await until("the first half", () => run.stored === 3);
  await plane.stop();
  go.open();
  await plane.start();
  await plane.ended(run, 10_000);
  const said = run.events.filter(({ json }) => json.payload).map(({ json }) => json.payload);
  expect(said).toEqual([1, 2, 3, 4, 5, 6]);
  expect(run.outcome).toBe(Outcome.OUTCOME_SUCCESS);
});

test("a report is repeated while the plane cannot take it, and ends the run when it can", async () => {
  const { plane } = await world({ echo: async () => ({ done: true }) });
  plane.switches.unavailable.add("reportStatus");
  const run = plane.assign();
  const reports = (): number => plane.calls.filter(({ method }) => method === "reportStatus").length;
  await until("three tries", () => reports() >= 3);
  expect(run.outcome).toBe(Outcome.OUTCOME_UNSPECIFIED);
  plane.switches.unavailable.clear();
  await plane.ended(run);
  expect(run.report!.values.toString()).toBe('{"done":true}');
});

test("one report that the plane refuses as invalid ends its run as an error, and no other", async () => {
  const { plane } = await world({ echo: async () => ({ done: true }) });
  plane.switches.reportVerdicts.push(ReportVerdict.REPORT_VERDICT_INVALID);
  const run = plane.assign();
  await plane.ended(run);
  expect(run.report!.failure).toMatchObject({ type: "InvalidReport", message: /the test said so/ });
  const next = plane.assign();
  await plane.ended(next);
  expect(next.outcome).toBe(Outcome.OUTCOME_SUCCESS);
});

test("no more runs are taken than there is room for, and room is asked for in one call", async () => {
  const { agent, started } = worker();
  const { plane } = await world({ echo: agent }, { capacity: 3 });
  const runs = Array.from({ length: 5 }, () => plane.assign());
  await until("it is full", () => started.length === 3);
  await until("heartbeats go on", () => heartbeats(plane).length > 0);
  expect(started).toHaveLength(3);
  for (const run of runs) {
    run.cancel = true;
    plane.cancelByWatch(run);
  }
  await until("the rest came", () => runs.every((run) => run.outcome === Outcome.OUTCOME_CANCELLED));
  const asked = plane.calls
    .filter(({ method }) => method === "getJob")
    .map(({ request }) => request as { freeSlots: number });
  expect(Math.max(...asked.map(({ freeSlots }) => freeSlots))).toBe(3);
  expect(Math.min(...asked.map(({ freeSlots }) => freeSlots))).toBeGreaterThan(0);
});

test("a second runner ends the run of one that was stalled past its lease, and the stalled one changes nothing", async () => {
  const woken = gate();
  const { plane } = await world({
    echo: async (run: RunContext) => {
      if (run.attempt > 1) return { by: "second" };
      await run.emit.custom("first");
      await woken.passed;
      void run.emit.custom("from the dead");
      return { by: "first" };
    },
  });
  const run = plane.assign({ heartbeatMs: 60_000, leaseMs: 60_000 });
  await until("the first has spoken", () => run.stored === 1);
  // The plane takes the run away, and this runner hears nothing of it.
  plane.switches.unavailable.add("heartbeat").add("getJob");
  const second = await (async () => {
    plane.switches.unavailable.delete("getJob");
    return runnerFor(plane, { echo: async () => ({ by: "second" }) });
  })();
  expect(second.runner.runnerId).toBeTruthy();
  plane.reassign(run);
  await plane.ended(run);
  woken.open();
  await plane.ended(plane.assign());
  expect(JSON.parse(run.report!.values.toString())).toEqual({ by: "second" });
  expect(run.events.map(({ json }) => json.payload)).not.toContain("from the dead");
});
