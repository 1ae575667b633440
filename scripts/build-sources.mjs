import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { excerptOf, runQuietly } from "./child.mjs";
import { Refusal, say } from "./say.mjs";

/** What is built: the plane, and the package with which agents run behind it. */
const parts = [
  { project: "tsconfig.build.json", target: "dist" },
  { project: "runners/typescript/tsconfig.json", target: "runners/typescript/dist" },
];

/** Everything that decides what the compiler writes. */
const inputs = [
  "src",
  "runners/typescript/src",
  "tsconfig.base.json",
  "tsconfig.build.json",
  "runners/typescript/tsconfig.json",
  "runners/typescript/package.json",
  "package.json",
  "package-lock.json",
];

/** @param {string} checkout */
export function isBuilt(checkout) {
  const wanted = fingerprint(checkout);
  return parts.every(({ target }) => {
    const stamp = join(checkout, target, STAMP);
    return existsSync(stamp) && readFileSync(stamp, "utf8") === wanted;
  });
}

/**
 * Types are the business of `npm run check`; a start only needs the JavaScript, and a half-written file elsewhere should not stop it.
 * @param {string} checkout @param {(pid: number) => void} onStart @param {{ checkTypes?: boolean }} [options]
 */
export async function build(checkout, onStart, { checkTypes = false } = {}) {
  const startedAt = Date.now();
  say("Building …");
  const stamp = fingerprint(checkout);
  for (const { project, target } of parts) {
    const draft = join(checkout, "node_modules", ".fairlead-build", target.replaceAll("/", "-"));
    rmSync(draft, { recursive: true, force: true });
    await compile(checkout, ["-p", project, "--outDir", draft, ...(checkTypes ? [] : ["--noCheck"])], onStart);
    publish(draft, join(checkout, target));
    rmSync(draft, { recursive: true, force: true });
    writeFileSync(join(checkout, target, STAMP), stamp);
  }
  linkRunnerCommand(checkout);
  say(`Built (${((Date.now() - startedAt) / 1000).toFixed(1)} s).`);
}

const STAMP = ".fairlead-built";

/** @param {string} checkout @param {string[]} args @param {(pid: number) => void} onStart */
async function compile(checkout, args, onStart) {
  const compiler = join(checkout, "node_modules", "typescript", "bin", "tsc");
  const { code, output, interrupted } = await runQuietly(process.execPath, [compiler, ...args], {
    cwd: checkout,
    onStart,
  });
  if (interrupted) throw new Refusal("Interrupted while building: the next start begins again.");
  if (code === 0) return;
  throw new Refusal(
    "Building failed, and the compiler's reasons are above: correct the sources (or `git checkout` them), then run the same command again.",
    excerptOf(output),
  );
}

/**
 * Brings the target to what the draft holds, file by file and only where they differ, so that a server which runs from the target never
 * sees a half-written or a missing file.
 * @param {string} draft @param {string} target
 */
function publish(draft, target) {
  const made = new Set(filesBelow(draft));
  for (const file of made) {
    const text = file.endsWith(".map")
      ? mapFrom(join(draft, file), join(target, file))
      : readFileSync(join(draft, file), "utf8");
    const path = join(target, file);
    if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.next`, text);
    renameSync(`${path}.next`, path);
  }
  for (const file of filesBelow(target)) {
    if (!made.has(file)) rmSync(join(target, file));
  }
}

/** A source map names its sources relative to itself, and it moves. @param {string} from @param {string} to */
function mapFrom(from, to) {
  const map = JSON.parse(readFileSync(from, "utf8"));
  map.sources = map.sources.map((/** @type {string} */ source) =>
    relative(dirname(to), resolve(dirname(from), source))
      .split(sep)
      .join("/"),
  );
  return JSON.stringify(map);
}

/** npm links a workspace's command only when the file is there while it installs, which is before the first build. @param {string} checkout */
function linkRunnerCommand(checkout) {
  const { bin } = JSON.parse(readFileSync(join(checkout, "runners/typescript/package.json"), "utf8"));
  for (const [name, file] of Object.entries(/** @type {Record<string, string>} */ (bin ?? {}))) {
    const path = join(checkout, "runners/typescript", file);
    const link = join(checkout, "node_modules", ".bin", name);
    if (!existsSync(path) || process.platform === "win32") continue;
    chmodSync(path, 0o755);
    if (existsSync(link)) continue;
    rmSync(link, { force: true });
    symlinkSync(relative(dirname(link), path), link);
  }
}

/** @param {string} checkout */
function fingerprint(checkout) {
  const hash = createHash("sha256");
  for (const input of inputs) {
    const path = join(checkout, input);
    if (!existsSync(path)) continue;
    const files = filesBelow(path);
    // Length before content, so that no two trees look the same by moving text from one file to the next.
    for (const file of files) {
      const bytes = readFileSync(join(path, file));
      hash.update(`${input}/${file} ${bytes.length}\n`).update(bytes);
    }
  }
  return `${hash.digest("hex")}\n`;
}

/** The files below a folder, or a file itself as "", in a fixed order. @param {string} path @returns {string[]} */
function filesBelow(path) {
  if (!existsSync(path)) return [];
  try {
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(path, join(entry.parentPath, entry.name)))
      .sort();
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOTDIR") return [""];
    throw error;
  }
}
