// One process at a time installs or builds in a checkout. The lock is a file that names its holder (and the program that the holder runs), so
// that a holder which was killed is recognised: its process is gone, or its number now belongs to a process that started at another time.
// Replacing a dead holder's lock needs a second file named after that very lock, taken exclusively: otherwise two waiters could each
// see the same dead holder, and the slower one would throw away the lock of the faster one.

import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";

/** @typedef {{ id: string, holders: { pid: number, startedAt: string }[] }} LockRecord */

/** Try to lock; answers the lock, or who holds it. @param {string} path @returns {{ lock: CheckoutLock } | { heldBy: number }} */
export function tryLock(path) {
  const mine = { id: randomUUID(), holders: [holder(process.pid)] };
  if (createExclusively(path, mine)) return { lock: lockAt(path, mine) };
  const theirs = readRecord(path);
  if (theirs === undefined) return { heldBy: 0 }; // Released, or not yet written, between the two calls: the caller asks again.
  const alive = theirs.holders.find(isAlive);
  if (alive !== undefined) return { heldBy: alive.pid };
  return replaceDead(path, theirs, mine) ? { lock: lockAt(path, mine) } : { heldBy: 0 };
}

/** @typedef {{ addHolder(pid: number): void, release(): void }} CheckoutLock */

/** @param {string} path @param {LockRecord} mine @returns {CheckoutLock} */
function lockAt(path, mine) {
  return {
    addHolder(pid) {
      mine.holders.push(holder(pid));
      const next = `${path}.${mine.id}`;
      writeFileSync(next, JSON.stringify(mine));
      renameSync(next, path);
    },
    release() {
      if (readRecord(path)?.id === mine.id) rmSync(path, { force: true });
    },
  };
}

/** Puts a lock of ours in the place of exactly this dead one, or answers false. @param {string} path @param {LockRecord} dead @param {LockRecord} mine */
export function replaceDead(path, dead, mine) {
  const heir = `${path}.after-${dead.id}`;
  if (!createExclusively(heir, mine)) {
    const rival = readRecord(heir);
    if (rival !== undefined && !rival.holders.some(isAlive)) rmSync(heir, { force: true });
    return false;
  }
  if (readRecord(path)?.id !== dead.id) {
    rmSync(heir, { force: true });
    return false;
  }
  renameSync(heir, path);
  return true;
}

/**
 * A hard link appears at once with its content and fails when the name is taken; writing under the name would show an empty lock for a moment.
 * @param {string} path @param {LockRecord} record
 */
function createExclusively(path, record) {
  const draft = `${path}.${record.id}`;
  writeFileSync(draft, JSON.stringify(record));
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    if (!["EPERM", "ENOTSUP", "ENOSYS", "EMLINK"].includes(codeOf(error))) throw error;
    return createWithoutLinks(path, record);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** For file systems without hard links. @param {string} path @param {LockRecord} record */
function createWithoutLinks(path, record) {
  try {
    writeFileSync(path, JSON.stringify(record), { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** @param {string} path @returns {LockRecord | undefined} */
function readRecord(path) {
  try {
    const text = readFileSync(path, "utf8");
    if (text !== "") return JSON.parse(text);
    // Just created on a file system without links, or left by a holder that died right then.
    const ageMs = Date.now() - statSync(path).mtimeMs;
    return ageMs < UNWRITTEN_FOR_MS ? undefined : { id: "unwritten", holders: [] };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    if (error instanceof SyntaxError) return { id: "unreadable", holders: [] };
    throw error;
  }
}

const UNWRITTEN_FOR_MS = 10_000;

/** @param {unknown} error @returns {string} */
function codeOf(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code ?? "";
}

/** @param {number} pid */
function holder(pid) {
  return { pid, startedAt: startOf(pid) };
}

/** @param {{ pid: number, startedAt: string }} holder */
function isAlive({ pid, startedAt }) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it lives and belongs to somebody else.
    if (codeOf(error) !== "EPERM") return false;
  }
  return startOf(pid) === startedAt;
}

/** When a process started, as Linux tells it; elsewhere the number alone has to do. @param {number} pid */
function startOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in brackets may hold spaces. After it come the state and, 19 fields later, the start time.
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? "dead, and not yet collected by its parent" : (fields[18] ?? "");
  } catch {
    return "";
  }
}
