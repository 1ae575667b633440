import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface RunningProcess {
  readonly child: ChildProcess;
  /** Everything that it has printed so far, both streams. */
  output(): string;
  /** Resolves with what a line begins with this word, or rejects when the process ends before it. */
  line(word: string): Promise<string>;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** Runs a TypeScript file of ours as a process of its own, so that it can be killed or run as somebody else. */
export function runProcess(
  file: string,
  args: readonly string[],
  as: { uid?: number; gid?: number } = {},
): RunningProcess {
  const child = spawn(process.execPath, ["--import", "tsx", file, ...args], {
    cwd: ROOT,
    stdio: ["pipe", "pipe", "pipe"],
    ...as,
  });
  let text = "";
  const changed = new Set<() => void>();
  const hear = (bytes: Buffer) => {
    text += bytes.toString("utf8");
    for (const tell of changed) tell();
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  const line = (word: string) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        const found = text.split("\n").find((one) => one.startsWith(`${word} `) || one === word);
        if (found === undefined) return;
        changed.delete(look);
        resolve(found.slice(word.length + 1));
      };
      changed.add(look);
      look();
      void ended.then(() => reject(new Error(`The process ended without a line "${word} …":\n${text}`)), reject);
    });
  return { child, output: () => text, line, ended };
}
