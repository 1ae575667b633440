import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

/** Who may import whom, said a second time on purpose: derived from the configuration, this table would agree with any mistake in it. */
const layers: Record<string, string[]> = {
  domain: [],
  platform: ["domain"],
  store: ["domain", "platform", "generated/prisma"],
  governance: ["domain", "platform", "store"],
  catalog: ["domain", "platform", "store", "governance"],
  runs: ["domain", "platform", "store", "governance"],
};
const verbs = ["domain", "platform", "store", "governance", "catalog", "runs"];
for (const facade of ["schema", "agent-protocol", "runner-bridge", "sign-in", "workers"]) {
  layers[facade] = [...verbs, "generated/pothos", "generated/proto"];
}
const targets = [...Object.keys(layers), "generated/prisma", "generated/pothos", "generated/proto", "cli", "dev"];
const pairs = Object.keys(layers).flatMap((from) => targets.filter((to) => to !== from).map((to) => ({ from, to })));
const permitted = pairs.filter(({ from, to }) => layers[from]?.includes(to));
const forbidden = pairs.filter(({ from, to }) => !layers[from]?.includes(to));

/** Every way in which a file can lean on another one, types included. */
const spellings: Record<string, (specifier: string) => string> = {
  value: (from) => `import { v } from "${from}";\nexport const w = v;`,
  type: (from) => `import type { T } from "${from}";\nexport type U = T;`,
  inlineType: (from) => `import { type T } from "${from}";\nexport type U = T;`,
  elidedType: (from) => `import { T } from "${from}";\nexport type U = T;`,
  sideEffect: (from) => `import "${from}";`,
  reexport: (from) => `export * from "${from}";`,
  typeReexport: (from) => `export type { T } from "${from}";`,
  dynamic: (from) => `export const load = () => import("${from}");`,
};

/** The rules that are not about layers: file, what stands in it, the rule that has to speak. */
const violations: [path: string, source: string, rule: string][] = [
  ["src/domain/disk.ts", 'import type { Stats } from "node:fs";\nexport type S = Stats;', "domain-is-pure"],
  ["src/domain/zod.ts", 'import { z } from "zod";\nexport const s = z;', "domain-is-pure"],
  ["src/schema/writes.ts", 'import { v } from "../store/tx.js";\nexport const w = v;', "facades-never-write"],
  ["src/workers/writes.ts", 'import type { T } from "../store/tx.js";\nexport type U = T;', "facades-never-write"],
  ["src/runs/sql.ts", 'import { Pool } from "pg";\nexport const p = Pool;', "one-door-to-postgres"],
  ["src/platform/live-sql.ts", 'import { Client } from "pg";\nexport const c = Client;', "one-door-to-postgres"],
  ["src/cli/sql.ts", 'import { Client } from "pg";\nexport const c = Client;', "one-door-to-postgres"],
  ["src/main-sql.ts", 'import type { Pool } from "pg";\nexport type P = Pool;', "one-door-to-postgres"],
  [
    "src/platform/prisma.ts",
    'import { PrismaPg } from "@prisma/adapter-pg";\nexport const p = PrismaPg;',
    "one-door-to-postgres",
  ],
  ["src/store/redis.ts", 'import { Redis } from "ioredis";\nexport const r = Redis;', "one-door-to-redis"],
  ["src/workers/queue.ts", 'import { Queue } from "bullmq";\nexport const q = Queue;', "one-door-to-redis"],
  ["src/runs/redis.ts", 'import type { Redis } from "ioredis";\nexport type R = Redis;', "one-door-to-redis"],
  [
    "src/runs/grpc.ts",
    'import type { Metadata } from "@grpc/grpc-js";\nexport type M = Metadata;',
    "one-door-to-runners",
  ],
  [
    "src/sign-in/oidc.ts",
    'import type { Configuration } from "openid-client";\nexport type C = Configuration;',
    "one-door-to-providers",
  ],
  ["src/runs/system.ts", 'import { v } from "../store/system.js";\nexport const w = v;', "cross-tenant-reads-are-rare"],
  [
    "src/governance/peek.ts",
    'import { v } from "../store/system.js";\nexport const w = v;',
    "cross-tenant-reads-are-rare",
  ],
  ["src/workers/wires.ts", 'import { v } from "../compose.js";\nexport const w = v;', "wiring-in-one-place"],
  ["src/runs/asks-main.ts", 'import { v } from "../main.js";\nexport const w = v;', "edges-are-not-imported"],
  [
    "src/new-folder/asks-dev.ts",
    'import { v } from "../dev/target.js";\nexport const w = v;',
    "edges-are-not-imported",
  ],
  ["src/runs/circle-a.ts", 'import { b } from "./circle-b.js";\nexport const a = b;', "no-cycles"],
  ["src/runs/asks-barrel.ts", 'import { v } from "../catalog/index.js";\nexport const w = v;', "no-barrels"],
  ["src/runs/asks-drawer.ts", 'import { v } from "./utils.js";\nexport const w = v;', "no-drawers"],
  [
    "src/runs/asks-test.ts",
    'import { v } from "../../test/support/world.js";\nexport const w = v;',
    "src-stands-alone",
  ],
  [
    "src/dev/asks-runner.ts",
    'import { v } from "../../runners/typescript/src/target.js";\nexport const w = v;',
    "src-stands-alone",
  ],
  [
    "runners/typescript/src/asks.ts",
    'import type { T } from "../../../src/domain/target.js";\nexport type U = T;',
    "islands",
  ],
  ["bench/asks.ts", 'import { v } from "../src/compose.js";\nexport const w = v;', "islands"],
  ["src/runs/check.ts", 'import fc from "fast-check";\nexport const f = fc;', "production-dependencies"],
  ["src/runs/lost.ts", 'import { v } from "./nowhere.js";\nexport const w = v;', "resolvable"],
  ["src/runs/alone.ts", "export const v = 1;", "no-orphans"],
];

