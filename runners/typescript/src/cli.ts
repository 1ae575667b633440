#!/usr/bin/env node
import { parseArgs } from "node:util";
import { readConfigFile } from "./config-file.js";
import { RunnerError } from "./errors.js";
import { loadAgents } from "./load-agents.js";
import { stderrLogger } from "./log.js";
import { createRunner, type Runner } from "./runner.js";
import { VERSION } from "./version.js";

const usage = `fairlead-runner --config <file>

Runs the agents that a configuration file names, behind a Fairlead plane.

  --config <file>   JSON: {"address", "token" or "tokenEnv", "kind", "capacity", "agents": {"echo": "./agents.mjs:echo"}}
  --version         prints the version
  --help            prints this text

FAIRLEAD_RUNNER_ADDRESS and FAIRLEAD_RUNNER_TOKEN override the file. SIGTERM and SIGINT end the runner after its runs, or hand
them back; a second signal ends it at once.
`;

/** Ctrl-C reaches the whole process group, and whoever started this process may pass it on as well: that is one signal, not two. */
const SAME_SIGNAL_MS = 500;

await main();

async function main(): Promise<void> {
  try {
    const options = parse();
    if (options === undefined) return;
    await run(options.config);
  } catch (error) {
    if (!(error instanceof RunnerError)) throw error;
    stderrLogger.error(error.message);
    process.exitCode = error.code === "config" ? 2 : 1;
  }
}

function parse(): { config: string } | undefined {
  let values: { config?: string | undefined; help?: boolean | undefined; version?: boolean | undefined };
  try {
    ({ values } = parseArgs({
      options: { config: { type: "string" }, help: { type: "boolean" }, version: { type: "boolean" } },
    }));
  } catch (error) {
    throw new RunnerError("config", `${(error as Error).message}. Run fairlead-runner --help.`);
  }
  if (values.version) process.stdout.write(`${VERSION}\n`);
  else if (values.help) process.stdout.write(usage);
  else if (values.config === undefined)
    throw new RunnerError("config", "--config <file> is missing. Run fairlead-runner --help.");
  else return { config: values.config };
  return undefined;
}

async function run(path: string): Promise<void> {
  const config = readConfigFile(path, process.env);
  const agents = await loadAgents(config.agents);
  const runner = createRunner({
    address: config.address,
    token: config.token,
    agents,
    ...(config.kind !== undefined && { kind: config.kind }),
    ...(config.capacity !== undefined && { capacity: config.capacity }),
    ...(config.tls !== undefined && { tls: config.tls }),
  });
  // Agents are other people's code: a promise that one of them forgot must not take the runs of all others down.
  process.on("unhandledRejection", (reason) => {
    const text = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    stderrLogger.error(`A promise was rejected and nobody was waiting for it: ${text}`);
  });
  stopOnSignals(runner, config.drainMs);
  stderrLogger.info(`connecting to ${config.address} …`);
  try {
    await runner.start();
  } catch (error) {
    // A signal ended it before the plane had answered.
    if (error instanceof RunnerError && error.code === "released") return;
    throw error;
  }
  stderrLogger.info(
    `ready at ${config.address} as kind "${config.kind ?? "typescript"}" with: ${Object.keys(agents).join(", ")}`,
  );
  try {
    await runner.ended;
    stderrLogger.info("stopped");
  } catch {
    // The runner has said why.
    process.exitCode = 1;
  }
}

function stopOnSignals(runner: Runner, drainMs: number | undefined): void {
  let firstAt: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (firstAt !== undefined) {
      if (now - firstAt > SAME_SIGNAL_MS) process.exit(1);
      return;
    }
    firstAt = now;
    stderrLogger.info(`${signal}: taking no more work; finishing what runs`);
    void runner.stop(drainMs === undefined ? {} : { drainMs });
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
}
