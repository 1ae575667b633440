import { createHash, randomUUID } from "node:crypto";
import { accessSync, constants, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { excerptOf, runQuietly } from "./child.mjs";
import { Refusal, say } from "./say.mjs";

/** @param {string} checkout */
export function isInstalled(checkout) {
  return readIfThere(stampOf(checkout)) === fingerprint(checkout) || adoptInstallation(checkout);
}

/** @param {string} checkout @param {(pid: number) => void} onStart */
export async function install(checkout, onStart) {
  const npm = npmCommand();
  const startedAt = Date.now();
  say("Installing dependencies (npm ci), which takes a minute or two the first time …");
  const reminder = setInterval(() => say(`  still installing after ${secondsSince(startedAt)} s …`), REMIND_EVERY_MS);
  try {
    const { code, output, interrupted } = await runQuietly(
      npm.command,
      [...npm.args, ...CLEAN_INSTALL, ...cacheArguments()],
      {
        cwd: checkout,
        shell: npm.shell,
        env: { ...process.env, npm_config_loglevel: "error" },
        onStart,
      },
    );
    if (interrupted) throw new Refusal("Interrupted while installing dependencies: the next start begins again.");
    if (code !== 0) {
      throw new Refusal(
        `Installing dependencies failed: npm ci ended with ${code}, its words are above. Check that this machine reaches its npm registry ` +
          `and has room on its disk, then run the same command again.`,
        excerptOf(output),
      );
    }
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") throw error;
    throw new Refusal("npm was not found: install Node together with npm, then run the same command again.");
  } finally {
    clearInterval(reminder);
  }
  writeFileSync(stampOf(checkout), fingerprint(checkout));
  say(`Dependencies are installed (${secondsSince(startedAt)} s).`);
}

const REMIND_EVERY_MS = 15_000;

// Install scripts are left out for everybody, not only for those whose npm forbids them: one way of installing is one way to test. What
// scripts would have done is either an optimisation or done when it is needed (the links of the embedded Postgres).
const CLEAN_INSTALL = ["ci", "--include=dev", "--include=optional", "--ignore-scripts", "--no-audit", "--no-fund"];

/** The npm that started us when there is one, else the one on the PATH. */
function npmCommand() {
  const running = process.env["npm_execpath"];
  if (running !== undefined && /npm-cli\.[cm]?js$/.test(running) && existsSync(running)) {
    return { command: process.execPath, args: [running], shell: false };
  }
  // On Windows npm is a script of the command interpreter, which spawn runs only through it.
  return { command: "npm", args: [], shell: process.platform === "win32" };
}

/** A user without a home directory, such as nobody, still needs a cache that it may write to. @returns {string[]} */
function cacheArguments() {
  const cache = process.env["npm_config_cache"] ?? join(homedir(), ".npm");
  try {
    mkdirSync(cache, { recursive: true });
    accessSync(cache, constants.W_OK);
    return [];
  } catch {
    return ["--cache", join(tmpdir(), `fairlead-npm-${process.getuid?.() ?? randomUUID()}`)];
  }
}

/** What an installation is made from: the lock file, for this kind of machine. @param {string} checkout */
function fingerprint(checkout) {
  const lockFile = readFileSync(join(checkout, "package-lock.json"));
  return `${createHash("sha256").update(lockFile).digest("hex")} ${process.platform}-${process.arch}\n`;
}

/** @param {string} checkout */
function stampOf(checkout) {
  return join(checkout, "node_modules", ".fairlead-installed");
}

/**
 * Takes over what the user's own `npm ci` or `npm install` made, if it is exactly what the lock file says. npm writes down what it installed
 * when it has finished, but `--package-lock-only` writes that too, so each package is asked for its version as well.
 * @param {string} checkout
 */
function adoptInstallation(checkout) {
  const recorded = packagesOf(join(checkout, "node_modules", ".package-lock.json"));
  if (recorded === undefined) return false;
  const wanted = packagesOf(join(checkout, "package-lock.json")) ?? {};
  for (const [path, entry] of Object.entries(wanted)) {
    // What lies outside node_modules is ours; optional packages are for other kinds of machine.
    if (!path.startsWith("node_modules/") || entry.optional === true) continue;
    if (recorded[path]?.integrity !== entry.integrity) return false;
    const version = versionOf(join(checkout, path));
    if (version === undefined || (entry.version !== undefined && version !== entry.version)) return false;
  }
  try {
    writeFileSync(stampOf(checkout), fingerprint(checkout));
  } catch {
    // A checkout that this user may only read: it is looked at again next time.
  }
  return true;
}

/** @typedef {{ version?: string, integrity?: string, optional?: boolean }} LockedPackage */

/** @param {string} path @returns {Record<string, LockedPackage> | undefined} */
function packagesOf(path) {
  const text = readIfThere(path);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text).packages;
  } catch {
    return undefined;
  }
}

/** @param {string} folder @returns {string | undefined} */
function versionOf(folder) {
  const text = readIfThere(join(folder, "package.json"));
  return text === undefined ? undefined : (JSON.parse(text).version ?? "");
}

/** @param {string} path */
function readIfThere(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** @param {number} startedAt */
function secondsSince(startedAt) {
  return Math.round((Date.now() - startedAt) / 1000);
}
