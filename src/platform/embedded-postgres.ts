// A real PostgreSQL server for machines that have none, kept below the data directory:
//
//   <directory>/data          the cluster. It is made under another name and renamed when initdb has finished, so a cluster is whole or absent.
//   <directory>/password      of the superuser, made once
//   <directory>/port          chosen once, and again when a stranger holds it
//   <directory>/claim         which process works here
//   <directory>/server.log    what the server says
//   <directory>/native        a copy of the programs, only where the package cannot be run in place
//
// Who may die when: a server whose parent was killed keeps running, and the next start takes it over; a server that was killed leaves a lock
// file, which the next one checks and replaces; a killed initdb leaves a directory that nobody uses and the next start removes.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fchownSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { claimDirectory } from "./directory-claim.js";
import { freePort, isFree } from "./free-port.js";
import { type PostgresBinaries, preparePostgresBinaries } from "./postgres-binaries.js";
import { acceptsLogins, endPostmaster, isAlive, isDying, readPostmaster, servesDirectory } from "./postmaster.js";
import { SetupError } from "./setup-error.js";
import { firstBarrier, type OsUser, runAs, unprivilegedUser, userById } from "./unprivileged.js";
import { waitFor } from "./wait-for.js";

const SUPERUSER = "postgres";
const PORT_ATTEMPTS = 10;
const LOG_KEPT_BYTES = 4 * 1024 * 1024;

export interface EmbeddedPostgresOptions {
  /** Belongs to the server alone; made when missing. */
  readonly directory: string;
  /** A fixed port. Without it a free one is chosen once and kept. */
  readonly port?: number;
  /** A `bin` directory with initdb and postgres, instead of the npm package. */
  readonly binaries?: string;
  readonly log: (line: string) => void;
  /** Server settings, on top of the modest ones below. A server that is taken over keeps those of its own start. */
  readonly settings?: Readonly<Record<string, string>>;
  /** How long a start may take, crash recovery included. */
  readonly startTimeoutMs?: number;
}

export interface EmbeddedPostgres {
  /** Connects as superuser to the database `postgres`. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** True when the server was left running by an earlier process. */
  readonly adopted: boolean;
  stop(): Promise<void>;
}

interface Place {
  readonly directory: string;
  readonly data: string;
  /** Undefined when the server runs as the user of this process. */
  readonly user: OsUser | undefined;
}

/** Starts the server of this directory, or takes over the one that an earlier process left running. */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const place = preparePlace(options.directory);
  const release = claimDirectory(place.directory);
  try {
    const password = keptPassword(place);
    const adopted = await adoptServer(place, options);
    const server = adopted ?? (await startServer(place, options));
    return handle(place, { ...server, password, adopted: adopted !== undefined }, options.log, release);
  } catch (error) {
    release();
    throw error;
  }
}

/** The running server of a directory, for programs that only want to connect. */
export function findEmbeddedPostgres(directory: string): { url: string; port: number; pid: number } | undefined {
  if (!existsSync(path.join(directory, "data"))) return undefined;
  const data = path.join(realpathSync(directory), "data");
  const found = readPostmaster(data);
  if (found === undefined || found.status !== "ready" || !servesDirectory(found.pid, data)) return undefined;
  return { url: superuserUrl(readKept(directory, "password") ?? "", found.port), port: found.port, pid: found.pid };
}

