// What a data directory and the process table say about the server of that directory, and how to end it. The server is identified by its
// lock file `postmaster.pid`, which survives a crash and may name a process id that has since gone to another program.
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync, realpathSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { waitFor } from "./wait-for.js";

const PROBE_TIMEOUT_MS = 2_000;

export interface Postmaster {
  readonly pid: number;
  readonly port: number;
  /** `starting`, `ready`, `stopping` or `standby`, as the server itself wrote it. */
  readonly status: string;
}

/** The lock file of a data directory, or undefined when there is none (or it is being written right now). */
export function readPostmaster(dataDirectory: string): Postmaster | undefined {
  let lines: string[];
  try {
    lines = readFileSync(path.join(dataDirectory, "postmaster.pid"), "utf8").split("\n");
  } catch {
    return undefined;
  }
  // Line 1 is the process id, line 4 the port, line 8 the status; the later ones are added while the server starts.
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  return { pid, port: Number(lines[3] ?? 0), status: lines[7]?.trim() ?? "starting" };
}

/** Whether the process is a PostgreSQL server that works on this very directory. */
export function servesDirectory(pid: number, dataDirectory: string): boolean {
  if (!isAlive(pid)) return false;
  const command = commandLine(pid);
  if (!path.basename(command[0] ?? "").startsWith("postgres")) return false;
  try {
    // A server's working directory is its data directory, and the kernel follows it when a parent is renamed.
    return realpathSync(readlinkSync(`/proc/${pid}/cwd`)) === realpathSync(dataDirectory);
  } catch {
    return command.includes(dataDirectory) || command.join(" ").includes(` ${dataDirectory} `);
  }
}

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    // No /proc here (macOS), so ask ps; its answer is one string.
  }
  try {
    return execFileSync("ps", ["-p", String(pid), "-o", "command="], { encoding: "utf8" })
      .trim()
      .split(" ");
  } catch {
    return [];
  }
}

/** Whether the process exists and is more than a zombie that nobody has reaped. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM means that it exists and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.charAt(stat.lastIndexOf(")") + 2) !== "Z";
  } catch {
    return true;
  }
}

/** Whether the process has given up its memory and still holds its files and ports: it will be gone in a moment. */
export function isDying(pid: number): boolean {
  return isAlive(pid) && commandLine(pid).join("") === "";
}

/** Whether a server on this port lets clients log in now: it must answer a start-up packet with a request for the password. */
export function acceptsLogins(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    const answer = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.setTimeout(PROBE_TIMEOUT_MS, () => answer(false));
    socket.once("connect", () => socket.write(startupPacket()));
    socket.once("data", (bytes) => answer(bytes[0] === "R".charCodeAt(0)));
    socket.once("error", () => answer(false));
    socket.once("close", () => answer(false));
  });
}

function startupPacket(): Buffer {
  const body = Buffer.from("user\0postgres\0database\0postgres\0\0", "latin1");
  const head = Buffer.alloc(8);
  head.writeInt32BE(body.length + 8, 0);
  head.writeInt32BE(196_608, 4); // Protocol 3.0.
  return Buffer.concat([head, body]);
}

/** Ends a server: fast shutdown first (sessions are cut, data is flushed), immediate shutdown when that takes too long. */
export async function endPostmaster(pid: number, dataDirectory: string, fastMs = 15_000): Promise<boolean> {
  const gone = () => !isAlive(pid);
  signal(pid, "SIGINT");
  if (await waitFor(gone, fastMs)) return true;
  // The id may have gone to another program in the meantime, which must not be hit.
  if (!servesDirectory(pid, dataDirectory)) return true;
  signal(pid, "SIGQUIT");
  // The postmaster itself kills stragglers five seconds after this signal.
  return waitFor(gone, 10_000);
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended by itself, which is what we want.
  }
}
