import { expect, test } from "vitest";
import type { RunKey } from "../../src/domain/ids.js";
import type { Clock } from "../../src/platform/clock.js";
import { createBudgetedTenants } from "../../src/runs/budgeted-tenants.js";
import type { Stores } from "../../src/store/client.js";

test("however often a run tells of usage, it is looked at by one at a time, and once more after the last", async () => {
  const { look } = createBudgetedTenants({} as Stores, {} as Clock);
  const key = "tenant:run" as RunKey;
  const gates: (() => void)[] = [];
  let atOnce = 0;
  let most = 0;
  const at = async (): Promise<void> => {
    most = Math.max(most, ++atOnce);
    await new Promise<void>((resolve) => gates.push(resolve));
    atOnce--;
  };
  const first = look(key, at);
  await Promise.all(Array.from({ length: 50 }, () => look(key, at)));
  expect(gates.length).toBe(1);
  gates[0]?.();
  await Promise.resolve();
  await new Promise(setImmediate);
  expect(gates.length).toBe(2);
  gates[1]?.();
  await first;
  expect([gates.length, most]).toEqual([2, 1]);
  // One that fails keeps nobody out.
  await expect(look(key, () => Promise.reject(new Error("away")))).rejects.toThrow("away");
  const last = look(key, at);
  gates[2]?.();
  await last;
  expect(gates.length).toBe(3);
});
