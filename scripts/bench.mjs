// Measures the built plane. What only the bench needs (the JS dev server, a load client) is installed on demand, in bench/ alone.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runInForeground } from "./child.mjs";
import { prepare, root } from "./prepare.mjs";
import { explain, say } from "./say.mjs";

const folder = join(root, "bench");

try {
  await prepare();
  await installBench();
  const program = join(folder, "main.ts");
  process.exitCode = await runInForeground(process.execPath, ["--import", "tsx", program, ...process.argv.slice(2)], {
    cwd: root,
  });
} catch (error) {
  process.exitCode = explain(error);
}

async function installBench() {
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  const stamp = join(folder, "node_modules", ".fairlead-installed");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  say("Installing what the bench compares with (npm ci in bench/) …");
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
  const code = await runInForeground("npm", args, { cwd: folder, shell: process.platform === "win32" });
  if (code !== 0) throw new Error(`npm ci in bench/ ended with ${code}`);
  writeFileSync(stamp, lock);
}
