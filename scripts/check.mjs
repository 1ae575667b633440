// Everything that can fail the build and needs no store, in about a minute. All steps run, so that one visit shows all that is wrong.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { runInForeground } from "./child.mjs";
import { prepare, root } from "./prepare.mjs";
import { explain, say } from "./say.mjs";

const cruised = ["src", "runners/typescript/src", "bench"].filter((folder) => existsSync(join(root, folder)));

/** @type {{ name: string, tool: string, args: string[], cure: string }[]} */
const steps = [
  { name: "types", tool: "typescript/bin/tsc", args: ["-p", "tsconfig.json"], cure: "correct the types" },
  {
    name: "lint",
    tool: "oxlint/bin/oxlint",
    args: ["--type-aware", "--deny-warnings"],
    cure: "each finding names its replacement",
  },
  { name: "format", tool: "@biomejs/biome/bin/biome", args: ["check"], cure: "run `npm run format`" },
  {
    name: "imports",
    tool: "dependency-cruiser/bin/dependency-cruise.mjs",
    args: ["--config", ".dependency-cruiser.cjs", "--output-type", "err-long", ...cruised],
    cure: "CONTRIBUTING.md, “Who may import whom”",
  },
  { name: "generated", tool: "../scripts/generate.mjs", args: ["--check"], cure: "run `npm run generate`" },
  { name: "unit", tool: "../scripts/test.mjs", args: ["--project", "unit"], cure: "correct what the test names" },
];

// `npm run check -- lint imports` runs these two. The continuous integration leaves out `unit`, because it runs all tests anyway.
const named = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const chosen = steps.filter(({ name }) => {
  if (process.argv.includes(`--without-${name}`)) return false;
  return named.length === 0 || named.includes(name);
});

try {
  await prepare();
  const failed = [];
  for (const step of chosen) {
    const startedAt = Date.now();
    const script = join(root, "node_modules", step.tool);
    const code = await runInForeground(process.execPath, [script, ...step.args], { cwd: root });
    const seconds = ((Date.now() - startedAt) / 1000).toFixed(1);
    say(`${code === 0 ? "ok    " : "FAILED"} ${step.name} (${seconds} s)${code === 0 ? "" : `: ${step.cure}`}`);
    if (code !== 0) failed.push(step.name);
  }
  say(failed.length === 0 ? "Everything holds." : `Failed: ${failed.join(", ")}.`);
  process.exitCode = failed.length === 0 ? 0 : 1;
} catch (error) {
  process.exitCode = explain(error);
}
