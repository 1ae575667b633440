// A Redis (or Valkey) from the PATH, for as long as this process lives. It keeps nothing: whatever is in it can be rebuilt from Postgres.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { freePort, isFree } from "./free-port.js";
import { SetupError } from "./setup-error.js";
import { waitFor } from "./wait-for.js";

const PROGRAMS = ["redis-server", "valkey-server"] as const;
const START_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 5_000;
const PORT_ATTEMPTS = 10;

// The shell ends the server as soon as our end of its standard input closes, which happens however we end, SIGKILL included. Background
// commands get an empty standard input from the shell, so the real one is kept as descriptor 3.
const END_WITH_US =
  'exec 3<&0; "$@" & server=$!; (cat <&3 >/dev/null; kill $server) & wait $server; code=$?; kill $! 2>/dev/null; exit $code';

export interface EmbeddedRedisOptions {
  /** Holds the configuration file; made when missing. */
  readonly directory: string;
  readonly log: (line: string) => void;
}

export interface EmbeddedRedis {
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

/** The name of the Redis program on the PATH, or undefined. */
export function findRedis(): string | undefined {
  return PROGRAMS.find((program) => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0);
}

export async function startEmbeddedRedis(options: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  const program = findRedis();
  if (program === undefined) {
    throw new SetupError(
      `Neither ${PROGRAMS.join(" nor ")} is on the PATH.`,
      "Install one (Debian: apt-get install redis-server), set REDIS_URL, or start without --redis: the queue then lives in PostgreSQL.",
    );
  }
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    const outcome = await launch(program, port, options);
    if ("url" in outcome) return outcome;
    if ((await isFree(port)) || attempt >= PORT_ATTEMPTS) throw outcome.error;
  }
}

async function launch(
  program: string,
  port: number,
  options: EmbeddedRedisOptions,
): Promise<EmbeddedRedis | { readonly error: SetupError }> {
  const password = randomBytes(24).toString("base64url");
  const config = path.join(options.directory, `redis-${port}.conf`);
  writeFileSync(config, configuration(port, password, options.directory), { mode: 0o600 });
  const child = spawn("/bin/sh", ["-c", END_WITH_US, "sh", program, config], {
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let said = "";
  const hear = (bytes: Buffer) => {
    said = (said + bytes.toString("utf8")).slice(-4_000);
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  child.on("error", (error) => hear(Buffer.from(error.message)));
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  const up = await waitFor(async () => ended() || (await answersPing(port, password)), START_TIMEOUT_MS);
  rmSync(config, { force: true }); // It was read, and holds the password.
  if (!up || ended()) {
    child.stdin.destroy();
    return {
      error: new SetupError(
        `${program} did not start: ${said.trim().split("\n").slice(-3).join(" / ")}`,
        "Set REDIS_URL instead.",
      ),
    };
  }
  options.log(`${program} is listening on port ${port}.`);
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr]) unrefStream(stream);
  return { url: `redis://:${password}@127.0.0.1:${port}`, port, stop: () => stopChild(child, ended) };
}

function unrefStream(stream: unknown): void {
  // Pipes of a child are sockets, and must not keep our process alive; their declared types are the general stream types.
  (stream as { unref?: () => void }).unref?.();
}

async function stopChild(child: ChildProcess, ended: () => boolean): Promise<void> {
  child.stdin?.destroy();
  if (await waitFor(ended, STOP_TIMEOUT_MS)) return;
  if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  await waitFor(ended, STOP_TIMEOUT_MS);
}

function configuration(port: number, password: string, directory: string): string {
  return [
    "bind 127.0.0.1",
    `port ${port}`,
    `requirepass ${password}`,
    'save ""',
    "appendonly no",
    "maxmemory-policy noeviction",
    `dir ${JSON.stringify(directory)}`,
    "daemonize no",
    "",
  ].join("\n");
}

function answersPing(port: number, password: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    let heard = "";
    const answer = (up: boolean) => {
      socket.destroy();
      resolve(up);
    };
    socket.setTimeout(1_000, () => answer(false));
    socket.once("connect", () => socket.write(`AUTH ${password}\r\nPING\r\n`));
    socket.on("data", (bytes) => {
      heard += bytes.toString("latin1");
      if (heard.includes("+PONG")) answer(true);
      else if (heard.includes("-")) answer(false);
    });
    socket.once("error", () => answer(false));
    socket.once("close", () => answer(false));
  });
}
