import { afterAll, beforeAll, expect, test } from "vitest";
import { protocolClient, type SseReader } from "../support/protocol-client.js";
import { type RawRunner, rawRunner } from "../support/raw-runner.js";
import { redisAvailable } from "../support/redis.js";
import { until } from "../support/until.js";
import { cpuMicros, type MeasuredPlane, startMeasuredPlane } from "./measured-plane.js";

// What the plane does when nothing happens. The limit of processor time is a tripwire, several times of what it is on a quiet machine.

const runners = 100;
const followers = 100;
const seconds = 20;

let measured: MeasuredPlane;
const attached: RawRunner[] = [];
const readers: SseReader[] = [];
let follow: () => Promise<SseReader>;

beforeAll(async () => {
  measured = await startMeasuredPlane();
  let release: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await measured.runner({ hold: () => held });
  const client = protocolClient(measured.plane.url, measured.apiKey);
  const thread = await client.json<{ thread_id: string }>("POST", "/threads", {});
  const path = `/threads/${thread.body.thread_id}/runs`;
  const run = await client.json<{ run_id: string }>("POST", path, { assistant_id: "hold", input: {} });
  follow = () => client.stream("GET", `${path}/${run.body.run_id}/stream`);
  ends.push(release);
}, 120_000);

const ends: (() => void)[] = [];

afterAll(async () => {
  for (const end of ends) end();
  for (const reader of readers) reader.close();
  for (const runner of attached) runner.close();
  await measured.stop();
});

test.skipIf(!redisAvailable())(
  "a hundred waiting runners and a hundred followers cost less than 5 statements and 20 commands a second (no redis-server on the PATH)",
  { timeout: 180_000 },
  async () => {
    for (let n = 0; n < runners; n++) {
      const runner = rawRunner({ address: measured.plane.grpcAddress, token: measured.runnerToken, graphs: ["idle"] });
      attached.push(runner);
      // The first answer means that it is known; the second call waits.
      await runner.getJob({ waitMs: 1 });
      void runner.getJob({ waitMs: 50_000 }).catch(() => {});
      runner.watchCancels();
    }
    for (let n = 0; n < followers; n++) readers.push(await follow());
    await until("what was done until now is signed", async () => (await measured.unsignedChains()) === 0, 90_000);
    await measured.resetStatements();
    const trips = await measured.redisRoundTrips();
    const cpu = cpuMicros(measured.plane.pid);
    const from = performance.now();
    await until("the window is over", () => performance.now() - from >= seconds * 1_000);
    const window = (performance.now() - from) / 1_000;
    const idle = {
      statements: (await measured.statements()) / window,
      commands: ((await measured.redisRoundTrips()) - trips) / window,
      cpuPercent: (cpuMicros(measured.plane.pid) - cpu) / window / 10_000,
    };
    process.stdout.write(`idle: ${JSON.stringify(idle)} a second\n`);
    expect(idle.statements, (await measured.statementTexts()).join("\n")).toBeLessThan(5);
    expect(idle.commands).toBeLessThan(20);
    expect(idle.cpuPercent).toBeLessThan(10);
    expect(idle.statements, "the counters count").toBeGreaterThan(0);
  },
);

test.skipIf(!redisAvailable())(
  "five hundred followers need no more database connections than none (no redis-server on the PATH)",
  { timeout: 120_000 },
  async () => {
    await until("connections of the start are idle and gone", async () => (await measured.connections()) < 24);
    const before = await measured.connections();
    while (readers.length < 500) readers.push(await follow());
    expect(readers.length).toBe(500);
    // Joining reads the run, through the pool of readers, which has its bound; following holds none of it.
    expect(await measured.connections()).toBeLessThanOrEqual(Math.max(before, 20));
    await measured.resetStatements();
    const from = performance.now();
    await until("a window is over", () => performance.now() - from >= 3_000);
    expect((await measured.statements()) / 3).toBeLessThan(8);
  },
);
