import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { runnerEnvironment } from "../platform/config.js";
import type { Service } from "../platform/lifecycle.js";
import { SetupError } from "../platform/setup-error.js";
import { checkout } from "./options.js";
import type { Say } from "./stores.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
/** A process that lived so long had not failed at its start. */
const HEALTHY_AFTER_MS = 30_000;
const FAILED_STARTS_MAX = 3;
const STOP_TIMEOUT_MS = 5_000;

const COMMAND = path.join(checkout, "runners", "typescript", "dist", "cli.js");
export const SAMPLE_CONFIG = path.join(checkout, "runners", "sample", "runner.json");
const END_WITH_PARENT = fileURLToPath(new URL("./end-with-parent.js", import.meta.url));

export interface SampleRunner extends Service {
  /** Rejects when the runner ends again and again before it has ever worked. */
  readonly hopeless: Promise<never>;
  /** It works now: from here on it is started again as often as it ends. */
  trust(): void;
}

/** Keeps one sample runner process alive until it is stopped. */
export function startSampleRunner(runner: { address: string; token: string }, say: Say): SampleRunner {
  let child: ChildProcess | undefined;
  let again: NodeJS.Timeout | undefined;
  let pauseMs = FIRST_PAUSE_MS;
  let failedStarts = 0;
  let trusted = false;
  let stopping = false;
  let lastLine = "";
  let giveUp: (error: Error) => void = () => {};
  const hopeless = new Promise<never>((_, reject) => {
    giveUp = reject;
  });
  hopeless.catch(() => {}); // Nobody has to listen once the runner works.

  const hear = (line: string): void => {
    lastLine = line;
    say(`[runner] ${line}`);
  };
  const launch = (): void => {
    const startedAt = performance.now();
    const args = ["--enable-source-maps", "--import", END_WITH_PARENT, COMMAND, "--config", SAMPLE_CONFIG];
    const started = spawn(process.execPath, args, {
      env: runnerEnvironment(runner),
      stdio: ["pipe", "pipe", "pipe"],
      // A group of its own: Ctrl-C in our terminal must reach us alone, who stop the runner first and in order.
      detached: true,
    });
    child = started;
    for (const stream of [started.stdout, started.stderr]) createInterface({ input: stream }).on("line", hear);
    started.stdin.on("error", () => {}); // It ended before we did, which its exit tells.
    started.once("error", (error) => hear(error.message));
    started.once("close", (code, signal) => {
      child = undefined;
      if (stopping) return;
      const how = signal === null ? `ended with status ${code}` : `was ended by ${signal}`;
      failedStarts += 1;
      if (!trusted && failedStarts >= FAILED_STARTS_MAX) return giveUp(hopelessRunner(how, lastLine));
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) pauseMs = FIRST_PAUSE_MS;
      say(`The sample runner ${how}; starting it again in ${pauseMs / 1_000} s.`);
      again = setTimeout(launch, pauseMs);
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    });
  };
  launch();
  return {
    name: "sample runner",
    hopeless,
    trust: () => {
      trusted = true;
    },
    stop: async () => {
      stopping = true;
      clearTimeout(again);
      if (child !== undefined) await endChild(child);
    },
  };
}

function hopelessRunner(how: string, lastLine: string): SetupError {
  return new SetupError(
    `The sample runner does not start: it ${how}${lastLine === "" ? "" : ` (${lastLine})`}.`,
    "Run npm run build, and look at runners/sample/runner.json.",
  );
}

/** SIGTERM lets it hand its runs back; a runner that does not end in time is killed, and the plane takes its runs back instead. */
function endChild(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    child.once("close", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill("SIGTERM");
  });
}
