import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { freePort } from "../../src/platform/free-port.js";
import type { TestDatabase } from "./postgres.js";
import { testRootKey } from "./world.js";

// The built plane and built runners as processes of their own, to be killed, stopped and restarted.

const root = fileURLToPath(new URL("../..", import.meta.url));
const startDeadlineMs = 60_000;

export interface TestProcess {
  readonly pid: number;
  /** Standard error and output so far. */
  output(): string;
  kill(signal: NodeJS.Signals): void;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** SIGKILL, if it still lives; resolves when it is gone. */
  end(): Promise<void>;
}

export interface PlaneProcess extends TestProcess {
  readonly url: string;
  readonly grpcAddress: string;
}

export interface PlanePorts {
  readonly port: number;
  readonly grpcPort: number;
}

export async function planePorts(): Promise<PlanePorts> {
  return { port: await freePort(), grpcPort: await freePort() };
}

/** Times short enough that a lost lease is noticed within two seconds. */
export const shortTimes = {
  FAIRLEAD_LEASE_MS: "1500",
  FAIRLEAD_HEARTBEAT_MS: "300",
  FAIRLEAD_OFFER_MS: "1000",
  FAIRLEAD_CLOSED_LEASE_MS: "700",
  FAIRLEAD_SWEEP_EVERY_MS: "100",
  FAIRLEAD_RELAY_EVERY_MS: "200",
  FAIRLEAD_CANCEL_GRACE_MS: "3000",
} as const;

export interface StartPlane {
  readonly database: Pick<TestDatabase, "appUrl" | "sweeperUrl" | "queueUrl">;
  readonly ports: PlanePorts;
  readonly redisUrl?: string;
  readonly roles?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** The built server. Resolves once it serves. */
export async function startPlane(options: StartPlane): Promise<PlaneProcess> {
  const main = `${root}dist/main.js`;
  if (!existsSync(main)) throw new Error("dist/main.js is missing: run `npm run build` before the fault tests");
  const args = [main, "serve", ...(options.roles ? ["--roles", options.roles] : [])];
  const env = {
    PATH: process.env["PATH"] ?? "",
    DATABASE_URL: options.database.appUrl,
    SWEEPER_DATABASE_URL: options.database.sweeperUrl,
    QUEUE_DATABASE_URL: options.database.queueUrl,
    ...(options.redisUrl ? { REDIS_URL: options.redisUrl } : {}),
    FAIRLEAD_ROOT_KEY: testRootKey,
    FAIRLEAD_PORT: String(options.ports.port),
    FAIRLEAD_GRPC_PORT: String(options.ports.grpcPort),
    FAIRLEAD_LOG_LEVEL: "info",
    ...shortTimes,
    ...options.env,
  };
  const started = launch(args, env);
  await saying(started, "Fairlead serves");
  return {
    ...started,
    url: `http://127.0.0.1:${options.ports.port}`,
    grpcAddress: `127.0.0.1:${options.ports.grpcPort}`,
  };
}

export interface StartRunner {
  readonly address: string;
  readonly token: string;
  readonly kind?: string;
  readonly capacity?: number;
  readonly drainMs?: number;
}

/** A runner made with the SDK, with the agents of sample-runner.ts. Resolves once the plane has accepted it. SIGTERM drains it. */
export async function startRunner(options: StartRunner): Promise<TestProcess> {
  const started = launch(["--import", "tsx", `${root}test/support/sample-runner.ts`], {
    PATH: process.env["PATH"] ?? "",
    RUNNER_OPTIONS: JSON.stringify({ kind: "typescript", capacity: 10, drainMs: 0, ...options }),
  });
  await saying(started, "runner ready");
  return started;
}

function launch(args: readonly string[], env: Record<string, string>): TestProcess {
  const child: ChildProcess = spawn(process.execPath, ["--enable-source-maps", ...args], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const hear = (bytes: Buffer): void => {
    // The tail is enough to tell what went wrong.
    text = (text + bytes.toString()).slice(-200_000);
  };
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  return {
    pid: child.pid as number,
    output: () => text,
    kill: (signal) => void child.kill(signal),
    ended,
    end: async () => {
      if (!isOver) child.kill("SIGKILL");
      await ended;
    },
  };
}

async function saying(process: TestProcess, words: string): Promise<void> {
  const deadline = performance.now() + startDeadlineMs;
  let over: string | undefined;
  void process.ended.then(({ code, signal }) => {
    over = `it ended with ${code ?? signal}`;
  });
  while (!process.output().includes(words)) {
    if (performance.now() > deadline) over = `not within ${startDeadlineMs} ms`;
    if (over !== undefined) {
      await process.end();
      throw new Error(`A process did not say "${words}": ${over}\n${process.output().slice(-4_000)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
