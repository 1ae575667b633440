import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterEach } from "vitest";
import { until } from "./until.js";

// The built command as a process of its own.

const cli = fileURLToPath(new URL("../../../runners/typescript/dist/cli.js", import.meta.url));
const running = new Set<ChildProcess>();

afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
});

export interface CommandProcess {
  readonly child: ChildProcess;
  /** All that it has said, on both streams. */
  readonly output: () => string;
  said(text: string | RegExp): Promise<void>;
  readonly exit: Promise<{ code: number | null; signal: string | null }>;
}

export function runCommand(
  args: string[],
  options: { env?: Record<string, string>; cwd?: string; file?: string } = {},
): CommandProcess {
  const { env = {}, file = cli, ...rest } = options;
  const child = spawn(process.execPath, [file, ...args], { ...rest, env: { PATH: process.env["PATH"] ?? "", ...env } });
  running.add(child);
  let output = "";
  const keep = (data: Buffer): void => {
    output += data.toString();
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.on("close", (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });
  return {
    child,
    output: () => output,
    said: async (text) => {
      await until(
        `the command says ${text}`,
        () => (typeof text === "string" ? output.includes(text) : text.test(output)),
        20_000,
      );
    },
    exit,
  };
}
