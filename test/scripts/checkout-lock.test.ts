import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeEach, expect, test } from "vitest";
import { replaceDead, tryLock } from "../../scripts/checkout-lock.mjs";
import { startNode } from "./small-checkout.js";

const module = pathToFileURL("scripts/checkout-lock.mjs").href;
const folder = mkdtempSync(join(tmpdir(), "fairlead-lock-"));
const path = join(folder, "prepare.lock");

/** Takes the lock, says so and holds it until it is killed. */
const HOLDER = `
  const { tryLock } = await import("${module}");
  console.log("lock" in tryLock(process.argv[1]) ? "locked" : "refused");
  setInterval(() => {}, 1000);
`;

/** Adds one to a counter many times, each under the lock. Reading and writing apart, it loses an addition whenever two are in at once. */
const COUNTER = `
  const { tryLock } = await import("${module}");
  const { readFileSync, writeFileSync } = await import("node:fs");
  for (let left = Number(process.argv[3]); left > 0; ) {
    const { lock } = tryLock(process.argv[1]);
    if (lock === undefined) { await new Promise((resolve) => setTimeout(resolve, 1)); continue; }
    const count = Number(readFileSync(process.argv[2], "utf8"));
    await new Promise((resolve) => setImmediate(resolve));
    writeFileSync(process.argv[2], String(count + 1));
    lock.release();
    left -= 1;
  }
`;

beforeEach(() => {
  for (const file of readdirSync(folder)) rmSync(join(folder, file));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a lock that lives is refused to others, who learn its holder", async () => {
  const holder = await lockedBy();
  expect(tryLock(path)).toEqual({ heldBy: holder.pid });
  holder.kill("SIGKILL");
  await holder.ended;
});

test("a released lock leaves no file and is free", () => {
  const first = tryLock(path);
  if ("lock" in first) first.lock.release();
  expect(readdirSync(folder)).toEqual([]);
  expect(tryLock(path)).toHaveProperty("lock");
});

test("the lock of a killed holder is taken over", async () => {
  const holder = await lockedBy();
  holder.kill("SIGKILL");
  await holder.ended;
  expect(tryLock(path)).toHaveProperty("lock");
  expect(JSON.parse(readFileSync(path, "utf8")).holders[0].pid).toBe(process.pid);
});

test("a lock whose holder's number now belongs to another process is taken over", () => {
  writeFileSync(path, JSON.stringify({ id: "old", holders: [{ pid: process.pid, startedAt: "another time" }] }));
  expect(tryLock(path)).toHaveProperty("lock");
});

test("while the program of a killed holder still runs, its lock is not taken over", async () => {
  const program = startNode(["-e", "console.log('up'); setInterval(() => {}, 1000)"]);
  await program.says(/up/);
  const mine = tryLock(path);
  if (!("lock" in mine)) throw new Error("the lock was free");
  mine.lock.addHolder(program.pid);
  const record = JSON.parse(readFileSync(path, "utf8"));
  record.holders[0].startedAt = "another time";
  writeFileSync(path, JSON.stringify(record));
  expect(tryLock(path)).toEqual({ heldBy: program.pid });
  program.kill("SIGKILL");
  await program.ended;
  expect(tryLock(path)).toHaveProperty("lock");
});

test("a waiter who looked before another one took over leaves the new lock alone", async () => {
  const dead = { id: "dead", holders: [{ pid: process.pid, startedAt: "another time" }] };
  writeFileSync(path, JSON.stringify(dead));
  const holder = await lockedBy();
  expect(replaceDead(path, dead, { id: "late", holders: [] })).toBe(false);
  expect(tryLock(path)).toEqual({ heldBy: holder.pid });
  expect(readdirSync(folder)).toEqual(["prepare.lock"]);
  holder.kill("SIGKILL");
  await holder.ended;
});

test("while one waiter is about to replace a dead holder's lock, another one is not", async () => {
  const rival = await lockedBy();
  const theirs = readFileSync(path, "utf8");
  const dead = { id: "dead", holders: [{ pid: process.pid, startedAt: "another time" }] };
  writeFileSync(`${path}.after-dead`, theirs);
  writeFileSync(path, JSON.stringify(dead));
  expect(tryLock(path)).toEqual({ heldBy: 0 });
  expect(readFileSync(path, "utf8")).toBe(JSON.stringify(dead));

  // The rival dies half-way: the next look clears its traces, and the one after gets the lock.
  rival.kill("SIGKILL");
  await rival.ended;
  expect(tryLock(path)).toEqual({ heldBy: 0 });
  expect(tryLock(path)).toHaveProperty("lock");
});

test("what a dead holder left half written does not lock anybody out", () => {
  writeFileSync(path, '{"id":');
  expect(tryLock(path)).toHaveProperty("lock");
});

test("however many wait at a dead holder's lock, only one at a time gets in", async () => {
  const counter = join(folder, "counter");
  writeFileSync(counter, "0");
  const dead = await lockedBy();
  dead.kill("SIGKILL");
  await dead.ended;
  const crowd = Array.from({ length: 6 }, () => startNode(["--input-type=module", "-e", COUNTER, path, counter, "30"]));
  const ends = await Promise.all(crowd.map(({ ended }) => ended));
  expect(ends.map(({ code }) => code)).toEqual(crowd.map(() => 0));
  expect(readFileSync(counter, "utf8")).toBe("180");
  expect(existsSync(path)).toBe(false);
});

async function lockedBy() {
  const holder = startNode(["--input-type=module", "-e", HOLDER, path]);
  await holder.says(/^locked/m);
  return holder;
}
