import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";

/**
 * The repository about itself: what neither the compiler, the linter nor the import rules can say. A rule looks at one file and answers the
 * lines that break it; its message names the replacement. `breaks` and `keeps` are planted, so that each rule is seen to bite and to let go.
 */
interface Rule {
  name: string;
  message: string;
  covers: (path: string) => boolean;
  linesOf: (text: string, path: string) => number[];
  breaks: [path: string, text: string][];
  keeps: [path: string, text: string][];
}

const MAX_LINES = 400;
const isCode = (path: string) => /[.](ts|mts|mjs|cjs|tsx)$/.test(path);
const isTest = (path: string) => path.startsWith("test/") && isCode(path);
const isSrc = (path: string) => path.startsWith("src/");
const everyLine = () => [1];

/** The folders that the import rules know; a new one needs a rule there before it gets its first file. */
const srcFolders = [
  ...["domain", "platform", "store", "governance", "catalog", "runs"],
  ...["schema", "agent-protocol", "runner-bridge", "sign-in", "workers", "cli", "dev", "generated"],
];
const srcFiles = ["main.ts", "compose.ts", "http.ts"];
const testFolders = [
  ...["support", "fixtures", "domain", "platform", "store", "flow", "facade", "tenancy", "dispatch"],
  ...["runner", "fault", "gates", "golden", "scripts", "runs"],
];

