import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { RunId, TenantId } from "../../src/domain/ids.js";
import { createHeldOffers } from "../../src/runs/held-offers.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const run = (tenant: string, id: string, graphId = "echo") => ({
  tenantId: tenant as TenantId,
  runId: id as RunId,
  graphId,
});
const echo = new Set(["echo"]);

test("who asks gets the held runs of its agents by turns of the tenants, each once", () => {
  const held = createHeldOffers(200);
  for (const id of ["a1", "a2", "a3"]) held.hold(run("a", id), () => {});
  held.hold(run("b", "b1"), () => {});
  held.hold(run("b", "other", "elsewhere"), () => {});
  held.hold(run("c", "c1"), () => {});
  expect(held.take(echo, 4).map(({ runId }) => runId)).toEqual(["a1", "b1", "c1", "a2"]);
  expect(held.take(echo, 4).map(({ runId }) => runId)).toEqual(["a3"]);
  expect(held.has(echo)).toBe(false);
  expect(held.has(new Set(["elsewhere"]))).toBe(true);
});

test("the word is given for a run that nobody took or claimed in time, once", () => {
  const held = createHeldOffers(200);
  const told: string[] = [];
  for (const id of ["taken", "claimed", "forgotten"]) held.hold(run(id, id), () => void told.push(id));
  held.take(echo, 1);
  held.claimed("claimed" as TenantId, "claimed" as RunId);
  vi.advanceTimersByTime(199);
  held.hold(run("later", "later"), () => void told.push("later"));
  expect(told).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(told).toEqual(["forgotten"]);
  held.release();
  expect(told).toEqual(["forgotten", "later"]);
  vi.advanceTimersByTime(1_000);
  expect(told).toEqual(["forgotten", "later"]);
});