function handle(
  place: Place,
  server: { pid: number; port: number; password: string; adopted: boolean },
  log: (line: string) => void,
  release: () => void,
): EmbeddedPostgres {
  // A process that exits without stop() still asks the server to end. One that is killed cannot, and the next start takes the server over.
  const endWithUs = () => {
    if (isAlive(server.pid)) process.kill(server.pid, "SIGINT");
  };
  process.once("exit", endWithUs);
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    process.off("exit", endWithUs);
    const ended = await endPostmaster(server.pid, place.data);
    release();
    if (!ended)
      log(`PostgreSQL (process ${server.pid}, ${place.data}) did not end; it will be taken over by the next start.`);
  };
  return {
    url: superuserUrl(server.password, server.port),
    port: server.port,
    pid: server.pid,
    adopted: server.adopted,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

function superuserUrl(password: string, port: number): string {
  return `postgresql://${SUPERUSER}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
}

function preparePlace(wanted: string): Place {
  const existed = existsSync(wanted);
  if (!existed) makeDirectory(path.resolve(wanted));
  const directory = realpathSync(wanted);
  const owner = statSync(directory);
  const own = process.geteuid?.() ?? owner.uid;
  const place = { directory, data: path.join(directory, "data") };
  if (own !== 0) {
    if (owner.uid !== own) throw foreignDirectory(directory, userById(owner.uid, owner.gid));
    return { ...place, user: undefined };
  }
  // Whoever made the cluster goes on owning it, so that a start by root does not lock an ordinary user out of their own data.
  const user = owner.uid === 0 ? unprivilegedUser() : userById(owner.uid, owner.gid);
  if (owner.uid === 0) {
    chownSync(directory, user.uid, user.gid);
    chmodSync(directory, 0o700);
  }
  const barrier = firstBarrier(directory, user);
  if (barrier === undefined) return { ...place, user };
  throw new SetupError(
    `PostgreSQL does not run as root, and the user ${user.name}, as whom it would run, cannot enter ${barrier} on the way to ${directory}.`,
    `Run chmod o+x ${barrier}, or choose another --data-dir that everybody can enter.`,
  );
}

function makeDirectory(directory: string): void {
  try {
    const first = mkdirSync(directory, { recursive: true, mode: 0o700 });
    // Directories that we had to make on the way are passable, whatever the umask.
    if (first !== undefined) {
      for (let one = path.dirname(directory); one.length >= first.length; one = path.dirname(one))
        chmodSync(one, 0o711);
    }
  } catch (cause) {
    throw new SetupError(
      `The directory ${directory} cannot be made (${(cause as Error).message}).`,
      "Choose another --data-dir, or give this user the right to write there.",
      { cause },
    );
  }
}

function foreignDirectory(directory: string, owner: OsUser): SetupError {
  return new SetupError(
    `The directory ${directory} belongs to the user ${owner.name}, and PostgreSQL works only on a directory of its own user.`,
    `Start as ${owner.name}, or choose another --data-dir.`,
  );
}

function keptPassword(place: Place): string {
  const kept = readKept(place.directory, "password");
  if (kept) return kept;
  if (existsSync(place.data)) {
    throw new SetupError(
      `The database in ${place.data} has no password file beside it, so nobody can log in.`,
      `Restore ${path.join(place.directory, "password")}, or choose another --data-dir.`,
    );
  }
  const password = randomBytes(24).toString("base64url");
  keep(place, "password", password);
  return password;
}

function readKept(directory: string, name: string): string | undefined {
  const file = path.join(directory, name);
  return existsSync(file) ? readFileSync(file, "utf8").trim() : undefined;
}

function keep(place: Place, name: string, content: string): void {
  const file = path.join(place.directory, name);
  writeFileSync(`${file}.new`, `${content}\n`, { mode: 0o600 });
  if (place.user !== undefined) chownSync(`${file}.new`, place.user.uid, place.user.gid);
  renameSync(`${file}.new`, file);
}

async function adoptServer(
  place: Place,
  options: EmbeddedPostgresOptions,
): Promise<{ pid: number; port: number } | undefined> {
  const found = readPostmaster(place.data);
  if (found === undefined) return undefined;
  await waitFor(() => !isDying(found.pid), 2_000);
  if (!servesDirectory(found.pid, place.data)) {
    // The server checks a dead process id by itself, and for memory that its orphans still use. It gives up, however, when the id has gone
    // to another program.
    if (isAlive(found.pid)) rmSync(path.join(place.data, "postmaster.pid"), { force: true });
    return undefined;
  }
  const settled = await waitFor(async () => {
    const now = readPostmaster(place.data);
    return (
      now === undefined ||
      !servesDirectory(now.pid, place.data) ||
      (now.status === "ready" && (await acceptsLogins(now.port)))
    );
  }, options.startTimeoutMs ?? 120_000);
  const now = readPostmaster(place.data);
  if (now === undefined || !servesDirectory(now.pid, place.data)) return undefined;
  if (settled && (options.port === undefined || options.port === now.port)) {
    options.log(
      `Taking over the PostgreSQL server that an earlier start left running (process ${now.pid}, port ${now.port}).`,
    );
    return now;
  }
  options.log(`Restarting the PostgreSQL server that an earlier start left running (process ${now.pid}).`);
  await endPostmaster(now.pid, place.data);
  return undefined;
}

async function startServer(place: Place, options: EmbeddedPostgresOptions): Promise<{ pid: number; port: number }> {
  const { directory, user } = place;
  const binaries = preparePostgresBinaries({ binaries: options.binaries, directory, user, log: options.log });
  if (existsSync(place.data)) checkVersion(place, binaries);
  else initialise(place, binaries, options);
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await keptPort(place, options.log));
    const outcome = await launch(place, binaries, port, options);
    if (outcome.pid !== undefined) return { pid: outcome.pid, port };
    const taken = !(await isFree(port));
    if (taken && options.port !== undefined) throw portTaken(port);
    // Somebody took the port between our look and the server's, so look again.
    if (!taken || attempt >= PORT_ATTEMPTS) throw outcome.error;
  }
}

function checkVersion(place: Place, binaries: PostgresBinaries): void {
  const major = Number.parseInt(readFileSync(path.join(place.data, "PG_VERSION"), "utf8"), 10);
  if (major === binaries.major) return;
  throw new SetupError(
    `The database in ${place.data} was made by PostgreSQL ${major}, and the programs here are version ${binaries.version}.`,
    `Choose another --data-dir, or move the data over with pg_dumpall of version ${major}.`,
  );
}

function initialise(place: Place, binaries: PostgresBinaries, options: EmbeddedPostgresOptions): void {
  for (const name of readdirSync(place.directory)) {
    if (!name.startsWith("data.incomplete-")) continue;
    options.log(`Removing ${name}, which a start that was killed left behind.`);
    rmSync(path.join(place.directory, name), { recursive: true, force: true, maxRetries: 3 });
  }
  options.log(`Creating a PostgreSQL ${binaries.version} database in ${place.data}.`);
  // A name of its own for each attempt: the initdb of a killed start may still be writing into the old one.
  const incomplete = `${place.data}.incomplete-${randomBytes(4).toString("hex")}`;
  const args = ["-D", incomplete, `--username=${SUPERUSER}`, `--pwfile=${path.join(place.directory, "password")}`];
  args.push("--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256");
  if (options.settings?.["fsync"] === "off") args.push("--no-sync");
  const run = spawnSync(binaries.initdb, args, { ...runAs(place.user), cwd: place.directory, encoding: "utf8" });
  if (run.status !== 0) {
    rmSync(incomplete, { recursive: true, force: true });
    const said = run.error?.message ?? lastLines(run.stderr, 5);
    throw new SetupError(
      `initdb could not create a database in ${place.directory}: ${said}`,
      "Choose another --data-dir, or set DATABASE_URL.",
    );
  }
  renameSync(incomplete, place.data);
}

async function keptPort(place: Place, log: (line: string) => void): Promise<number> {
  const kept = Number(readKept(place.directory, "port"));
  if (kept > 0 && (await isFree(kept))) return kept;
  const port = await freePort();
  if (kept > 0) log(`Port ${kept} of the embedded PostgreSQL is taken by another program; using ${port} from now on.`);
  keep(place, "port", String(port));
  return port;
}

async function launch(
  place: Place,
  binaries: PostgresBinaries,
  port: number,
  options: EmbeddedPostgresOptions,
): Promise<{ pid: number; error?: never } | { pid?: never; error: SetupError }> {
  const logFile = path.join(place.directory, "server.log");
  const log = openLog(logFile, place.user);
  const logStart = statSync(logFile).size;
  const child = spawn(binaries.postgres, ["-D", place.data, ...serverSettings(port, options.settings)], {
    ...runAs(place.user),
    cwd: place.directory,
    stdio: ["ignore", log, log],
    // A session of its own: Ctrl-C in our terminal must reach us alone, who then stop the server last.
    detached: true,
  });
  closeSync(log);
  child.unref();
  const ended = exitOf(child);
  const up = await waitFor(async () => {
    if (ended() !== undefined) return true;
    const now = readPostmaster(place.data);
    return now?.pid === child.pid && now?.status === "ready" && (await acceptsLogins(port));
  }, options.startTimeoutMs ?? 120_000);
  if (up && ended() === undefined && child.pid !== undefined) return { pid: child.pid };
  if (child.pid !== undefined && ended() === undefined) await endPostmaster(child.pid, place.data);
  const why = ended() ?? "it did not accept connections in time";
  const said = lastLines(readFileSync(logFile).subarray(logStart).toString("utf8"), 12);
  return {
    error: new SetupError(
      `PostgreSQL did not start in ${place.data}: ${why}.\n${said}\n`,
      `The whole log is ${logFile}.`,
    ),
  };
}

function exitOf(child: ChildProcess): () => string | undefined {
  let how: string | undefined;
  child.once("error", (error) => {
    how = error.message;
  });
  child.once("exit", (code, signal) => {
    how = signal === null ? `it ended with status ${code}` : `it was ended by ${signal}`;
  });
  return () => how;
}

function serverSettings(port: number, given: Readonly<Record<string, string>> = {}): string[] {
  const settings = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: "",
    shared_buffers: "64MB",
    max_connections: "200",
    // Errors of the start are shown to people, and logs are compared, in one language and one zone.
    lc_messages: "C",
    log_timezone: "UTC",
    timezone: "UTC",
    ...given,
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

function openLog(file: string, user: OsUser | undefined): number {
  const grown = existsSync(file) && statSync(file).size > LOG_KEPT_BYTES;
  if (grown) renameSync(file, `${file}.1`);
  const log = openSync(file, "a", 0o600);
  if (user !== undefined) fchownSync(log, user.uid, user.gid);
  return log;
}

function lastLines(text: string, count: number): string {
  return text.trimEnd().split("\n").slice(-count).join("\n");
}

function portTaken(port: number): SetupError {
  return new SetupError(
    `Port ${port} for PostgreSQL is in use by another program.`,
    "Choose another one, or leave the setting out.",
  );
}
