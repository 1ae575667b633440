// At most one live process works on a data directory. The claim is a file that names its holder; a holder that was killed leaves the file
// behind, so a claim counts only while its process lives. Process ids are reused, hence the start time beside it where the system tells.
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isAlive } from "./postmaster.js";
import { SetupError } from "./setup-error.js";

/** Takes the directory for this process, or says who has it. Returns the function that gives it back. */
export function claimDirectory(directory: string): () => void {
  const file = path.join(directory, "claim");
  const mine = identity(process.pid);
  // Written elsewhere and linked, so that nobody ever reads a claim without its content.
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, mine, { mode: 0o644 });
  try {
    for (let attempt = 0; attempt < 10; attempt += 1) {
      if (placeClaim(draft, file)) return () => releaseClaim(file, mine);
      removeStaleClaim(file, directory);
    }
    throw inUse(directory, "another process");
  } finally {
    rmSync(draft, { force: true });
  }
}

function placeClaim(draft: string, file: string): boolean {
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function removeStaleClaim(file: string, directory: string): void {
  const claim = readClaim(file);
  if (claim === undefined) return;
  const pid = Number.parseInt(claim, 10);
  if (isAlive(pid) && identity(pid) === claim)
    throw inUse(directory, pid === process.pid ? "this process" : `process ${pid}`);
  rmSync(file, { force: true });
}

function releaseClaim(file: string, mine: string): void {
  if (readClaim(file) === mine) rmSync(file, { force: true });
}

function readClaim(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined; // Its holder let go between our two looks.
  }
}

function identity(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Field 22 of the line, counted behind the name, which may itself contain spaces and brackets.
    return `${pid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? ""}`;
  } catch {
    return `${pid} `;
  }
}

function inUse(directory: string, holder: string): SetupError {
  return new SetupError(
    `The data directory ${directory} is in use by ${holder}.`,
    "Stop it first, or choose another --data-dir.",
  );
}
