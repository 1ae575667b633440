import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCommand } from "./support/command.js";
import { planeFor } from "./support/world.js";

// What `npm pack` makes, installed in an empty folder: nothing of this repository is in reach there.

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../runners/typescript", import.meta.url));
let folder: string;
let files: string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-package-"));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: root });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  files = packed.files.map(({ path }) => path);
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "somewhere", private: true, type: "module" }));
  const install = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--omit=optional", `./${packed.filename}`];
  await run("npm", install, { cwd: folder });
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the package holds what it was built to, its types and its readme, and no source", () => {
  for (const file of ["dist/index.js", "dist/index.d.ts", "dist/cli.js", "dist/langgraph/adapter.js", "README.md"]) {
    expect(files).toContain(file);
  }
  expect(files).toContain("dist/generated/fairlead/runner/v1/runner.js");
  expect(files.filter((file) => /^src\/|[.]test[.]|[.]tsbuildinfo$/.test(file))).toEqual([]);
});

test("in an empty folder it installs two dependencies and theirs, and no framework", () => {
  const scopes = readdirSync(join(folder, "node_modules"));
  expect(scopes).toContain("@grpc");
  expect(scopes).toContain("@bufbuild");
  expect(scopes).not.toContain("@langchain");
});

test("its command runs an agent there", async () => {
  const plane = await planeFor();
  writeFileSync(join(folder, "agents.mjs"), "export const echo = async (run) => ({ got: run.input });");
  writeFileSync(join(folder, "runner.json"), JSON.stringify({ agents: { echo: "./agents.mjs:echo" } }));
  const env = { FAIRLEAD_RUNNER_ADDRESS: plane.address, FAIRLEAD_RUNNER_TOKEN: "flr_test" };
  const file = join(folder, "node_modules", ".bin", "fairlead-runner");
  const command = runCommand([], { env, cwd: folder, file });
  await command.said("ready");
  const ended = await plane.ended(plane.assign({ json: { input: "here" } }));
  expect(ended.report!.values.toString()).toBe('{"got":"here"}');
  command.child.kill("SIGTERM");
  expect(await command.exit).toEqual({ code: 0, signal: null });
});

test("a graph without LangGraph.js is refused with the command that installs it", async () => {
  writeFileSync(
    join(folder, "graph.mjs"),
    `import { createRunner, langgraph } from "@fairlead/runner";
     const runner = createRunner({ address: "127.0.0.1:1", token: "flr_x", agents: { g: langgraph({}) } });
     await runner.start().catch((error) => { console.log(error.code, error.message); process.exit(0); });`,
  );
  const command = runCommand([], { cwd: folder, file: join(folder, "graph.mjs") });
  expect((await command.exit).code).toBe(0);
  expect(command.output()).toMatch(
    /^config agents\.g: needs LangGraph\.js, which is not installed\. Run: npm install @langchain\/langgraph/,
  );
});
