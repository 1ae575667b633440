import type { LimitJob } from "./limits/jobs.js";
import type { BenchOptions } from "./options.js";
import { type Circumstances, printTable, saveLine } from "./report.js";
import { measure, type StageResult, startLoadGenerator } from "./stage.js";
import { query, type Stores } from "./stores.js";

/** What the parts can do alone on this machine, measured like everything else. */
export async function measureLimits(stores: Stores, options: BenchOptions, about: Circumstances): Promise<void> {
  const times = { warmUpMs: options.warmUpSeconds * 1_000, measureMs: options.seconds * 1_000 };
  const database = await stores.emptyDatabase();
  const limits: { name: string; groups: Record<string, number[]>; job: LimitJob }[] = [1, 64, 256].flatMap(
    (clients) => [
      {
        name: `BullMQ add and process, ${clients} callers`,
        groups: { redis: [stores.redisPid] },
        job: { kind: "bullmq", redisUrl: stores.redisUrl, clients, ...times },
      },
      {
        name: `coalesced durable inserts, ${clients} callers`,
        groups: { postgres: [stores.postgresPid] },
        job: { kind: "commits", databaseUrl: database, clients, ...times },
      },
    ],
  );
  limits.push({
    name: "graph.stream of the echo graph, 1 caller",
    groups: {},
    job: { kind: "graph", clients: 1, ...times },
  });
  const results: StageResult[] = [];
  for (const limit of limits) {
    const program = startLoadGenerator<LimitJob>("limits/main.ts");
    const system = {
      name: limit.name,
      groups: { program: [program.pid], ...limit.groups },
      audit: () => Promise.resolve(null),
    };
    const result = await measure(system, program, limit.job, { ...options, attempts: 3 });
    program.stop();
    results.push(result);
    if (options.save) saveLine({ ...about, workload: "limit", row: limit.name, ...result });
  }
  await query(stores.adminUrl, `drop database ${new URL(database).pathname.slice(1)} with (force)`);
  process.stdout.write("\nLimits of this machine (CPU in µs per operation)\n");
  printTable(
    ["limit", "per s", "p50 ms", "p99 ms", "CPU", "of it", "foreign %"],
    results.map((result) => [
      result.system,
      result.rate,
      result.latencies.whole?.p50 ?? Number.NaN,
      result.latencies.whole?.p99 ?? Number.NaN,
      result.cpuTotal,
      Object.entries(result.cpu)
        .map(([part, micros]) => `${part} ${Math.round(micros)}`)
        .join(", "),
      result.foreignPercent,
    ]),
  );
}
