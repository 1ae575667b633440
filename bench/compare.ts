import { startDevServer } from "./dev-server.js";
import type { BenchOptions } from "./options.js";
import { startPlane } from "./plane.js";
import { type Circumstances, printTable, saveLine } from "./report.js";
import { type LoadGenerator, measure, type StageResult } from "./stage.js";
import { type Spread, spread } from "./statistics.js";
import type { Stores } from "./stores.js";
import type { System } from "./system.js";
import { latencyWords, type Row } from "./workloads.js";

export interface Session {
  readonly stores: Stores;
  readonly load: LoadGenerator;
  readonly options: BenchOptions;
  readonly about: Circumstances;
}

/** One row: stages of ours and of the peer in turn, A B B A, each on a fresh system. */
export async function compare(session: Session, row: Row): Promise<void> {
  const { options } = session;
  const ours: StageResult[] = [];
  const peers: StageResult[] = [];
  for (let pair = 0; pair < options.pairs; pair++) {
    const order = pair % 2 === 0 ? (["ours", "peer"] as const) : (["peer", "ours"] as const);
    for (const side of order) {
      if (side === "peer" && !row.hasPeer) continue;
      const start = (): Promise<System> =>
        side === "ours" ? startPlane(session.stores, { agents: row.agents, runners: row.runners }) : startDevServer();
      const result = await stage(session, row, start);
      (side === "ours" ? ours : peers).push(result);
      if (options.save)
        saveLine({
          ...session.about,
          workload: row.workload,
          row: row.label,
          agents: row.agents,
          pair,
          side,
          ...result,
        });
    }
  }
  print(row, ours, peers);
  if (options.save)
    saveLine({
      ...session.about,
      workload: row.workload,
      row: row.label,
      agents: row.agents,
      summary: summary(row, ours, peers),
    });
}

async function stage(session: Session, row: Row, start: () => Promise<System>): Promise<StageResult> {
  const system = await start();
  try {
    const job = row.job({ url: system.url, headers: system.headers });
    return await measure(system, session.load, job, { ...session.options, attempts: 3 });
  } finally {
    await system.stop();
  }
}

function summary(
  row: Row,
  ours: readonly StageResult[],
  peers: readonly StageResult[],
): Record<string, Spread | number> {
  const over = (results: readonly StageResult[], pick: (result: StageResult) => number): Spread =>
    spread(results.map(pick));
  const at = (share: "p50" | "p99") => (result: StageResult) =>
    result.latencies[row.latencies[0] as string]?.[share] ?? Number.NaN;
  const ratios = (pick: (result: StageResult) => number): Spread =>
    spread(ours.map((result, pair) => pick(result) / pick(peers[pair] as StageResult)));
  return {
    rate: over(ours, (result) => result.rate),
    p50: over(ours, at("p50")),
    p99: over(ours, at("p99")),
    cpu: over(ours, (result) => result.cpuTotal),
    problems: ours.reduce((sum, result) => sum + problemsOf(result), 0),
    ...(peers.length === ours.length && peers.length > 0
      ? {
          peerRate: over(peers, (result) => result.rate),
          peerP50: over(peers, at("p50")),
          peerP99: over(peers, at("p99")),
          peerCpu: over(peers, (result) => result.cpuTotal),
          peerProblems: peers.reduce((sum, result) => sum + problemsOf(result), 0),
          rateRatio: ratios((result) => result.rate),
          cpuRatio: ratios((result) => result.cpuTotal),
        }
      : {}),
  };
}

/** Errors, doubled and disordered events, events that were owed and not delivered, runs that were not brought to their end or were begun twice. */
export function problemsOf(result: StageResult): number {
  const errors = Object.values(result.errors).reduce((sum, count) => sum + count, 0);
  const missing = result.owed - result.delivered;
  return (
    errors +
    result.doubled +
    result.disordered +
    missing +
    (result.audit?.notFinal ?? 0) +
    (result.audit?.repeated ?? 0)
  );
}

function print(row: Row, ours: readonly StageResult[], peers: readonly StageResult[]): void {
  process.stdout.write(
    `\n${row.workload} ${row.label}, ${row.agents} agents (a line a stage; CPU in µs per ${row.unit})\n`,
  );
  printTable(
    [
      "system",
      `${row.unit}s/s`,
      ...row.latencies.flatMap((name) => [`${latencyWords[name]}p50 ms`, "p99 ms", "of"]),
      "CPU",
      "of it",
      "load CPU",
      "foreign %",
      "delivered",
      "problems",
    ],
    [...ours, ...peers].map((result) => [
      result.system,
      result.rate,
      ...row.latencies.flatMap((name) => {
        const { p50, p99, count } = result.latencies[name] ?? { p50: Number.NaN, p99: Number.NaN, count: 0 };
        return [p50, p99, count];
      }),
      result.cpuTotal,
      Object.entries(result.cpu)
        .map(([part, micros]) => `${part} ${Math.round(micros)}`)
        .join(", "),
      result.loadCpu,
      result.foreignPercent,
      result.owed > 0 ? `${((100 * result.delivered) / result.owed).toFixed(2)} %` : "",
      problemsOf(result),
    ]),
  );
  for (const result of [...ours, ...peers])
    for (const [reason, count] of Object.entries(result.errors))
      process.stdout.write(`  ${result.system}: ${count} × ${reason}\n`);
  if (peers.length !== ours.length || peers.length === 0) return;
  const { rateRatio, cpuRatio } = summary(row, ours, peers) as Record<string, Spread>;
  if (rateRatio && cpuRatio)
    process.stdout.write(
      `  ours / peer, median of ${ours.length} pairs: rate ${rateRatio.median} (${rateRatio.min} to ${rateRatio.max}), CPU ${cpuRatio.median} (${cpuRatio.min} to ${cpuRatio.max})\n`,
    );
}
