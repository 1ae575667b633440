import { expect, test } from "vitest";
import { refusalOf } from "../../scripts/node-floor.mjs";
import { closingLine, verdict } from "../../scripts/run-tests.mjs";

const good = { passed: 3, failed: 0, skipped: 0 };

test("a run in which every test passed has nothing to complain about", () => {
  expect(verdict(good, 0, true).complaints).toEqual([]);
});

test("a skipped test is a complaint in CI and none elsewhere", () => {
  const skipped = { ...good, skipped: 1 };
  expect(verdict(skipped, 0, false).complaints).toEqual([]);
  expect(verdict(skipped, 0, true).complaints).toEqual([expect.stringContaining("1 skipped")]);
});

test.each([true, false])("a run without one executed test is a complaint (CI: %s)", (ci) => {
  expect(verdict({ passed: 0, failed: 0, skipped: 5 }, 0, ci).complaints[0]).toContain("No test was executed");
});

test("a vitest that died before it counted is a complaint", () => {
  expect(verdict(undefined, 139, false).complaints).toEqual([expect.stringContaining("ended with 139")]);
});

test("a vitest that ended badly with all tests passed is a complaint", () => {
  expect(verdict(good, 1, false).complaints).toEqual([expect.stringContaining("Every test passed, but")]);
});

test("the closing line names the skipped only when there are some", () => {
  expect(closingLine(good)).toBe("3 passed, 0 failed");
  expect(closingLine({ ...good, skipped: 2 })).toBe("3 passed, 0 failed, 2 skipped");
});

test.each(["12.22.0", "18.20.8", "20.18.3"])("Node %s is refused in one line that says what to install", (version) => {
  expect(refusalOf(version)).toMatch(
    new RegExp(`^Fairlead needs Node 20\\.19 or newer and this is Node ${version}: install Node 24.*$`),
  );
});

test.each(["20.19.0", "20.20.2", "22.0.0", "24.21.0"])("Node %s will do", (version) => {
  expect(refusalOf(version)).toBeUndefined();
});