const rules: Rule[] = [
  {
    name: "length",
    message: `A file of more than ${MAX_LINES} lines has two subjects: split it by noun.`,
    covers: isCode,
    linesOf: (text) => (text.trimEnd().split("\n").length > MAX_LINES ? [MAX_LINES + 1] : []),
    breaks: [["src/runs/long.ts", "x;\n".repeat(MAX_LINES + 1)]],
    keeps: [["src/runs/long.ts", "x;\n".repeat(MAX_LINES)]],
  },
  {
    name: "drawers",
    message: "Name the file or folder after what it holds: everything fits into a drawer of this name.",
    covers: (path) => /(^|\/)(utils?|helpers?|common|shared|misc|stuff)(\/|[.])/.test(path),
    linesOf: everyLine,
    breaks: [
      ["src/runs/utils.ts", ""],
      ["test/support/helpers/clock.ts", ""],
    ],
    keeps: [["src/runs/shared-thread.ts", ""]],
  },
  {
    name: "barrels",
    message: "Import from the file that defines it; only a package's entry and src/schema/index.ts are called index.",
    covers: (path) =>
      /(^|\/)index[.]m?[tj]s$/.test(path) && !["src/schema/index.ts", "runners/typescript/src/index.ts"].includes(path),
    linesOf: everyLine,
    breaks: [["src/runs/index.ts", ""]],
    keeps: [["src/schema/index.ts", ""]],
  },
  {
    name: "tree",
    message:
      "src and test have a fixed set of folders, each with its own rules: put the file into one of them (CONTRIBUTING.md).",
    covers: (path) => isSrc(path) || isTest(path),
    linesOf: (_text, path) => (standsInTheTree(path) ? [] : [1]),
    breaks: [
      ["src/services/run.ts", ""],
      ["src/run.ts", ""],
      ["test/e2e/run.test.ts", ""],
    ],
    keeps: [
      ["src/runs/create-run.ts", ""],
      ["src/main.ts", ""],
      ["test/tidy.test.ts", ""],
      ["test/fault/kill.test.ts", ""],
    ],
  },
  {
    name: "debts",
    message: "Give it the number of an issue, as in TODO(#12), or do it now.",
    covers: isCode,
    linesOf: matching(/\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))/),
    breaks: [["src/runs/a.ts", "// TODO later"]],
    keeps: [["src/runs/a.ts", "// TODO(#12): later"]],
  },
  {
    name: "banners",
    message: "A file that needs section banners wants splitting.",
    covers: isCode,
    linesOf: matching(/^\s*(\/\/|\*|\/\*+)\s*[-=*#~─━/]{4,}/),
    breaks: [["src/runs/a.ts", "// ------- queries -------"]],
    keeps: [["src/runs/a.ts", "// Queries come first - they are read most."]],
  },
  {
    name: "silenced",
    message: "Say behind it, or in a comment line above it, why the rule or the type is wrong here.",
    covers: isCode,
    linesOf: silencedWithoutReason,
    breaks: [
      ["src/runs/a.ts", "// @ts-expect-error"],
      ["src/runs/a.ts", "// oxlint-disable-next-line no-console"],
    ],
    keeps: [
      ["src/runs/a.ts", "// @ts-expect-error: the type of an old driver lacks it."],
      ["src/runs/a.ts", "/** The author knows its shape. */\n// oxlint-disable-next-line typescript/no-explicit-any"],
    ],
  },
  {
    name: "left-out",
    message: "A test that never runs promises nothing: repair or delete it (skipIf names a missing tool).",
    covers: isTest,
    linesOf: matching(/\b(test|it|describe)[.](skip|todo)\b/),
    breaks: [["test/flow/a.test.ts", 'test.skip("later", () => {});']],
    keeps: [["test/flow/a.test.ts", 'test.skipIf(!redis)("queues", () => {});']],
  },
  {
    name: "mocks",
    message: "Use the real part; only the far side of a wire may be played, and it speaks real bytes.",
    covers: isTest,
    linesOf: matching(/\b(vi|jest)[.](mock|doMock|hoisted|stubGlobal)\(/),
    breaks: [["test/flow/a.test.ts", 'vi.mock("../../src/store/runs.js");']],
    keeps: [["test/flow/a.test.ts", "vi.fn();"]],
  },
  {
    name: "tenants",
    message: "No statement sets app.tenants for longer than its transaction: use set_config(…, true) inside one.",
    covers: isSrc,
    linesOf: matching(/set_config\('app\.tenants',[^)]*,\s*false\)|\bset (session )?app\.tenants/i),
    breaks: [["src/store/a.ts", "select set_config('app.tenants', $1, false)"]],
    keeps: [["src/store/a.ts", "select set_config('app.tenants', $1, true)"]],
  },
];

const here = "test/tidy.test.ts";
const roots = ["src", "test", "scripts", "bench", "runners/typescript/src", "docs", "prisma"];
const exempt = /(^|\/)(generated|dist|node_modules|fixtures|golden)\//;
const files = roots.flatMap(filesBelow).filter((path) => !exempt.test(path));

test.each(rules)("the tree keeps the rule: $name", ({ name, message, covers, linesOf }) => {
  // This file shows what every rule forbids.
  const covered = files.filter((path) => covers(path) && (path !== here || name === "length"));
  const broken = covered.flatMap((path) => linesOf(readFileSync(path, "utf8"), path).map((line) => `${path}:${line}`));
  expect(broken, message).toEqual([]);
});

test.each(rules)("the rule bites: $name", ({ covers, linesOf, breaks }) => {
  for (const [path, text] of breaks)
    expect(covers(path) && linesOf(text, path).length > 0, `${path}: ${text}`).toBe(true);
  expect(breaks.length).toBeGreaterThan(0);
});

test.each(rules)("the rule lets go: $name", ({ covers, linesOf, keeps }) => {
  for (const [path, text] of keeps)
    expect(covers(path) && linesOf(text, path).length > 0, `${path}: ${text}`).toBe(false);
  expect(keeps.length).toBeGreaterThan(0);
});

test("the tree is really read", () => {
  expect(files).toContain(here);
  expect(files.filter(isSrc).length).toBeGreaterThan(10);
});

function standsInTheTree(path: string): boolean {
  const [top = "", folder = "", ...deeper] = path.split("/");
  if (deeper.length === 0) return top === "test" ? /[.]test[.]ts$/.test(folder) : srcFiles.includes(folder);
  return (top === "test" ? testFolders : srcFolders).includes(folder);
}

function matching(pattern: RegExp): (text: string) => number[] {
  return (text) => text.split("\n").flatMap((line, index) => (pattern.test(line) ? [index + 1] : []));
}

function silencedWithoutReason(text: string): number[] {
  const bare =
    /@ts-(ignore|nocheck|expect-error)\s*$|(oxlint|eslint)-disable(-next-line)?\s+[\w/@-]+\s*$|biome-ignore [\w/]+\s*$/;
  const lines = text.split("\n");
  return matching(bare)(text).filter((line) => !/^\s*(\/\/|\/?\*)/.test(lines[line - 2] ?? ""));
}

function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(".", join(entry.parentPath, entry.name)));
}
