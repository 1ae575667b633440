import { afterAll, beforeAll, expect, test } from "vitest";
import { redisAvailable } from "../support/redis.js";
import { until } from "../support/until.js";
import { cpuMicros, type MeasuredPlane, openDescriptors, startMeasuredPlane } from "./measured-plane.js";

// What a run may cost at 64 clients. The counts are those of docs/performance.md; the processor's time is a tripwire, three times what it is on a quiet
// machine, because a shared one stretches it.

const clients = 64;
const runs = 1_500;
const planeMicrosPerRun = 2_000;

let measured: MeasuredPlane;

beforeAll(async () => {
  measured = await startMeasuredPlane();
  await measured.runner({ echo: (run) => run.input });
  // Caches, plans, and the compiler of node have seen the path.
  await measured.runs("echo", 500, clients);
}, 120_000);

afterAll(() => measured.stop());

test.skipIf(!redisAvailable())(
  "a run costs half a statement, a fifth of a flush and no round trip to Redis (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    await measured.resetStatements();
    const before = {
      flushes: await measured.walFlushes(),
      trips: await measured.redisRoundTrips(),
      cpu: cpuMicros(measured.plane.pid),
    };
    await measured.runs("echo", runs, clients);
    const cpu = (cpuMicros(measured.plane.pid) - before.cpu) / runs;
    const statements = (await measured.statements()) / runs;
    const trips = ((await measured.redisRoundTrips()) - before.trips) / runs;
    // The counters of a backend are sent at most once a second.
    await until("the flushes are counted", async () => (await measured.walFlushes()) > before.flushes);
    const flushes = ((await measured.walFlushes()) - before.flushes) / runs;
    process.stdout.write(
      `a run: ${statements.toFixed(3)} statements, ${flushes.toFixed(3)} flushes, ${trips.toFixed(3)} round trips to Redis, ${Math.round(cpu)} µs of the plane\n`,
    );
    expect(
      { statements: statements <= 0.5, flushes: flushes <= 0.2, trips: trips <= 0.3 },
      JSON.stringify({ statements, flushes, trips }),
    ).toEqual({ statements: true, flushes: true, trips: true });
    expect(statements, "the counters count").toBeGreaterThan(0.01);
    expect(cpu).toBeLessThan(planeMicrosPerRun);
  },
);

test.skipIf(!redisAvailable())(
  "two thousand runs leave no key in Redis and no open handle behind (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    const before = { keys: await measured.redisKeys(), handles: openDescriptors(measured.plane.pid) };
    await measured.runs("echo", 2_000, clients);
    await until(
      "the connections of the clients are closed",
      () => openDescriptors(measured.plane.pid) <= before.handles,
      20_000,
    );
    expect(openDescriptors(measured.plane.pid)).toBeLessThanOrEqual(before.handles);
    expect(await measured.redisKeys()).toBeLessThanOrEqual(before.keys + 2);
  },
);
