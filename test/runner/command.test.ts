import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Outcome } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { runCommand } from "./support/command.js";
import { until } from "./support/until.js";
import { planeFor } from "./support/world.js";

const sample = fileURLToPath(new URL("../../runners/sample/runner.json", import.meta.url));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-runner-"));
  writeFileSync(
    join(folder, "agents.mjs"),
    `export const echo = async (run) => ({ got: run.input });
     export const slow = (run) => new Promise((resolve, reject) => {
       const timer = setTimeout(resolve, 60_000);
       run.signal.addEventListener("abort", () => { clearTimeout(timer); reject(run.signal.reason); });
     });
     export const careless = async () => { Promise.reject(new Error("nobody waits for me")); setInterval(() => {}, 1_000); return {}; };
     export const number = 5;
     export default echo;`,
  );
  writeFileSync(join(folder, "broken.mjs"), "import 'a-package-that-is-not-there';");
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function configFile(fields: object | string): string {
  const file = join(folder, `${crypto.randomUUID()}.json`);
  writeFileSync(file, typeof fields === "string" ? fields : JSON.stringify(fields));
  return file;
}

const good = { address: "127.0.0.1:1", token: "flr_test", agents: { echo: "./agents.mjs:echo" } };

test.each([
  [
    "a file that is missing",
    () => join(folder, "nowhere.json"),
    /nowhere\.json does not exist\. Name the runner's configuration/,
  ],
  ["a file that is not JSON", () => configFile("{"), /is not JSON/],
  ["a list", () => configFile("[]"), /must hold an object/],
  ["an unknown field", () => configFile({ ...good, adress: "x" }), /adress is unknown\. Known are: address, token/],
  [
    "no address",
    () => configFile({ ...good, address: undefined }),
    /address is missing\. Set it, or set the environment variable FAIRLEAD_RUNNER_ADDRESS/,
  ],
  ["no token", () => configFile({ ...good, token: undefined }), /token is missing\. .*FAIRLEAD_RUNNER_TOKEN/],
  [
    "a variable that is not set",
    () => configFile({ ...good, token: undefined, tokenEnv: "NO_SUCH" }),
    /tokenEnv names the variable NO_SUCH, which is not set/,
  ],
  ["no agents", () => configFile({ ...good, agents: {} }), /agents must name at least one agent/],
  [
    "an agent that is a number",
    () => configFile({ ...good, agents: { a: 3 } }),
    /agents\.a must be "\.\/file\.mjs:export"/,
  ],
  [
    "a module that is missing",
    () => configFile({ ...good, agents: { a: "./no.mjs:a" } }),
    /agents\.a: the file .*no\.mjs does not exist/,
  ],
  [
    "a module that cannot be loaded",
    () => configFile({ ...good, agents: { a: "./broken.mjs:a" } }),
    /broken\.mjs cannot be loaded: .*a-package-that-is-not-there/,
  ],
  [
    "an export that is missing",
    () => configFile({ ...good, agents: { a: "./agents.mjs:nope" } }),
    /has no export "nope"; it exports: .*careless/,
  ],
  [
    "an export that is no agent",
    () => configFile({ ...good, agents: { a: "./agents.mjs:number" } }),
    /the export "number" of .* is number\. Export an async function/,
  ],
  [
    "an option that is wrong",
    () => configFile({ ...good, agents: { a: { path: "./agents.mjs:echo", maxAttempts: -1 } } }),
    /agents\.a\.maxAttempts: must be a whole number/,
  ],
  ["a capacity that is no number", () => configFile({ ...good, capacity: "many" }), /capacity must be a whole number/],
  [
    "a certificate that is missing",
    () => configFile({ ...good, tls: { ca: "no.pem" } }),
    /tls\.ca: cannot read .*no\.pem/,
  ],
])("%s is one clear line and status 2", async (_what, config, message) => {
  const command = runCommand(["--config", config()]);
  expect(await command.exit).toEqual({ code: 2, signal: null });
  const lines = command
    .output()
    .trim()
    .split("\n")
    .filter((line) => line.includes("error"));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(message);
  expect(command.output()).not.toMatch(/\n\s+at /);
});

