import { Redis } from "ioredis";
import type { Session } from "./compare.js";
import { openHandles, residentMiB } from "./cpu.js";
import { startPlane } from "./plane.js";
import { printTable, saveLine } from "./report.js";
import { query } from "./stores.js";

interface Reading {
  readonly minute: number;
  readonly planeMiB: number;
  /** Of it: what V8 uses for objects, and the buffers outside. */
  readonly heapMiB: number;
  readonly buffersMiB: number;
  readonly runnerMiB: number;
  readonly planeHandles: number;
  readonly runnerHandles: number;
  readonly redisKeys: number;
  readonly connections: number;
  readonly runs: number;
}

/** Waits and streams in turn for minutes; what grows with the number of runs, and must not, is read all along. */
export async function soak({ stores, load, options, about }: Session): Promise<void> {
  const plane = await startPlane(stores, { agents: "bare" });
  const redis = new Redis(stores.redisUrl);
  const target = { url: plane.url, headers: plane.headers };
  const readings: Reading[] = [];
  const startedAt = performance.now();
  let runs = 0;
  const problems: Record<string, number> = {};
  const read = async (): Promise<void> => {
    const runner = plane.runners[0]?.pid ?? 0;
    const [row] = await query<{ n: number }>(
      plane.adminUrl,
      "select count(*)::int as n from pg_stat_activity where datname = current_database()",
    );
    const memory = await metricsOf(plane.url);
    readings.push({
      minute: Math.round((performance.now() - startedAt) / 6_000) / 10,
      planeMiB: residentMiB(plane.plane.pid),
      heapMiB: mebibytes(memory, "nodejs_heap_size_used_bytes"),
      buffersMiB: mebibytes(memory, "nodejs_external_memory_bytes"),
      runnerMiB: residentMiB(runner),
      planeHandles: openHandles(plane.plane.pid),
      runnerHandles: openHandles(runner),
      redisKeys: await redis.dbsize(),
      connections: row?.n ?? 0,
      runs,
    });
  };
  try {
    await read();
    const round = { warmUpMs: 0, measureMs: Math.min(15_000, options.minutes * 10_000) };
    for (let n = 0; performance.now() - startedAt < options.minutes * 60_000; n++) {
      const job =
        n % 2 === 0
          ? ({ kind: "wait", target, clients: 16, ...round } as const)
          : ({ kind: "stream", target, clients: 16, tokens: 50, gapMs: 2, ...round } as const);
      const result = await load.run(
        job,
        () => {},
        () => {},
      );
      runs += result.acknowledged;
      const found = {
        ...result.errors,
        doubled: result.doubled,
        disordered: result.disordered,
        undelivered: result.owed - result.delivered,
      };
      for (const [what, count] of Object.entries(found)) if (count > 0) problems[what] = (problems[what] ?? 0) + count;
      if (n % 2 === 1) await read();
    }
    const audit = await plane.audit();
    process.stdout.write(
      `\nSoak of ${options.minutes} minutes: ${runs} runs, problems ${JSON.stringify(problems)}, ${audit?.notFinal} not final, ${audit?.repeated} begun twice\n`,
    );
    printTable(
      [
        "minute",
        "plane MiB",
        "heap MiB",
        "buffers MiB",
        "runner MiB",
        "plane handles",
        "runner handles",
        "Redis keys",
        "connections",
        "runs",
      ],
      readings.map((one) => [
        one.minute,
        one.planeMiB,
        one.heapMiB,
        one.buffersMiB,
        one.runnerMiB,
        one.planeHandles,
        one.runnerHandles,
        one.redisKeys,
        one.connections,
        one.runs,
      ]),
    );
    if (options.save) saveLine({ ...about, workload: "soak", minutes: options.minutes, problems, audit, readings });
  } finally {
    redis.disconnect();
    await plane.stop();
  }
}

async function metricsOf(url: string): Promise<string> {
  return (await fetch(`${url}/metrics`)).text();
}

function mebibytes(metrics: string, name: string): number {
  const value = new RegExp(`^${name} (.+)$`, "m").exec(metrics)?.[1];
  if (value === undefined) throw new Error(`The plane's metrics lack ${name}.`);
  return Math.round(Number(value) / 1_048_576);
}
