import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Session } from "./compare.js";
import { temporaryFolder } from "./place.js";
import { startPlane } from "./plane.js";
import { readProfile } from "./profile-parts.js";
import { printTable } from "./report.js";
import { measure, type StageResult } from "./stage.js";
import { query } from "./stores.js";
import { type Row, rowsOf } from "./workloads.js";

/** Where the time goes: the plane and the runner by part and function, Postgres by statement. */
export async function profile({ stores, load, options }: Session, workloads: readonly string[]): Promise<void> {
  const rows = workloads.flatMap((workload) => rowsOf(workload, { ...options, agents: [options.agents[0] ?? "bare"] }));
  for (const row of rows) {
    const folder = temporaryFolder("profile");
    const flags = (part: string): string[] => [
      "--cpu-prof",
      "--cpu-prof-interval",
      "500",
      "--cpu-prof-dir",
      join(folder, part),
    ];
    const plane = await startPlane(stores, {
      agents: row.agents,
      runners: row.runners,
      planeFlags: flags("plane"),
      runnerFlags: flags("runner"),
    });
    const target = { url: plane.url, headers: plane.headers };
    // The first time warms up what the second one measures.
    const warmUp = { kind: "wait", target, clients: 16, warmUpMs: 1_000, measureMs: 1_000 } as const;
    await measure(plane, load, warmUp, { ...options, attempts: 1 });
    await query(plane.adminUrl, "select pg_stat_statements_reset()");
    const result = await measure(plane, load, row.job(target), { ...options, attempts: 1 });
    const measuredAt = performance.now();
    process.stdout.write(
      `\n${row.workload} ${row.label}: ${result.rate} ${row.unit}s/s, ${row.latencies.map((name) => `${name} ${JSON.stringify(result.latencies[name])}`).join(", ")}\n` +
        `CPU µs per ${row.unit}: ${JSON.stringify(result.cpu)}, in all ${result.cpuTotal}, foreign ${result.foreignPercent} %\n`,
    );
    await printStatements(plane.adminUrl, result);
    await printDispatch(plane.url);
    await plane.stop();
    const skipMs = performance.now() - measuredAt;
    for (const part of ["plane", "runner"])
      for (const file of readdirSync(join(folder, part)))
        printParts(part, join(folder, part, file), row, result, skipMs);
    rmSync(folder, { recursive: true, force: true });
  }
}

function printParts(part: string, file: string, row: Row, result: StageResult, skipMs: number): void {
  const measuredMs = result.seconds * 1_000;
  const { parts, hottest, busy } = readProfile(file, measuredMs, skipMs);
  const operations = (result.rate * measuredMs) / 1_000;
  const per = (micros: number): number => Math.round((10 * micros) / operations) / 10;
  process.stdout.write(`\n${part}, µs per ${row.unit} (${per(busy)} in all, the profiler's own time included)\n`);
  printTable(
    ["µs", "part"],
    Object.entries(parts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, micros]) => [per(micros), name]),
  );
  process.stdout.write("\nhottest functions\n");
  printTable(
    ["µs", "function"],
    hottest.slice(0, 25).map(({ name, micros }) => [per(micros), name.slice(0, 110)]),
  );
}

async function printStatements(url: string, result: StageResult): Promise<void> {
  const rows = await query<{ calls: number; ms: number; toplevel: boolean; text: string }>(
    url,
    `select calls::int, total_exec_time::float8 as ms, toplevel, left(regexp_replace(query, '\\s+', ' ', 'g'), 100) as text from pg_stat_statements
      where dbid = (select oid from pg_database where datname = current_database()) order by total_exec_time desc limit 25`,
  );
  process.stdout.write("\nPostgres by statement, inner ones of functions marked\n");
  printTable(
    ["µs", "calls", "statement"],
    rows.map((row) => [
      (1_000 * row.ms) / result.operations,
      row.calls / result.operations,
      `${row.toplevel ? "" : "  in: "}${row.text}`,
    ]),
  );
}

async function printDispatch(url: string): Promise<void> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith("fairlead_dispatch_total"));
  process.stdout.write(`\n${lines.join("\n")}\n`);
}
