import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInForeground } from "./child.mjs";
import { root } from "./prepare.mjs";

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/**
 * Runs vitest, then says in one line how it went. The counts come from our reporter (test/support/reporter.ts) by way of a file.
 * @param {readonly string[]} args
 */
export async function runTests(args) {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-counts-"));
  const path = join(folder, "counts.json");
  try {
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
    const code = await runInForeground(process.execPath, [vitest, "run", ...args], {
      cwd: root,
      env: { ...process.env, NODE_ENV: "test", FAIRLEAD_TEST_COUNTS: path },
    });
    const { counts, complaints } = verdict(readCounts(path), code, isCi(process.env["CI"]));
    for (const complaint of complaints) console.log(complaint);
    console.log(closingLine(counts));
    return complaints.length > 0 || counts.failed > 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * What else than a failed test makes a run fail: nothing ran, something was left out where nothing may be, or vitest itself gave up.
 * @param {Counts | undefined} counts @param {number} code @param {boolean} ci
 */
export function verdict(counts, code, ci) {
  const complaints = [];
  const known = counts ?? { passed: 0, failed: 0, skipped: 0 };
  if (counts === undefined) complaints.push(`vitest ended with ${code} before it could count its tests.`);
  else if (known.passed + known.failed === 0)
    complaints.push("No test was executed: check the file names and filters.");
  else if (code !== 0 && known.failed === 0)
    complaints.push(`Every test passed, but vitest ended with ${code}: the reason is above.`);
  if (ci && known.skipped > 0)
    complaints.push(`${known.skipped} skipped, and with CI=true every test has to run: the list is above.`);
  return { counts: known, complaints };
}

/** @param {Counts} counts */
export function closingLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** @param {string | undefined} value */
function isCi(value) {
  return value !== undefined && value !== "" && value !== "false" && value !== "0";
}

/** @param {string} path @returns {Counts | undefined} */
function readCounts(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
