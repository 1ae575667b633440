import { requireNode } from "./node-floor.mjs";

requireNode();
void test();

// The other files are imported only now, because an older Node could not even read them.
async function test() {
  const { explain } = await import("./say.mjs");
  try {
    const { prepare } = await import("./prepare.mjs");
    await prepare();
    const { runTests } = await import("./run-tests.mjs");
    process.exitCode = await runTests(process.argv.slice(2));
  } catch (error) {
    process.exitCode = explain(error);
  }
}
