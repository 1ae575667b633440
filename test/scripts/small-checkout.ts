import { execFileSync, type SpawnOptions, spawn } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const root = process.cwd();

/** Says what it was started with, then waits for a signal and ends with 7: enough to see what start.mjs does around it. */
const MAIN = `
process.on("SIGTERM", () => { console.log("main ends"); process.exit(7); });
console.log("main runs with", JSON.stringify(process.argv.slice(2)), "as", process.pid);
setInterval(() => {}, 1000);
`;

/** What building needs, linked from where it is installed already. */
export const compiler = Object.fromEntries(
  ["typescript", "@types/node"].map((name) => [name, `file:${join(root, "node_modules", name)}`]),
);

export interface SmallCheckout {
  readonly path: string;
  write(file: string, text: string): void;
  /** Writes package.json and its lock file anew. */
  dependOn(devDependencies: Record<string, string>): void;
  remove(): void;
}

/**
 * A checkout with the real scripts and compiler settings around a plane of five lines. Its only dependencies are links to packages that are
 * here already, so that a real \`npm ci\` takes a second and no network.
 */
export function smallCheckout(): SmallCheckout {
  const path = mkdtempSync(join(tmpdir(), "fairlead-checkout-"));
  chmodSync(path, 0o755);
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), text);
  };
  for (const file of ["scripts", "tsconfig.base.json", "tsconfig.build.json", "runners/typescript/tsconfig.json"]) {
    cpSync(join(root, file), join(path, file), { recursive: true });
  }
  const dependOn = (devDependencies: Record<string, string>) => {
    write("package.json", JSON.stringify({ name: "small", version: "1.0.0", type: "module", devDependencies }));
    execFileSync("npm", ["install", "--package-lock-only", "--offline", "--no-audit"], { cwd: path, stdio: "pipe" });
  };
  write("runners/typescript/package.json", JSON.stringify({ type: "module", bin: { "small-runner": "dist/cli.js" } }));
  write("runners/typescript/src/cli.ts", '#!/usr/bin/env node\nconsole.log("runner");\n');
  write("src/main.ts", MAIN);
  dependOn(compiler);
  return { path, write, dependOn, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export interface Started {
  readonly pid: number;
  /** All that it has printed so far, to both streams. */
  output(): string;
  /** Waits until the output matches. */
  says(pattern: RegExp): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): void;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** Starts a Node program and listens to it. */
export function startNode(args: readonly string[], options: SpawnOptions = {}): Started {
  const child = spawn(process.execPath, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      for (const listen of listeners) listen();
    });
  }
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(output);
        if (match === null) return;
        listeners.delete(look);
        resolve(match);
      };
      listeners.add(look);
      look();
      ended.then(
        () => reject(new Error(`it ended without saying ${pattern}:\n${output}`)),
        (error: unknown) => reject(error as Error),
      );
    });
  return { pid: child.pid ?? 0, output: () => output, says, kill: (signal) => child.kill(signal), ended };
}
