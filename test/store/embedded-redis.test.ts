import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startEmbeddedRedis } from "../../src/platform/embedded-redis.js";
import { isFree } from "../../src/platform/free-port.js";
import { waitFor } from "../../src/platform/wait-for.js";
import { temporaryDirectory } from "../support/cluster.js";
import { redisAvailable, testRedis } from "../support/redis.js";
import { runProcess } from "../support/run-process.js";

const STARTER = fileURLToPath(new URL("../support/embedded-redis-process.ts", import.meta.url));

let directory: string;
beforeEach(() => {
  directory = temporaryDirectory();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe.skipIf(!redisAvailable())("an embedded Redis (skipped without redis-server on the PATH)", () => {
  test("asks for a password, keeps nothing, and never throws a job away", async () => {
    const { url, stop } = await testRedis();
    const redis = new Redis(url);
    expect(await redis.config("GET", "maxmemory-policy")).toEqual(["maxmemory-policy", "noeviction"]);
    expect(await redis.config("GET", "save")).toEqual(["save", ""]);
    expect(await redis.config("GET", "appendonly")).toEqual(["appendonly", "no"]);
    expect(await redis.config("GET", "bind")).toEqual(["bind", "127.0.0.1"]);
    const stranger = new Redis(url.replace(/\/\/[^@]*@/, "//"), { lazyConnect: true, retryStrategy: null });
    stranger.on("error", () => {});
    await expect(stranger.ping()).rejects.toThrow(/NOAUTH|closed/);
    stranger.disconnect();
    redis.disconnect();
    await stop();
    expect(await isFree(Number(new URL(url).port))).toBe(true);
  });

  test("two live side by side", async () => {
    const [one, two] = await Promise.all([testRedis(), testRedis()]);
    expect(one.url).not.toBe(two.url);
    await Promise.all([one.stop(), two.stop()]);
  });

  test.each(["exit", "SIGKILL"] as const)("ends with its process (%s)", async (how) => {
    const parent = runProcess(STARTER, [directory]);
    const port = Number(await parent.line("started"));
    expect(await isFree(port)).toBe(false);
    if (how === "exit") parent.child.stdin?.end();
    else parent.child.kill("SIGKILL");
    await parent.ended;
    expect(await waitFor(() => isFree(port), 10_000)).toBe(true);
  });
});

test("without a program on the PATH, the way out is named", async () => {
  const path = process.env["PATH"];
  process.env["PATH"] = directory;
  try {
    await expect(startEmbeddedRedis({ directory, log: () => {} })).rejects.toMatchObject({
      message: "Neither redis-server nor valkey-server is on the PATH.",
      hint: expect.stringContaining("REDIS_URL"),
    });
  } finally {
    process.env["PATH"] = path;
  }
});
