import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Session } from "./compare.js";
import { temporaryFolder } from "./place.js";
import { startPlane } from "./plane.js";
import { readProfile } from "./profile-parts.js";
import { printTable } from "./report.js";
import { measure, type StageResult } from "./stage.js";
import { query } from "./stores.js";

/** Where the time of a run goes: the plane and the runner by part and function, Postgres by statement. */
export async function profile({ stores, load, options }: Session): Promise<void> {
  const folder = temporaryFolder("profile");
  const flags = (part: string): string[] => [
    "--cpu-prof",
    "--cpu-prof-interval",
    "500",
    "--cpu-prof-dir",
    join(folder, part),
  ];
  for (const clients of options.clients ?? [64]) {
    const plane = await startPlane(stores, {
      agents: options.agents[0] ?? "bare",
      planeFlags: flags("plane"),
      runnerFlags: flags("runner"),
    });
    const target = { url: plane.url, headers: plane.headers };
    const job = { kind: "wait", target, clients, warmUpMs: options.warmUpSeconds * 1_000, measureMs: 1_000 } as const;
    await measure(plane, load, job, { ...options, attempts: 1 });
    await query(plane.adminUrl, "select pg_stat_statements_reset()");
    const result = await measure(
      plane,
      load,
      { ...job, warmUpMs: 0, measureMs: options.seconds * 1_000 },
      { ...options, attempts: 1 },
    );
    const measuredAt = performance.now();
    process.stdout.write(
      `\n${clients} clients: ${result.rate} runs/s, CPU µs per run: ${JSON.stringify(result.cpu)}, in all ${result.cpuTotal}\n`,
    );
    await printStatements(plane.adminUrl, result);
    await printDispatch(plane.url);
    await plane.stop();
    const skipMs = performance.now() - measuredAt;
    for (const part of ["plane", "runner"]) {
      const [file] = readdirSync(join(folder, part));
      if (file !== undefined) printParts(part, join(folder, part, file), result, skipMs);
    }
    rmSync(join(folder, "plane"), { recursive: true });
    rmSync(join(folder, "runner"), { recursive: true });
  }
  rmSync(folder, { recursive: true, force: true });
}

function printParts(part: string, file: string, result: StageResult, skipMs: number): void {
  const measuredMs = result.seconds * 1_000 - 500;
  const { parts, hottest, busy } = readProfile(file, measuredMs, skipMs);
  const runs = (result.rate * measuredMs) / 1_000;
  const per = (micros: number): number => Math.round((10 * micros) / runs) / 10;
  process.stdout.write(`\n${part}, µs per run (${per(busy)} in all, the profiler's own time included)\n`);
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
    ["µs/run", "calls/run", "statement"],
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
