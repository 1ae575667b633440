import { execFileSync } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { createRunner, silentLogger } from "@fairlead/runner";
import { Client } from "@langchain/langgraph-sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort, isFree } from "../../src/platform/free-port.js";
import { temporaryDirectory } from "../support/cluster.js";
import {
  type DevFile,
  type DevProcess,
  endDev,
  post,
  readDevFile,
  startDev,
  stillAlive,
} from "../support/dev-process.js";

const question = { messages: [{ role: "user", content: "hello" }] };

describe("one data directory, started, stopped and started again", () => {
  let base: string;
  let data: string;
  let port: number;
  let dev: DevProcess;
  let before: DevFile;

  beforeAll(async () => {
    base = temporaryDirectory();
    data = join(base, "data");
    port = await freePort();
    dev = startDev({ args: ["--port", String(port), "--data-dir", data], throughScript: true });
    await dev.ready(120_000);
    before = readDevFile(data);
  }, 150_000);
  afterAll(async () => {
    await endDev(dev);
    rmSync(base, { recursive: true, force: true });
  }, 60_000);

  test("a first start writes dev.json for this user alone, with everything that a client and a runner need", () => {
    const url = `http://127.0.0.1:${port}`;
    expect(before).toEqual({
      url,
      graphqlUrl: `${url}/graphql`,
      grpcAddress: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      tenants: [
        {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          slug: "demo",
          adminKey: expect.stringMatching(/^flk_/),
          apiKey: expect.stringMatching(/^flk_/),
          runnerToken: expect.stringMatching(/^flr_/),
        },
      ],
    });
    for (const file of ["dev.json", "root-key", "sample-runner-token"])
      expect(statSync(join(data, file)).mode & 0o777).toBe(0o600);
  });

  test("a first start executes a run before the user's eyes, and only then says that it is ready", () => {
    const lines = dev.output().split("\n");
    const at = (pattern: RegExp) => lines.findIndex((line) => pattern.test(line));
    const order = [
      /^Starting PostgreSQL/,
      /^Migrating/,
      /^A first run/,
      /^ +1 +metadata/,
      /^ +\d+ +messages/,
      /^ +\d+ +end/,
    ];
    const places = [...order, /^Fairlead is ready: http:\/\/127\.0\.0\.1:\d+$/].map(at);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(dev.output()).not.toContain(before.tenants[0]?.apiKey);
  });

  test("the key in dev.json lists the sample agents and waits for a run; a wrong one is refused", async () => {
    const key = before.tenants[0]?.apiKey ?? "";
    const listed = await post(`${before.url}/assistants/search`, key, {});
    const agents = JSON.parse(listed.text) as { assistant_id: string; graph_id: string }[];
    expect(agents.map(({ graph_id }) => graph_id).sort()).toEqual(["agent", "echo"]);
    for (const { assistant_id } of agents) {
      const waited = await post(`${before.url}/runs/wait`, key, { assistant_id, input: question });
      expect(waited.status).toBe(200);
      expect(JSON.parse(waited.text)).toMatchObject({ messages: [{ content: "hello" }, { type: "ai" }] });
    }
    expect((await post(`${before.url}/assistants/search`, "wrong", {})).status).toBe(401);
  });

  test("a runner of the user's own, with the token of dev.json, serves its agent beside the sample runner", async () => {
    const { url, grpcAddress, tenants } = before;
    const shout = async (run: { input: { text: string } }) => ({ said: run.input.text.toUpperCase() });
    const runner = createRunner({
      address: grpcAddress,
      token: tenants[0]?.runnerToken ?? "",
      agents: { shout },
      logger: silentLogger,
    });
    await runner.start();
    try {
      const ask = () =>
        post(`${url}/runs/wait`, tenants[0]?.apiKey ?? "", { assistant_id: "shout", input: { text: "hey" } });
      const answers = await Promise.all(Array.from({ length: 20 }, ask));
      expect(answers).toEqual(Array.from({ length: 20 }, () => ({ status: 200, text: '{"said":"HEY"}' })));
    } finally {
      await runner.stop();
    }
  });

  test("the curl line that the start prints works as it stands", () => {
    const [, line = ""] = /^ +(curl [^\n]*\\\n[^\n]*)$/m.exec(dev.output()) ?? [];
    const answer = execFileSync("/bin/sh", ["-c", line], { encoding: "utf8" });
    expect(answer).toMatch(/event: metadata[\s\S]*hello[\s\S]*event: end/);
  });

  test("Ctrl-C, pressed twice, ends every process and frees the port; the next start has the same keys and data within 10 s", async () => {
    const client = (file: DevFile) => new Client({ apiUrl: file.url, apiKey: file.tenants[0]?.apiKey ?? "" });
    const { thread_id: threadId } = await client(before).threads.create();
    await client(before).runs.wait(threadId, "echo", { input: question });
    const processes = dev.descendants();
    expect(processes.length).toBeGreaterThan(3);

    const pressedAt = performance.now();
    dev.interrupt();
    dev.interrupt();
    expect(await dev.ended).toEqual({ code: 0, signal: null });
    expect(performance.now() - pressedAt).toBeLessThan(10_000);
    expect(stillAlive(processes)).toEqual([]);
    expect(await isFree(port)).toBe(true);

    dev = startDev({ args: ["--port", String(port), "--data-dir", data, "--no-demo"] });
    expect(await dev.ready()).toBeLessThan(10_000);
    expect(readDevFile(data)).toEqual(before);
    expect(dev.output()).not.toContain("A first run");
    const state = await client(before).threads.getState(threadId);
    expect(state.values).toMatchObject({ messages: [{ content: "hello" }, { content: "hello" }] });
  }, 60_000);

  test("a second copy with a port and a directory of its own runs beside the first, with a tenant of its own", async () => {
    const otherData = join(base, "other");
    const otherPort = await freePort();
    const other = startDev({ args: ["--port", String(otherPort), "--data-dir", otherData, "--no-demo"] });
    try {
      await other.ready(120_000);
      const [first, second] = [readDevFile(data), readDevFile(otherData)];
      const ask = (file: DevFile, key = file.tenants[0]?.apiKey ?? "") =>
        post(`${file.url}/assistants/search`, key, {});
      expect((await ask(first)).status).toBe(200);
      expect((await ask(second)).status).toBe(200);
      expect((await ask(second, first.tenants[0]?.apiKey)).status).toBe(401);
      expect(second.grpcAddress).not.toBe(first.grpcAddress);
    } finally {
      await endDev(other);
    }
  }, 150_000);

  test("a start whose process was killed leaves a server and a runner that the next one takes over and ends", async () => {
    const left = dev.descendants();
    const beforeKill = readDevFile(data);
    dev.child.kill("SIGKILL");
    await dev.ended;

    dev = startDev({ args: ["--port", String(port), "--data-dir", data, "--no-demo"] });
    await dev.ready();
    expect(dev.output()).toContain("Taking over the PostgreSQL server");
    expect(readDevFile(data)).toEqual(beforeKill);
    const key = beforeKill.tenants[0]?.apiKey ?? "";
    expect((await post(`${beforeKill.url}/runs/wait`, key, { assistant_id: "echo", input: question })).status).toBe(
      200,
    );

    dev.interrupt("SIGTERM");
    expect(await dev.ended).toEqual({ code: 0, signal: null });
    expect(stillAlive(left)).toEqual([]);
  }, 90_000);
});
