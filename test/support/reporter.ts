import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, SerializedError, TestCase, TestModule, Vitest } from "vitest/node";

const STILL_RUNNING_EVERY_MS = 30_000;
const SLOWEST = 10;

/**
 * Stands beside vitest's own reporter and adds three things: a sign of life from files that take long, the slowest files, and the counts as a
 * file, from which scripts/run-tests.mjs makes the closing line.
 */
export default class FairleadReporter implements Reporter {
  private readonly running = new Map<string, number>();
  private signOfLife: NodeJS.Timeout | undefined;
  private root = process.cwd();
  private allTestsWanted = true;

  onInit(vitest: Vitest): void {
    this.root = vitest.config.root;
    this.allTestsWanted = vitest.config.testNamePattern === undefined;
  }

  onTestRunStart(): void {
    this.signOfLife = setInterval(() => this.tellWhatRuns(), STILL_RUNNING_EVERY_MS);
    this.signOfLife.unref();
  }

  onTestModuleStart(module: TestModule): void {
    this.running.set(this.nameOf(module), Date.now());
  }

  onTestModuleEnd(module: TestModule): void {
    this.running.delete(this.nameOf(module));
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    clearInterval(this.signOfLife);
    this.tellSlowest(modules);
    if (this.allTestsWanted) this.tellSkipped(modules);
    const path = process.env["FAIRLEAD_TEST_COUNTS"];
    if (path !== undefined) writeFileSync(path, JSON.stringify(countTests(modules, errors)));
  }

  private tellWhatRuns(): void {
    const files = [...this.running].map(([file, since]) => `${file} (${Math.round((Date.now() - since) / 1000)} s)`);
    if (files.length > 0) console.log(`   still running: ${files.join(", ")}`);
  }

  private tellSlowest(modules: readonly TestModule[]): void {
    const timed = modules.map((module) => ({ name: this.nameOf(module), ms: timeOf(module) }));
    const slowest = timed.sort((a, b) => b.ms - a.ms).slice(0, SLOWEST);
    if (slowest.length === 0) return;
    console.log("\nSlowest files");
    for (const { name, ms } of slowest) console.log(`  ${(ms / 1000).toFixed(1).padStart(7)} s  ${name}`);
  }

  private tellSkipped(modules: readonly TestModule[]): void {
    const skipped = modules.flatMap((module) => [...module.children.allTests("skipped")]);
    if (skipped.length === 0) return;
    console.log("\nSkipped");
    for (const test of skipped) console.log(`  ${this.nameOf(test.module)} > ${test.fullName}${noteOf(test)}`);
  }

  private nameOf(module: TestModule): string {
    return relative(this.root, module.moduleId);
  }
}

function timeOf(module: TestModule): number {
  const { setupDuration, collectDuration, duration } = module.diagnostic();
  return setupDuration + collectDuration + duration;
}

function noteOf(test: TestCase): string {
  const result = test.result();
  return result.state === "skipped" && result.note !== undefined ? ` (${result.note})` : "";
}

/** A file that broke before its tests, and an error outside of every test, count as one failure each: they must not look like nothing. */
function countTests(modules: readonly TestModule[], errors: readonly SerializedError[]) {
  const counts = { passed: 0, failed: errors.length, skipped: 0 };
  for (const module of modules) {
    let failedTests = 0;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === "passed") counts.passed += 1;
      else if (state === "skipped") counts.skipped += 1;
      else failedTests += 1;
    }
    counts.failed += failedTests;
    if (failedTests === 0 && !module.ok()) counts.failed += 1;
  }
  return counts;
}
