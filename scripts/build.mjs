import { requireNode } from "./node-floor.mjs";

requireNode();
void buildWithTypes();

// What ships is built here: unlike a start, it refuses sources whose types are wrong, and it builds even what looks current.
async function buildWithTypes() {
  const { explain } = await import("./say.mjs");
  try {
    const { prepare } = await import("./prepare.mjs");
    await prepare(undefined, { checkTypes: true });
  } catch (error) {
    process.exitCode = explain(error);
  }
}
