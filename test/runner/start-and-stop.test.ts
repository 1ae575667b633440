import { createRunner, type RunContext, RunnerError, silentLogger } from "@fairlead/runner";
import { expect, test } from "vitest";
import manifest from "../../runners/typescript/package.json" with { type: "json" };
import { VERSION } from "../../runners/typescript/src/version.js";
import { type GetJobRequest, Outcome, Recovery } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { until } from "./support/until.js";
import { gate, makeRunner, planeFor, world } from "./support/world.js";

const echo = async (): Promise<object> => ({});

async function failureOf(promise: Promise<unknown>): Promise<RunnerError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(RunnerError);
  return error as RunnerError;
}

test("agents are announced with the first call only, and again when the plane asks", async () => {
  const { plane } = await world({ b: echo, a: echo });
  await plane.ended(plane.assign({ graphId: "a" }));
  expect(plane.announced).toHaveLength(1);
  expect(plane.announced[0]).toMatchObject([
    { graphId: "a", recovery: Recovery.RECOVERY_RESTART, maxAttempts: 0 },
    { graphId: "b" },
  ]);
  const asked = plane.calls
    .map(({ request }) => request as GetJobRequest)
    .filter((request) => request?.announcementDigest);
  expect(new Set(asked.map(({ announcementDigest }) => announcementDigest)).size).toBe(1);
  plane.switches.knowsAnnouncements = false;
  await plane.ended(plane.assign({ graphId: "b" }));
  await until("announced again", () => plane.announced.length === 2);
});

test("what a runner says about itself is its version, and it is the package's", async () => {
  const { plane, runner } = await world({ echo }, { capacity: 7 });
  const request = plane.calls.find(({ method }) => method === "getJob")!.request as GetJobRequest;
  expect(request).toMatchObject({
    runnerId: runner.runnerId,
    kind: "typescript",
    version: VERSION,
    capacity: 7,
    freeSlots: 7,
  });
  expect(VERSION).toBe(manifest.version);
});

test("a wrong token ends the start with one line that says what to do", async () => {
  const plane = await planeFor();
  const { runner } = makeRunner(plane, { echo }, { token: "flr_wrong" });
  const error = await failureOf(runner.start());
  expect(error.code).toBe("refused");
  expect(error.message).toMatch(/does not accept the runner token \(unknown token\)\. Create a new token/);
  expect(error.message).not.toContain("\n");
  await expect(runner.ended).rejects.toBe(error);
});

test("a token of another kind ends the start and names both kinds", async () => {
  const plane = await planeFor({ kind: "python" });
  const error = await failureOf(makeRunner(plane, { echo }).runner.start());
  expect(error.message).toMatch(/refuses this runner as kind "typescript" \(the token is for kind python\)/);
});

test("a token that is revoked later ends the runner: its runs stop and `ended` rejects", async () => {
  const stopped = gate<unknown>();
  const { plane, runner, log } = await world({
    echo: (run: RunContext) =>
      new Promise((_, reject) => run.signal.addEventListener("abort", () => reject(run.signal.reason))).catch(
        stopped.open,
      ),
  });
  plane.assign({ heartbeatMs: 100 });
  await until("it is held", () => plane.calls.some(({ method }) => method === "heartbeat"));
  plane.switches.token = "flr_other";
  expect(await stopped.passed).toMatchObject({ code: "refused" });
  await expect(runner.ended).rejects.toMatchObject({ code: "refused" });
  expect(log.filter((line) => line.includes("does not accept the runner token"))).toHaveLength(1);
});

test("an absent plane is waited for, with one warning", async () => {
  const plane = await planeFor();
  await plane.stop();
  const { runner, log } = makeRunner(plane, { echo });
  const started = runner.start();
  await until("it has tried", () => log.some((line) => line.includes("cannot be reached")));
  await plane.start();
  await started;
  await plane.ended(plane.assign());
  expect(log.filter((line) => line.includes("cannot be reached"))).toHaveLength(1);
});

test("a runner that is stopped while it waits for the plane ends at once", async () => {
  const plane = await planeFor();
  await plane.stop();
  const { runner } = makeRunner(plane, { echo });
  const started = failureOf(runner.start());
  await runner.stop({ drainMs: 60_000 });
  expect(await started).toMatchObject({ code: "released" });
  await plane.start();
});

test("a drain finishes what ends in time, hands back the rest, and asks for nothing more", async () => {
  const go = gate();
  const told = gate<unknown>();
  const { plane, runner } = await world(
    {
      quick: () => go.passed.then(() => ({ done: true })),
      slow: (run: RunContext) =>
        new Promise((_, reject) =>
          run.signal.addEventListener("abort", () => {
            told.open(run.signal.reason);
            reject(run.signal.reason);
          }),
        ),
      deaf: () => new Promise(() => {}),
    },
    { capacity: 5 },
  );
  const [quick, slow, deaf] = ["quick", "slow", "deaf"].map((graphId) => plane.assign({ graphId }));
  await until("all are held", () => plane.calls.some(({ method }) => method === "heartbeat"));
  const polls = (): number => plane.calls.filter(({ method }) => method === "getJob").length;
  const before = polls();
  const stopped = runner.stop({ drainMs: 300 });
  const late = plane.assign({ graphId: "quick" });
  go.open();
  await stopped;
  expect(quick!.outcome).toBe(Outcome.OUTCOME_SUCCESS);
  for (const run of [slow!, deaf!]) {
    expect(run.report!.outcome).toBe(Outcome.OUTCOME_RELEASED);
    expect(run.outcome).toBe(Outcome.OUTCOME_UNSPECIFIED);
  }
  expect(await told.passed).toMatchObject({ code: "released" });
  expect(polls()).toBe(before);
  expect(late.reports).toEqual([]);
  await runner.ended;
});

test("a drain without runs is quick, and stopping twice is stopping once", async () => {
  const { runner } = await world({ echo });
  const at = performance.now();
  await Promise.all([runner.stop({ drainMs: 60_000 }), runner.stop()]);
  expect(performance.now() - at).toBeLessThan(1_000);
});

const good = { address: "127.0.0.1:1", token: "flr_x", agents: { echo }, logger: silentLogger };

test.each([
  [{ address: "nowhere" }, /address: "nowhere" is not host:port/],
  [{ address: "ftp://a:1" }, /address: "ftp:\/\/" is unknown/],
  [{ token: "" }, /token: is missing/],
  [{ capacity: 0 }, /capacity: must be a whole number from 1 to 100, it is 0/],
  [{ capacity: 101 }, /capacity: must be/],
  [{ kind: "" }, /kind: must be a text/],
  [{ agents: {} }, /agents: is empty/],
  [{ tls: { cert: "only" } }, /tls: cert and key belong together/],
])("wrong options %j are refused by name", (wrong, message) => {
  expect(() => createRunner({ ...good, ...wrong })).toThrow(message);
});
