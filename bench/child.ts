import { type ChildProcess, spawn } from "node:child_process";

export interface Child {
  readonly pid: number;
  /** Resolves with the first line of standard output that the pattern finds. */
  line(pattern: RegExp): Promise<RegExpExecArray>;
  output(): string;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A process of the system under test. It ends with us, and what it said is shown when it ends before its time. */
export function startChild(
  command: string,
  args: readonly string[],
  options: { env?: Record<string, string | undefined>; cwd?: string } = {},
): Child {
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...options.env },
    ...(options.cwd ? { cwd: options.cwd } : {}),
  });
  running.add(child);
  let text = "";
  const listeners = new Set<() => void>();
  const hear = (bytes: Buffer): void => {
    text = (text + bytes.toString()).slice(-200_000);
    for (const listener of listeners) listener();
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  let failure: Error | undefined;
  child.once("error", (error) => {
    failure = error;
  });
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => {
      running.delete(child);
      resolve();
      for (const listener of listeners) listener();
    });
  });
  if (child.pid === undefined) throw new Error(`${command} could not be started`);
  return {
    pid: child.pid,
    output: () => text,
    line: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = pattern.exec(text);
          if (found) {
            listeners.delete(look);
            resolve(found);
          } else if (child.exitCode !== null || child.signalCode !== null || failure) {
            listeners.delete(look);
            reject(
              new Error(
                `${command} ${args.join(" ")} ended before it said ${pattern}:\n${failure?.message ?? ""}${text}`,
              ),
            );
          }
        };
        listeners.add(look);
        look();
      }),
    stop: async (signal = "SIGTERM") => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      const late = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await ended;
      clearTimeout(late);
    },
  };
}

/** Runs a program to its end; a failure shows what it said. */
export async function runChild(command: string, args: readonly string[], env: Record<string, string>): Promise<string> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  let text = "";
  child.stdout.on("data", (bytes: Buffer) => {
    text += bytes.toString();
  });
  child.stderr.on("data", (bytes: Buffer) => {
    text += bytes.toString();
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${text}`);
  return text;
}
