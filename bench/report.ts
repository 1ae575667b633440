import { execFileSync } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { cores } from "./options.js";
import { benchFolder, root } from "./place.js";
import { round } from "./statistics.js";

/** What a number must be read with: where, when, and of what it was measured. */
export interface Circumstances {
  readonly at: string;
  readonly commit: string;
  readonly isDirty: boolean;
  readonly versions: Readonly<Record<string, string>>;
  readonly machine: string;
  readonly cores: number;
  readonly command: string;
}

export function circumstances(postgresVersion: string, redisVersion: string): Circumstances {
  const git = (...args: string[]): string =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  const installed = (folder: string, name: string): string =>
    (JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")) as { version: string })
      .version;
  return {
    at: new Date().toISOString(),
    commit: gitOr("unknown", () => git("rev-parse", "--short", "HEAD")),
    isDirty:
      gitOr("", () => git("status", "--porcelain", "--", "src", "runners", "prisma", "package-lock.json")) !== "",
    versions: {
      node: process.versions.node,
      postgres: postgresVersion,
      redis: redisVersion,
      bullmq: installed(root, "bullmq"),
      grpc: installed(root, "@grpc/grpc-js"),
      langgraphApi: installed(benchFolder, "@langchain/langgraph-api"),
      langgraph: installed(benchFolder, "@langchain/langgraph"),
    },
    machine: cpus()[0]?.model.trim() ?? "unknown",
    cores,
    command: `npm run bench -- ${process.argv.slice(2).join(" ")}`.trim(),
  };
}

function gitOr(otherwise: string, ask: () => string): string {
  try {
    return ask();
  } catch {
    // A checkout without its history can be measured too.
    return otherwise;
  }
}

/** One line of JSON a stage or row. */
export function saveLine(line: object): void {
  appendFileSync(join(benchFolder, "baselines.jsonl"), `${JSON.stringify(line)}\n`);
}

/** A table in plain text; numbers to the right. */
export function printTable(columns: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  const text = rows.map((row) => row.map((cell) => (typeof cell === "number" ? number(cell) : cell)));
  const widths = columns.map((name, at) => Math.max(name.length, ...text.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[], isNumber: (at: number) => boolean): string =>
    cells.map((cell, at) => (isNumber(at) ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0))).join("  ");
  process.stdout.write(`${line(columns, (at) => typeof rows[0]?.[at] === "number")}\n`);
  rows.forEach((row, index) => {
    process.stdout.write(`${line(text[index] ?? [], (at) => typeof row[at] === "number")}\n`);
  });
}

function number(value: number): string {
  return Number.isNaN(value) ? "–" : round(value).toLocaleString("en-US");
}
