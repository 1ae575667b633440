#!/usr/bin/env node
import path from "node:path";
import { parseArgs } from "node:util";
import { readCliConfig } from "./cli-config.js";
import { RunnerError } from "./errors.js";
import { createRunner, type Runner } from "./runner.js";

const USAGE = "fairlead-runner --config runner.json";

/** Runs agents until it is told to stop. What a person can correct is one line on standard error. */
async function main(): Promise<void> {
  const file = configFile();
  if (file === undefined) {
    process.stdout.write(`${USAGE}\n`);
    return;
  }
  const options = await readCliConfig(file, process.env);
  const runner = createRunner(options);
  stopOnSignal(runner);
  await runner.start();
  process.stdout.write(`connected to ${options.address}: ${Object.keys(options.agents).join(", ")}\n`);
  await runner.ended;
}

function configFile(): string | undefined {
  try {
    const { values } = parseArgs({ options: { config: { type: "string" }, help: { type: "boolean", short: "h" } } });
    return values.help ? undefined : path.resolve(values.config ?? "runner.json");
  } catch (cause) {
    throw new RunnerError("config", `${(cause as Error).message.split("\n")[0]} Usage: ${USAGE}`, { cause });
  }
}

/** The first signal drains: runs end or are handed back. The second one is in a hurry. */
function stopOnSignal(runner: Runner): void {
  let told = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (told) process.exit(130);
      told = true;
      void runner.stop().then(() => process.exit(0));
    });
  }
}

try {
  await main();
} catch (error) {
  // What the plane refused was logged when it did; a stop before the plane had accepted us is no failure.
  const { code, message, stack } = error as RunnerError;
  if (code === "config") process.stderr.write(`fairlead-runner: ${message}\n`);
  else if (code !== "refused" && code !== "released") process.stderr.write(`fairlead-runner: ${stack ?? message}\n`);
  if (code !== "released") process.exitCode = 1;
}
