// Writes the code that is made from proto/ and prisma/ into src/generated and the runner package, offline. With --check it writes into a
// scratch folder instead and says what is not current, so that a check never changes the tree.

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join, relative } from "node:path";
import { excerptOf, runQuietly } from "./child.mjs";
import { root } from "./prepare.mjs";
import { explain, Refusal, say } from "./say.mjs";

const inputs = [
  "buf.yaml",
  "buf.gen.yaml",
  "proto",
  "prisma",
  "prisma.config.ts",
  "package.json",
  "tsconfig.json",
  "tsconfig.base.json",
];
const outputs = ["src/generated", "runners/typescript/src/generated"];

try {
  if (process.argv.includes("--check")) await check();
  else await generate(root);
} catch (error) {
  process.exitCode = explain(error);
}

/** @param {string} checkout */
async function generate(checkout) {
  await run(checkout, "buf", ["generate"]);
  if (!existsSync(join(checkout, "prisma", "schema.prisma"))) return;
  // Prisma looks for its native engine before it generates and would download it; generating never runs it, so any existing file will do.
  const engine = process.env["PRISMA_SCHEMA_ENGINE_BINARY"] ?? "/bin/true";
  await run(checkout, "prisma", ["generate"], { PRISMA_SCHEMA_ENGINE_BINARY: engine, PRISMA_HIDE_UPDATE_MESSAGE: "1" });
}

async function check() {
  // Below the checkout, because the generators look for their packages upwards from where they work.
  const scratch = mkdtempSync(join(root, "node_modules", ".fairlead-generate-"));
  try {
    for (const input of inputs) {
      if (existsSync(join(root, input))) cpSync(join(root, input), join(scratch, input), { recursive: true });
    }
    symlinkSync(join(root, "node_modules"), join(scratch, "node_modules"), "dir");
    await generate(scratch);
    const stale = outputs.flatMap((output) => differences(join(root, output), join(scratch, output), output));
    if (stale.length === 0) return;
    throw new Refusal("Generated code is not current: run `npm run generate` and commit the result.", stale.join("\n"));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** @param {string} checkout @param {string} tool @param {string[]} args @param {Record<string, string>} [env] */
async function run(checkout, tool, args, env = {}) {
  const bin = join(root, "node_modules", ".bin");
  const path = [bin, process.env["PATH"]].join(process.platform === "win32" ? ";" : ":");
  const { code, output } = await runQuietly(join(bin, tool), args, {
    cwd: checkout,
    env: { ...process.env, ...env, PATH: path },
    shell: process.platform === "win32",
  });
  if (code !== 0)
    throw new Refusal(`${tool} ${args.join(" ")} failed with ${code}: its reasons are above.`, excerptOf(output));
  say(`${tool} ${args.join(" ")}: done.`);
}

/** @param {string} committed @param {string} fresh @param {string} name @returns {string[]} */
function differences(committed, fresh, name) {
  const ours = filesBelow(committed);
  const theirs = filesBelow(fresh);
  const all = [...new Set([...ours, ...theirs])].sort();
  return all.flatMap((file) => {
    if (!theirs.includes(file)) return [`  nothing generates ${name}/${file}`];
    if (!ours.includes(file)) return [`  missing: ${name}/${file}`];
    const same = readFileSync(join(committed, file)).equals(readFileSync(join(fresh, file)));
    return same ? [] : [`  changed: ${name}/${file}`];
  });
}

/** @param {string} folder */
function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}
