import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { compiler, smallCheckout, startNode } from "./small-checkout.js";

let checkout: ReturnType<typeof smallCheckout>;
const running: ReturnType<typeof startNode>[] = [];

beforeEach(() => {
  checkout = smallCheckout();
});

afterEach(async () => {
  for (const one of running.splice(0)) {
    one.kill("SIGTERM");
    await one.ended;
  }
  checkout.remove();
});

test("a start on a fresh clone installs, builds, and runs the plane with the arguments given", async () => {
  const start = run("start.mjs", ["--port", "1"]);
  await start.says(/main runs with \["dev","--port","1"\]/);
  expect(start.output()).toMatch(
    /Installing dependencies .*\n(.*\n)*Dependencies are installed .*\nBuilding …\nBuilt /,
  );
  expect(start.output().indexOf("Built")).toBeLessThan(start.output().indexOf("main runs"));
});

test("a start after which nothing changed installs and builds nothing, and needs no right to write", async () => {
  await prepared();
  const before = execFileSync("find", [".", "-newer", "package.json", "-printf", "%p %T@\n"], {
    cwd: checkout.path,
    encoding: "utf8",
  });
  const again = run("start.mjs", [], unprivileged());
  await again.says(/main runs with \["dev"\]/);
  expect(again.output()).toMatch(/^main runs/);
  const after = execFileSync("find", [".", "-newer", "package.json", "-printf", "%p %T@\n"], {
    cwd: checkout.path,
    encoding: "utf8",
  });
  expect(after).toBe(before);
});

test("a changed source is built again and nothing is installed; a deleted one leaves the build", async () => {
  checkout.write("src/runs/old.ts", "export const old = 1;\n");
  await prepared();
  expect(existsSync(join(checkout.path, "dist/runs/old.js"))).toBe(true);
  const untouched = statSync(join(checkout.path, "dist/main.js")).ino;

  rmSync(join(checkout.path, "src/runs/old.ts"));
  checkout.write("src/runs/fresh.ts", "export const fresh: number = 1;\n");
  expect(await prepared()).toMatch(/^Building …\nBuilt \([\d.]+ s\)\.\n$/);

  expect(readdirSync(join(checkout.path, "dist/runs")).sort()).toEqual(["fresh.js", "fresh.js.map"]);
  expect(statSync(join(checkout.path, "dist/main.js")).ino).toBe(untouched);
});

test("a changed lock file is installed again", async () => {
  await prepared();
  checkout.write("extra/package.json", JSON.stringify({ name: "extra", version: "1.0.0" }));
  checkout.dependOn({ ...compiler, extra: "file:./extra" });
  expect(await prepared()).toContain("Installing dependencies");
  expect(existsSync(join(checkout.path, "node_modules/extra/package.json"))).toBe(true);
});

test("what the user installed by hand is taken over when it is what the lock file says", async () => {
  execFileSync("npm", ["ci", "--offline", "--no-audit"], { cwd: checkout.path, stdio: "pipe" });
  expect(await prepared()).not.toContain("Installing");
  rmSync(join(checkout.path, "node_modules"), { recursive: true });
  expect(await prepared()).toContain("Installing");
});

test("development dependencies are installed in a production environment too", async () => {
  const output = await prepared({ env: { ...process.env, NODE_ENV: "production", npm_config_omit: "dev" } });
  expect(output).toContain("Built");
});

test("source maps lead from the build to the sources, and the runner's command is linked and can be run", async () => {
  await prepared();
  const map = JSON.parse(readFileSync(join(checkout.path, "dist/main.js.map"), "utf8"));
  expect(map.sources).toEqual(["../src/main.ts"]);
  const command = join(checkout.path, "node_modules/.bin/small-runner");
  expect(execFileSync(command, { encoding: "utf8" })).toBe("runner\n");
});

test("the second of two starts of one checkout waits, says so, and does nothing twice", async () => {
  const [first, second] = [run("prepare-only.mjs", []), run("prepare-only.mjs", [])];
  expect([(await first.ended).code, (await second.ended).code]).toEqual([0, 0]);
  const both = first.output() + second.output();
  expect(both.match(/Installing dependencies/g)).toHaveLength(1);
  expect(both.match(/Building/g)).toHaveLength(1);
  expect(both).toMatch(/Waiting: process \d+ is installing or building in this checkout/);
  expect(existsSync(join(checkout.path, ".fairlead/prepare.lock"))).toBe(false);
});