test("an unknown argument names the help, and the help and the version are printed", async () => {
  const wrong = runCommand(["--conifg", "x"]);
  expect(await wrong.exit).toEqual({ code: 2, signal: null });
  expect(wrong.output()).toMatch(/Unknown option '--conifg'.*Run fairlead-runner --help/);
  const help = runCommand(["--help"]);
  expect((await help.exit).code).toBe(0);
  expect(help.output()).toContain("--config <file>");
  const version = runCommand(["--version"]);
  expect((await version.exit).code).toBe(0);
  expect(version.output()).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test("a wrong token ends the command with one line and status 1", async () => {
  const plane = await planeFor();
  const command = runCommand(["--config", configFile({ ...good, address: plane.address, token: "flr_wrong" })]);
  expect(await command.exit).toEqual({ code: 1, signal: null });
  expect(command.output().match(/does not accept the runner token/g)).toHaveLength(1);
});

test("the environment overrides the file, and a default export needs no name", async () => {
  const plane = await planeFor();
  const config = configFile({ ...good, token: "flr_old", agents: { echo: "./agents.mjs" } });
  const env = { FAIRLEAD_RUNNER_ADDRESS: plane.address, FAIRLEAD_RUNNER_TOKEN: "flr_test" };
  const command = runCommand(["--config", config], { env });
  await command.said(/ready at 127\.0\.0\.1:\d+ as kind "typescript" with: echo/);
  const run = await plane.ended(plane.assign({ json: { input: 7 } }));
  expect(run.report!.values.toString()).toBe('{"got":7}');
  command.child.kill("SIGTERM");
  expect(await command.exit).toEqual({ code: 0, signal: null });
});

test("the sample's agents run: the echo with its words as they come, the graph with its question", async () => {
  const plane = await planeFor();
  const env = { FAIRLEAD_RUNNER_ADDRESS: plane.address, FAIRLEAD_RUNNER_TOKEN: "flr_test" };
  const command = runCommand(["--config", sample], { env });
  await command.said("ready");
  const input = { messages: [{ role: "user", content: "three short words" }] };
  const streamModes = ["values", "custom", "messages-tuple"];
  const echo = await plane.ended(plane.assign({ json: { input }, streamModes }));
  const tokens = echo.events.filter(({ name }) => name === "messages").map(({ legacy }) => legacy[0].content);
  expect(tokens).toEqual(["three", " short", " words"]);
  expect(JSON.parse(echo.report!.values.toString())).toMatchObject({
    messages: [
      { type: "human", content: "three short words" },
      { type: "ai", content: "three short words" },
    ],
  });
  const again = {
    ...plane.store.lineage(echo.assignment.threadId),
    threadId: echo.assignment.threadId,
    threadValues: echo.report!.values,
  };
  const second = await plane.ended(plane.assign({ ...again, json: { input } }));
  expect(JSON.parse(second.report!.values.toString()).messages).toHaveLength(4);

  const asking = await plane.ended(
    plane.assign({ graphId: "agent", json: { input: { ...input, ask: true } }, streamModes }),
    15_000,
  );
  expect(asking.outcome).toBe(Outcome.OUTCOME_WAITING);
  const { threadId } = asking.assignment;
  const json = { command: { resume: "yes" } };
  const answered = await plane.ended(
    plane.assign({ ...plane.store.lineage(threadId), threadId, graphId: "agent", json, streamModes }),
  );
  const spoken = answered.events.filter(({ name }) => name === "messages").map(({ legacy }) => legacy[0].content);
  expect(spoken.join("")).toBe("You said: three short words");
  expect(JSON.parse(answered.report!.values.toString())).toMatchObject({ approval: "yes" });
});

test("the first signal drains, a second one later ends at once", async () => {
  const plane = await planeFor();
  const config = configFile({ ...good, address: plane.address, drainMs: 300, agents: { slow: "./agents.mjs:slow" } });
  const command = runCommand(["--config", config]);
  await command.said("ready");
  const run = plane.assign({ graphId: "slow" });
  await until("it is held", () => plane.calls.some(({ method }) => method === "heartbeat"));
  command.child.kill("SIGINT");
  expect(await command.exit).toEqual({ code: 0, signal: null });
  expect(run.report!.outcome).toBe(Outcome.OUTCOME_RELEASED);

  const patient = runCommand([
    "--config",
    configFile({ ...good, address: plane.address, drainMs: 60_000, agents: { slow: "./agents.mjs:slow" } }),
  ]);
  await patient.said("ready");
  plane.assign({ graphId: "slow" });
  const before = plane.calls.length;
  await until("it is held", () => plane.calls.slice(before).some(({ method }) => method === "heartbeat"));
  patient.child.kill("SIGTERM");
  await patient.said("taking no more work");
  // Until the command takes it for a new signal and not for the echo of the first.
  const again = setInterval(() => patient.child.kill("SIGTERM"), 100);
  expect(await patient.exit).toEqual({ code: 1, signal: null });
  clearInterval(again);
});

test("a promise that an agent forgot does not end the process, and a timer that it left does not keep it", async () => {
  const plane = await planeFor();
  const config = configFile({
    ...good,
    address: plane.address,
    agents: { careless: "./agents.mjs:careless", echo: "./agents.mjs:echo" },
  });
  const command = runCommand(["--config", config]);
  await command.said("ready");
  await plane.ended(plane.assign({ graphId: "careless" }));
  await command.said("nobody waits for me");
  await plane.ended(plane.assign({ json: { input: 1 } }));
  command.child.kill("SIGTERM");
  expect(await command.exit).toEqual({ code: 0, signal: null });
});
