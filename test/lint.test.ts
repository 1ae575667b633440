import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

/** A file for every ban, the rule that has to report it, and the words that name the replacement. */
const violations: [path: string, source: string, rule: string, replacement: string][] = [
  ["src/runs/new-date.ts", "export const now = new Date();", "clock", "Take a Clock"],
  ["src/runs/date-now.ts", "export const now = Date.now();", "clock", "Take a Clock"],
  ["src/runs/env.ts", "export const home = process.env['HOME'];", "environment", "src/platform/config.ts"],
  ["src/runs/env-taken.ts", "export const { env } = process;", "environment", "src/platform/config.ts"],
  [
    "src/runs/env-import.ts",
    "import { env } from 'node:process';\nexport const home = env['HOME'];",
    "environment",
    "src/platform/config.ts",
  ],
  ["src/platform/jitter.ts", "export const jitter = Math.random();", "random", "Take a Random"],
  ["src/runs/error.ts", "export function f() {\n  throw new Error('no');\n}", "errors", "DomainError"],
  ["src/runs/type-error.ts", "export function f() {\n  throw TypeError('no');\n}", "errors", "DomainError"],
  ["src/domain/colour.ts", "export enum Colour { Red }", "enums", "as const"],
  [
    "test/flow/sleep.test.ts",
    "export const s = () => new Promise((resolve) => setTimeout(resolve, 50));",
    "sleeps",
    "condition",
  ],
  [
    "test/flow/sleep2.test.ts",
    "export const s = () => new Promise<void>((done) => { setTimeout(() => done(), 50); });",
    "sleeps",
    "condition",
  ],
  [
    "test/flow/sleep3.test.ts",
    "import { setTimeout } from 'node:timers/promises';\nexport const s = setTimeout;",
    "sleeps",
    "condition",
  ],
  [
    "src/runs/floating.ts",
    "async function f() {}\nexport function g() {\n  f();\n}",
    "no-floating-promises",
    "awaited",
  ],
  [
    "src/runs/misused.ts",
    "export function g(f: () => Promise<boolean>) {\n  return f() ? 1 : 2;\n}",
    "no-misused-promises",
    "Promise",
  ],
  [
    "src/runs/switch.ts",
    "export function g(x: 'a' | 'b'): number {\n  switch (x) {\n    case 'a':\n      return 1;\n  }\n  return 2;\n}",
    "switch-exhaustiveness-check",
    "exhaustive",
  ],
  [
    "src/runs/types.ts",
    "import { Agent } from 'node:http';\nexport type A = Agent;",
    "consistent-type-imports",
    "type",
  ],
  ["src/runs/hidden.ts", "export type S = import('node:fs').Stats;", "visible-imports", "import with a fixed name"],
  ["src/runs/computed.ts", "export const load = (name: string) => import(name);", "visible-imports", "fixed name"],
  [
    "src/runs/slashes.ts",
    "/// <reference path='./types.ts' />\nexport const a = 1;",
    "triple-slash-reference",
    "import",
  ],
  ["src/runs/any.ts", "export type A = any;", "no-explicit-any", "any"],
  ["test/flow/only.test.ts", "import { test } from 'vitest';\ntest.only('x', () => {});", "no-focused-tests", "focus"],
];

/** The same words where they are allowed, and their innocent neighbours. */
const allowed: [path: string, source: string][] = [
  ["src/platform/clock.ts", "export const clock = { now: () => new Date(), ms: () => Date.now() };"],
  ["src/platform/config.ts", "export const home = process.env['HOME'];"],
  ["src/platform/random.ts", "export const random = () => Math.random();"],
  ["src/domain/errors.ts", "export class DomainError extends Error {}\nexport const e = new Error('x');"],
  ["src/runs/late.ts", "export const load = () => import('node:fs');"],
  ["src/runs/parsed.ts", "export const epoch = new Date(0);\nexport class Gone extends Error {}"],
  [
    "test/flow/deadline.test.ts",
    "export const d = () => new Promise((_resolve, reject) => setTimeout(() => reject(new Error('late')), 50));",
  ],
  ["test/flow/now.test.ts", "export const startedAt = Date.now();"],
  ["test/support/pause.ts", "import { setTimeout } from 'node:timers/promises';\nexport const pause = setTimeout;"],
  ["src/generated/colour.ts", "export enum Colour { Red }\nexport type A = any;"],
];

interface Finding {
  filename: string;
  code: string;
  message: string;
  help?: string;
}

const root = process.cwd();
let tree: string;
let findings: Finding[];

beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "fairlead-lint-"));
  symlinkSync(join(root, "node_modules"), join(tree, "node_modules"), "dir");
  for (const file of [".oxlintrc.json", "scripts/lint-rules.mjs", "tsconfig.json", "tsconfig.base.json"]) {
    mkdirSync(dirname(join(tree, file)), { recursive: true });
    cpSync(join(root, file), join(tree, file));
  }
  for (const [path, source] of [...violations, ...allowed]) {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    writeFileSync(join(tree, path), `${source}\n`);
  }
  findings = lint(tree);
});

afterAll(() => rmSync(tree, { recursive: true, force: true }));

test.each(violations)("%s is refused by the linter, with the replacement named", (path, _source, rule, replacement) => {
  const found = findings.filter(({ filename }) => filename === path);
  const report = found.find(({ code }) => code.endsWith(`(${rule})`));
  expect(report, `reported: ${found.map(({ code }) => code).join(", ") || "nothing"}`).toBeDefined();
  expect(`${report?.message} ${report?.help ?? ""}`).toContain(replacement);
});

test.each(allowed)("%s is left alone by the linter", (path) => {
  expect(findings.filter(({ filename }) => filename === path)).toEqual([]);
});

test("the linter reads the real tree", () => {
  const listing = execFileSync("node_modules/.bin/oxlint", ["--debug=files", "src"], { encoding: "utf8" });
  expect(listing).toContain(".ts");
  expect(listing).not.toContain("generated");
});

function lint(directory: string): Finding[] {
  const run = spawnSync(join(root, "node_modules/.bin/oxlint"), ["--type-aware", "-f", "json", "src", "test"], {
    cwd: directory,
    encoding: "utf8",
  });
  expect(run.stderr).toBe("");
  return JSON.parse(run.stdout).diagnostics;
}