/** The doors themselves, and those who may pass them. */
const innocents: [path: string, source: string][] = [
  ["src/store/pool.ts", 'import { Pool } from "pg";\nexport const p = Pool;'],
  ["src/platform/live.ts", 'import { Redis } from "ioredis";\nexport const r = Redis;'],
  ["src/store/queue-schema.ts", 'import { runMigrations } from "bullmq";\nexport const r = runMigrations;'],
  ["src/platform/queue.ts", 'import { Queue } from "bullmq";\nexport const q = Queue;'],
  ["src/runner-bridge/server.ts", 'import { Server } from "@grpc/grpc-js";\nexport const s = Server;'],
  ["src/generated/proto/service.ts", 'import { Client } from "@grpc/grpc-js";\nexport const c = Client;'],
  ["src/governance/authenticate.ts", 'import { v } from "../store/system.js";\nexport const w = v;'],
  ["src/workers/sweep.ts", 'import { v } from "../store/system.js";\nexport const w = v;'],
  [
    "src/cli/keys.ts",
    'import { v } from "../compose.js";\nimport { v as s } from "../store/system.js";\nexport const w = [v, s];',
  ],
  [
    "src/dev/plane.ts",
    'import { v } from "../compose.js";\nimport { v as t } from "../store/tx.js";\nexport const w = [v, t];',
  ],
  [
    "src/main.ts",
    'import { v as c } from "./compose.js";\nimport { v as d } from "./dev/target.js";\nexport const v = [c, d];',
  ],
  ["src/runs/uses-tx.ts", 'import { v } from "../store/tx.js";\nexport const w = v;'],
  ["test/flow/any.test.ts", 'import { v } from "../../src/compose.js";\nexport const w = v;'],
];

interface Cruise {
  modules: { source: string }[];
  summary: { totalCruised: number; violations: { from: string; to: string; rule: { name: string } }[] };
}

const root = process.cwd();
let tree: string;
let planted: Cruise;

beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "fairlead-rules-"));
  symlinkSync(join(root, "node_modules"), join(tree, "node_modules"), "dir");
  for (const file of [".dependency-cruiser.cjs", "package.json"]) cpSync(join(root, file), join(tree, file));
  const target = 'import { v as only } from "./leaf.js";\nexport const v = only;\nexport interface T { v: number }';
  for (const folder of [...targets.map((name) => `src/${name}`), "runners/typescript/src"]) {
    plant(`${folder}/target.ts`, target);
    plant(`${folder}/leaf.ts`, "export const v = 1;");
  }
  for (const file of ["store/tx", "store/system", "compose", "catalog/index", "runs/utils"]) {
    plant(`src/${file}.ts`, "export const v = 1;\nexport interface T { v: number }");
  }
  // The way back is a type alone, and it is a cycle all the same.
  plant(
    "src/runs/circle-b.ts",
    'import type { a } from "./circle-a.js";\nexport const b = 1;\nexport type A = typeof a;',
  );
  plant("test/support/world.ts", "export const v = 1;");
  for (const { from, to } of pairs) plant(fileOf(from, to), valueImport(from, to));
  for (const [spelling, write] of Object.entries(spellings)) {
    plant(`src/domain/spelled-${spelling}.ts`, write("../store/target.js"));
  }
  for (const [path, source] of [...violations, ...innocents]) plant(path, source);
  planted = cruise(tree, ["src", "runners/typescript/src", "bench", "test"]);
});

afterAll(() => rmSync(tree, { recursive: true, force: true }));

test.each(forbidden)("$from may not import $to", ({ from, to }) => {
  const rule = from === "domain" ? "domain-is-pure" : `${from}-imports`;
  expect(rulesBrokenBy(fileOf(from, to))).toContain(rule);
});

test.each(permitted)("$from may import $to", ({ from, to }) => {
  expect(rulesBrokenBy(fileOf(from, to))).toEqual([]);
});

test.each(Object.keys(spellings))("an import is seen when it is written as: %s", (spelling) => {
  expect(rulesBrokenBy(`src/domain/spelled-${spelling}.ts`)).toEqual(["domain-is-pure"]);
});

test.each(violations)("%s is refused", (path, _source, rule) => {
  expect(rulesBrokenBy(path)).toContain(rule);
});

test.each(innocents)("%s is left alone", (path) => {
  expect(rulesBrokenBy(path)).toEqual([]);
});

test("every rule of the configuration has a planted violation that it reports", () => {
  const script = 'console.log(JSON.stringify(require("./.dependency-cruiser.cjs").forbidden.map((rule) => rule.name)))';
  const listed = spawnSync(process.execPath, ["-e", script], { cwd: root, encoding: "utf8" });
  const reported = new Set(planted.summary.violations.map(({ rule }) => rule.name));
  expect([...reported].sort()).toEqual(JSON.parse(listed.stdout).sort());
});

test("the real tree keeps the import rules, and is really read", () => {
  const { modules, summary } = cruise(root, ["src", "runners/typescript/src"]);
  const ours = modules.filter(({ source }) => /^(src|runners)\/.*[.]ts$/.test(source));
  expect(ours.length).toBeGreaterThan(10);
  expect(summary.violations.map(({ from, to, rule }) => `${rule.name}: ${from} → ${to}`)).toEqual([]);
});

function plant(path: string, source: string): void {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  writeFileSync(join(tree, path), `${source}\n`);
}

function fileOf(from: string, to: string): string {
  return `src/${from}/asks-${to.replace("/", "-")}.ts`;
}

function valueImport(from: string, to: string): string {
  const up = "../".repeat(from.split("/").length);
  return `import { v } from "${up}${to}/target.js";\nexport const w = v;`;
}

function rulesBrokenBy(path: string): string[] {
  const names = planted.summary.violations.filter(({ from }) => from === path).map(({ rule }) => rule.name);
  return [...new Set(names)];
}

function cruise(directory: string, folders: string[]): Cruise {
  const command = join(root, "node_modules/dependency-cruiser/bin/dependency-cruise.mjs");
  const run = spawnSync(process.execPath, [command, "--config", ".dependency-cruiser.cjs", "-T", "json", ...folders], {
    cwd: directory,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  expect(run.stderr).toBe("");
  return JSON.parse(run.stdout);
}
