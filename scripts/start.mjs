import { requireNode } from "./node-floor.mjs";

requireNode();
void start();

// The other files are imported only now, because an older Node could not even read them.
async function start() {
  const { explain } = await import("./say.mjs");
  try {
    const { prepare, root } = await import("./prepare.mjs");
    await prepare();
    const { runInForeground } = await import("./child.mjs");
    const args = ["--enable-source-maps", root + "/dist/main.js", "dev", ...process.argv.slice(2)];
    process.exitCode = await runInForeground(process.execPath, args, {});
  } catch (error) {
    process.exitCode = explain(error);
  }
}
