// PostgreSQL refuses to run as root. Started by root, we run it as a user that already exists; no user is ever created.
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { SetupError } from "./setup-error.js";

export interface OsUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Who runs programs that refuse root: `postgres` where a package made that user, else `nobody`. */
export function unprivilegedUser(): OsUser {
  const users = knownUsers();
  const user = users.find((one) => one.name === "postgres") ?? users.find((one) => one.name === "nobody");
  if (user !== undefined && user.uid !== 0) return user;
  throw new SetupError(
    "PostgreSQL does not run as root, and /etc/passwd has neither a user postgres nor a user nobody.",
    "Start Fairlead as an ordinary user, or set DATABASE_URL.",
  );
}

/** The name of a user id for messages, and its main group. */
export function userById(uid: number, gid: number): OsUser {
  return knownUsers().find((one) => one.uid === uid) ?? { name: `uid ${uid}`, uid, gid };
}

function knownUsers(): OsUser[] {
  let text: string;
  try {
    text = readFileSync("/etc/passwd", "utf8");
  } catch {
    return []; // A system without the file has no names either; ids still work.
  }
  return text.split("\n").flatMap((line) => {
    const [name, , uid, gid] = line.split(":");
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}

/** Spawn options that make a child run as `user`. Node drops the supplementary groups when it sets them. */
export function runAs(user: OsUser | undefined): { uid?: number; gid?: number } {
  return user === undefined ? {} : { uid: user.uid, gid: user.gid };
}

/**
 * The first directory on the way down to `directory` that `user` cannot enter, or undefined when the way is free. The question is put to
 * the kernel by really going there, because mode bits do not show access lists; the bits only name the culprit afterwards.
 */
export function firstBarrier(directory: string, user: OsUser): string | undefined {
  const entered = spawnSync("/bin/sh", ["-c", 'cd "$1"', "sh", directory], {
    ...runAs(user),
    cwd: "/",
    stdio: "ignore",
  });
  if (entered.status === 0) return undefined;
  return ancestors(directory).find((one) => !mayEnter(one, user)) ?? directory;
}

function ancestors(directory: string): string[] {
  const parent = path.dirname(directory);
  return parent === directory ? [directory] : [...ancestors(parent), directory];
}

function mayEnter(directory: string, user: OsUser): boolean {
  const { mode, uid, gid } = statSync(directory);
  if (uid === user.uid) return (mode & 0o100) !== 0;
  if (gid === user.gid) return (mode & 0o010) !== 0;
  return (mode & 0o001) !== 0;
}
