// `fairlead dev` as a process of its own, as a person starts it.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isAlive } from "../../src/platform/postmaster.js";
import { waitFor } from "../../src/platform/wait-for.js";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const main = join(root, "dist", "main.js");

export interface DevTenant {
  readonly id: string;
  readonly slug: string;
  readonly adminKey: string;
  readonly apiKey: string;
  readonly runnerToken: string;
}

export interface DevFile {
  readonly url: string;
  readonly graphqlUrl: string;
  readonly grpcAddress: string;
  readonly tenants: readonly DevTenant[];
}

export interface DevProcess {
  readonly child: ChildProcess;
  /** Both streams, in the order in which they came. */
  output(): string;
  /** Waits until these words were printed; fails when the process ends before. */
  says(words: string, withinMs?: number): Promise<void>;
  /** Milliseconds from the start to the line that says so. */
  ready(withinMs?: number): Promise<number>;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** To the whole group, as Ctrl-C in a terminal does. */
  interrupt(signal?: NodeJS.Signals): void;
  /** Every process below this one that lives now. */
  descendants(): number[];
}

export interface StartDev {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly as?: { readonly uid: number; readonly gid: number };
  /** Through scripts/start.mjs, as npm does it. */
  readonly throughScript?: boolean;
}

export function startDev({ args, env = {}, as, throughScript = false }: StartDev): DevProcess {
  if (!existsSync(main)) throw new Error("dist/main.js is missing: run `npm run build` first");
  const startedAt = performance.now();
  const command = throughScript ? [join(root, "scripts", "start.mjs")] : [main, "dev"];
  const child = spawn(process.execPath, [...command, ...args], {
    cwd: root,
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
    ...as,
  });
  let text = "";
  let readyAt = 0;
  const hear = (bytes: Buffer): void => {
    text += bytes.toString();
    if (readyAt === 0 && text.includes("Fairlead is ready")) readyAt = performance.now();
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  let over: string | undefined;
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("close", (code, signal) => {
      over = `it ended with ${code ?? signal}`;
      resolve({ code, signal });
    });
  });
  const says = async (words: string, withinMs = 60_000): Promise<void> => {
    await waitFor(() => text.includes(words) || over !== undefined, withinMs);
    if (text.includes(words)) return;
    throw new Error(`"${words}" was not said: ${over ?? `not within ${withinMs} ms`}\n${text}`);
  };
  return {
    child,
    output: () => text,
    says,
    ready: async (withinMs) => {
      await says("Fairlead is ready", withinMs);
      return readyAt - startedAt;
    },
    ended,
    interrupt: (signal = "SIGINT") => {
      if (over === undefined) process.kill(-(child.pid as number), signal);
    },
    descendants: () => descendantsOf(child.pid as number),
  };
}

/** Ends it the hard way, and whatever it had started; for the end of a test, however that went. */
export async function endDev(dev: DevProcess): Promise<void> {
  dev.interrupt();
  const gone = dev.ended.then(() => true);
  const late = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 20_000).unref());
  if (await Promise.race([gone, late])) return;
  const left = dev.descendants();
  dev.child.kill("SIGKILL");
  for (const pid of left) if (isAlive(pid)) process.kill(pid, "SIGKILL");
  await gone;
}

export function readDevFile(directory: string): DevFile {
  return JSON.parse(readFileSync(join(directory, "dev.json"), "utf8")) as DevFile;
}

/** One request as curl would send it. */
export async function post(url: string, key: string, body: unknown): Promise<{ status: number; text: string }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
}

export function stillAlive(pids: readonly number[]): string[] {
  return pids.filter(isAlive).map((pid) => `${pid} ${commandOf(pid)}`);
}

function descendantsOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
    const parent = parentOf(Number(name));
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const below = (one: number): number[] => (children.get(one) ?? []).flatMap((child) => [child, ...below(child)]);
  return below(pid);
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return undefined; // It ended between our two looks.
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").slice(0, 150);
  } catch {
    return "";
  }
}
