import { spawn } from "node:child_process";
import { constants } from "node:os";

/** @typedef {"SIGINT" | "SIGTERM" | "SIGHUP"} Ending */
const ENDINGS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);

/**
 * Runs a program that owns the terminal until it ends, and answers its exit code.
 * Signals are forwarded and never end this process first: a parent that dies before its child leaves an orphan behind. A Ctrl-C reaches the
 * child twice (the terminal sends it to the whole group), which it has to bear anyway.
 * @param {string} command @param {readonly string[]} args @param {import("node:child_process").SpawnOptions} options
 * @returns {Promise<number>}
 */
export function runInForeground(command, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: "inherit", ...options });
    const release = whileForwarding((signal) => child.kill(signal));
    child.once("error", (error) => {
      release();
      reject(error);
    });
    child.once("exit", (code, signal) => {
      release();
      resolve(exitCode(code, signal));
    });
  });
}

/**
 * Runs a program quietly, keeping what it prints. When this process is told to end, the program is told first and waited for.
 * @param {string} command @param {readonly string[]} args
 * @param {import("node:child_process").SpawnOptions & { onStart?: (pid: number) => void }} options
 * @returns {Promise<{ code: number, output: string, interrupted: boolean }>}
 */
export function runQuietly(command, args, { onStart, ...options }) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let interrupted = false;
    const keep = (/** @type {string} */ text) => {
      output = (output + text).slice(-OUTPUT_LIMIT);
    };
    const release = whileForwarding((signal) => {
      interrupted = true;
      child.kill(signal);
    });
    child.stdout?.setEncoding("utf8").on("data", keep);
    child.stderr?.setEncoding("utf8").on("data", keep);
    child.once("spawn", () => {
      if (child.pid !== undefined) onStart?.(child.pid);
    });
    child.once("error", (error) => {
      release();
      reject(error);
    });
    child.once("close", (code, signal) => {
      release();
      resolve({ code: exitCode(code, signal), output, interrupted });
    });
  });
}

const OUTPUT_LIMIT = 256 * 1024;

/** The beginning, where compilers say what is wrong, and the end, where programs say what became of it. @param {string} output */
export function excerptOf(output) {
  const lines = output.trimEnd().split("\n");
  if (lines.length <= HEAD + TAIL) return lines.join("\n");
  return [...lines.slice(0, HEAD), "  …", ...lines.slice(-TAIL)].join("\n");
}

const HEAD = 15;
const TAIL = 10;

/** @param {(signal: Ending) => void} forward */
function whileForwarding(forward) {
  const handlers = ENDINGS.map((signal) => {
    const handler = () => forward(signal);
    process.on(signal, handler);
    return () => process.off(signal, handler);
  });
  return () => {
    for (const remove of handlers) remove();
  };
}

/** The shell's convention: a program that a signal ended answers 128 + its number. @param {number | null} code @param {NodeJS.Signals | null} signal */
function exitCode(code, signal) {
  if (code !== null) return code;
  return signal === null ? 1 : 128 + (constants.signals[signal] ?? 0);
}
