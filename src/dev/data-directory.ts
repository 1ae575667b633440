// What `fairlead dev` keeps between starts: the database (postgres/), the root key, the
// sample runner's token, the port for runners, and dev.json.
import { randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { claimDirectory } from "../platform/directory-claim.js";
import { freePort, isFree } from "../platform/free-port.js";
import { SetupError } from "../platform/setup-error.js";

const CHOOSE_ANOTHER = "Choose another --data-dir, or give this user the right to write there.";
/** A new cluster takes about 60 MB, its first write-ahead log and a day of trying things out the rest. */
const NEW_DATABASE_MB = 250;

export interface DataDirectory {
  readonly path: string;
  /** Lets the next process in. */
  release(): void;
}

/** Makes the directory, or refuses it, and takes it for this process. */
export function openDataDirectory(wanted: string): DataDirectory {
  try {
    const made = mkdirSync(wanted, { recursive: true, mode: 0o711 });
    // As root, PostgreSQL runs as another user, who must get through to its own directory below, whatever the umask.
    if (made !== undefined)
      for (let one = wanted; one.length >= made.length; one = path.dirname(one)) chmodSync(one, 0o711);
    accessSync(wanted, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "EEXIST" || code === "ENOTDIR" ? "a file is in the way" : (code ?? message);
    throw new SetupError(`The data directory ${wanted} cannot be used (${why}).`, CHOOSE_ANOTHER, { cause });
  }
  return { path: wanted, release: claimDirectory(wanted) };
}

/** Refuses a disk on which the server would stop in the middle of its first start. */
export function requireDiskSpace(directory: string): void {
  if (existsSync(path.join(directory, "postgres", "data"))) return;
  const { bavail, bsize } = statfsSync(directory);
  const freeMb = Math.floor((bavail * bsize) / 1_048_576);
  if (freeMb >= NEW_DATABASE_MB) return;
  throw new SetupError(
    `The disk of ${directory} has ${freeMb} MB left, and a new database takes about ${NEW_DATABASE_MB} MB.`,
    "Free some space, choose another --data-dir, or set DATABASE_URL.",
  );
}

/** Keys the hashes of all credentials here: without it the stored ones are worthless. */
export function keptRootKey(directory: string): string {
  const file = path.join(directory, "root-key");
  const kept = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (kept.length >= 32) return kept;
  if (kept !== "") {
    throw new SetupError(
      `The root key in ${file} is too short.`,
      "Restore the file, or delete it: the next start then makes a new one, and new API keys.",
    );
  }
  const key = randomBytes(32).toString("base64url");
  writePrivately(file, `${key}\n`);
  return key;
}

/** The sample runner's token of an earlier start. */
export function keptSampleToken(directory: string): string | undefined {
  const file = path.join(directory, "sample-runner-token");
  return existsSync(file) ? readFileSync(file, "utf8").trim() : undefined;
}

export function keepSampleToken(directory: string, token: string): void {
  if (keptSampleToken(directory) !== token) writePrivately(path.join(directory, "sample-runner-token"), `${token}\n`);
}

/** The port for runners: the same at every start, so that a runner of the user's own finds it again. */
export async function keptGrpcPort(directory: string, log: (line: string) => void): Promise<number> {
  const file = path.join(directory, "grpc-port");
  const kept = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
  if (kept > 0 && kept < 65_536 && (await isFree(kept))) return kept;
  const port = await freePort();
  if (kept > 0) log(`Port ${kept} for runners is taken by another program; using ${port} from now on.`);
  writePrivately(file, `${port}\n`);
  return port;
}

/** Whoever reads the file sees the old content or the new, and nobody but this user sees either. */
export function writePrivately(file: string, content: string): void {
  const draft = `${file}.new`;
  writeFileSync(draft, content, { mode: 0o600 });
  chmodSync(draft, 0o600);
  if (process.geteuid?.() === 0) {
    // A start by root must not lock the owner of the directory out of their own data.
    const { uid, gid } = statSync(path.dirname(file));
    chownSync(draft, uid, gid);
  }
  renameSync(draft, file);
}
