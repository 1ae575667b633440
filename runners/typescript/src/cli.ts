#!/usr/bin/env node
import { parseArgs } from "node:util";
import { readConfigFile } from "./config-file.js";
import { RunnerError } from "./errors.js";
import { loadAgents } from "./load-agents.js";
import { stderrLogger } from "./log.js";
import { createRunner, type Runner } from "./runner.js";
import { VERSION } from "./version.js";

const usage = `fairlead-runner [--config runner.json]

Runs the agents that a configuration file names, behind a Fairlead plane.

  --config <file>   JSON; runner.json in this folder when not given:
                    {"address", "token" or "tokenEnv", "kind", "capacity", "agents": {"echo": "./agents.mjs:echo"}}
  --version         prints the version
  --help            prints this text

FAIRLEAD_RUNNER_ADDRESS and FAIRLEAD_RUNNER_TOKEN override the file. SIGTERM and SIGINT end the runner after its runs, or hand
them back; a second signal ends it at once.
`;

/** Ctrl-C reaches the whole process group, and whoever started this process may pass it on as well: that is one signal, not two. */
const SAME_SIGNAL_MS = 500;

// Agents may have left timers and connections behind; they must not keep the process.
process.exit(await main());

async function main(): Promise<number> {
  try {
    const options = parse();
    return options === undefined ? 0 : await run(options.config);
  } catch (error) {
    if (!(error instanceof RunnerError)) throw error;
    stderrLogger.error(error.message);
    return error.code === "config" ? 2 : 1;
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
  else return { config: values.config ?? "runner.json" };
  return undefined;
}

async function run(path: string): Promise<number> {
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
    if (error instanceof RunnerError && error.code === "released") return 0;
    throw error;
  }
  stderrLogger.info(
    `ready at ${config.address} as kind "${config.kind ?? "typescript"}" with: ${Object.keys(agents).join(", ")}`,
  );
  try {
    await runner.ended;
    stderrLogger.info("stopped");
    return 0;
  } catch {
    // The runner has said why.
    return 1;
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