test("a start that was killed while it installed does not keep the next one out", async () => {
  const first = run("prepare-only.mjs", []);
  await first.says(/Installing dependencies/);
  first.kill("SIGKILL");
  await first.ended;
  expect(await prepared()).toContain("Built");
});

test("a start that is ended while it installs ends npm first and leaves no lock", async () => {
  const first = run("prepare-only.mjs", []);
  await vi.waitFor(() => expect(holdersOfTheLock()).toHaveLength(2), { timeout: 10_000, interval: 5 });
  first.kill("SIGTERM");
  const { code } = await first.ended;
  expect(code).toBe(1);
  expect(first.output()).toContain("Interrupted while installing dependencies: the next start begins again.");
  expect(readdirSync(join(checkout.path, ".fairlead"))).toEqual([]);
});

test("a failing installation ends in one line that says what to do, after npm's own last words", async () => {
  const manifest = JSON.parse(readFileSync(join(checkout.path, "package.json"), "utf8"));
  manifest.devDependencies.missing = "file:./not-there";
  checkout.write("package.json", JSON.stringify(manifest));
  const start = run("start.mjs", []);
  expect((await start.ended).code).toBe(1);
  expect(start.output()).toContain("npm error");
  expect(lastLine(start.output())).toMatch(/^Installing dependencies failed: .* then run the same command again\.$/);
});

test("sources that cannot be compiled end in one line that says what to do, after the compiler's reasons", async () => {
  checkout.write("src/broken.ts", "export const = 1;\n");
  const start = run("start.mjs", []);
  expect((await start.ended).code).toBe(1);
  expect(start.output()).toContain("src/broken.ts(1,14): error");
  expect(lastLine(start.output())).toMatch(/^Building failed, .* then run the same command again\.$/);
});

test("npm run build refuses wrong types, which a start does not look at", async () => {
  checkout.write("src/wrong.ts", "export const text: string = 1;\n");
  expect(await prepared()).toContain("Built");
  const build = run("build.mjs", []);
  expect((await build.ended).code).toBe(1);
  expect(build.output()).toContain("src/wrong.ts(1,14): error TS2322");
});

test("a checkout that this user may not write to is refused in one line", async () => {
  const start = run("start.mjs", [], unprivileged());
  chmodSync(checkout.path, 0o755);
  expect((await start.ended).code).toBe(1);
  expect(start.output()).toMatch(
    /^Fairlead has to install and build in .*, and this user may not write to .* \(EACCES\): run .*\n$/,
  );
});

test("a start forwards the signal that ends it, waits for the plane, and ends with the plane's code", async () => {
  const start = run("start.mjs", []);
  const [, pid] = await start.says(/main runs with .* as (\d+)/);
  start.kill("SIGTERM");
  expect(await start.ended).toEqual({ code: 7, signal: null });
  expect(start.output()).toContain("main ends");
  expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH");
});

function run(script: string, args: readonly string[], options: Parameters<typeof startNode>[1] = {}) {
  if (script === "prepare-only.mjs") {
    const [prepare, say] = ["./prepare.mjs", "./say.mjs"];
    checkout.write(
      "scripts/prepare-only.mjs",
      `import { prepare } from "${prepare}";\nimport { explain } from "${say}";\nprepare().catch((error) => { process.exitCode = explain(error); });\n`,
    );
  }
  const one = startNode([join(checkout.path, "scripts", script), ...args], { cwd: checkout.path, ...options });
  running.push(one);
  return one;
}

async function prepared(options: Parameters<typeof startNode>[1] = {}): Promise<string> {
  const one = run("prepare-only.mjs", [], options);
  expect((await one.ended).code, one.output()).toBe(0);
  return one.output();
}

/** The process that prepares, and the program that it runs. */
function holdersOfTheLock(): unknown[] {
  return JSON.parse(readFileSync(join(checkout.path, ".fairlead/prepare.lock"), "utf8")).holders;
}

/** Somebody else than the owner: root can become nobody, everybody else takes the right away from themselves. */
function unprivileged(): Parameters<typeof startNode>[1] {
  if (process.getuid?.() === 0) return { uid: 65534, gid: 65534, env: { ...process.env, HOME: "/nonexistent" } };
  chmodSync(checkout.path, 0o555);
  return {};
}

function lastLine(output: string): string {
  return output.trimEnd().split("\n").at(-1) ?? "";
}
