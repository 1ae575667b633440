import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { DomainError } from "../../src/domain/errors.js";
import { type CoalescerOptions, createCoalescer } from "../../src/store/coalescer.js";

interface Item {
  readonly id: number;
  readonly key: string;
  readonly tenant: string;
  readonly isBad?: boolean;
  readonly load?: number;
  readonly isUrgent?: boolean;
}

const refused = (): Error => Object.assign(new Error("refused by the database"), { code: "23514" });
const cut = (): Error => Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNRESET" });

function options(more: Partial<CoalescerOptions<Item, number>>): CoalescerOptions<Item, number> {
  return {
    name: "test",
    keys: (item) => [item.key],
    tenant: (item) => item.tenant,
    flush: async (items) => items.map((item) => item.id),
    maxBatch: 7,
    maxWaiting: 10_000,
    retryForMs: 30_000,
    parallel: 2,
    ...more,
  };
}

const items = fc
  .array(
    fc.record({
      key: fc.integer({ min: 0, max: 9 }),
      tenant: fc.integer({ min: 0, max: 2 }),
      isBad: fc.nat(9).map((n) => n === 0),
    }),
    {
      maxLength: 60,
    },
  )
  .map((list) =>
    list.map(({ key, tenant, isBad }, id): Item => ({ id, key: `${tenant}:${key}`, tenant: `t${tenant}`, isBad })),
  );

describe("a coalescer", () => {
  test("what is urgent passes a flood that waits, and no batch is heavier than one flush may be", async () => {
    const flushed: Item[][] = [];
    let go = (): void => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    const coalescer = createCoalescer(
      options({
        parallel: 1,
        maxBatch: 100,
        load: (item) => item.load ?? 1,
        maxLoad: 50,
        urgent: (item) => item.isUrgent ?? false,
        flush: async (batch) => {
          flushed.push([...batch]);
          await held;
          return batch.map((item) => item.id);
        },
      }),
    );
    const heavy = (id: number): Item => ({ id, key: `flood ${id}`, tenant: "t", load: 10 });
    const answers = Array.from({ length: 30 }, (_, id) => coalescer.add(heavy(id)));
    await new Promise((resolve) => setImmediate(resolve));
    for (const id of [100, 101]) {
      answers.push(coalescer.add({ id, key: `new ${id}`, tenant: "t", load: 1, isUrgent: true }));
    }
    go();
    await Promise.all(answers);
    expect(flushed[1]?.slice(0, 2).map((item) => item.id)).toEqual([100, 101]);
    const loads = flushed.map((batch) => batch.reduce((sum, item) => sum + (item.load ?? 1), 0));
    expect(Math.max(...loads)).toBeLessThan(50 + 10);
    const flood = flushed.flat().filter((item) => !item.isUrgent);
    expect(flood.map((item) => item.id)).toEqual(Array.from({ length: 30 }, (_, id) => id));
  });

  test("answers every item once with its own result, never has equal keys in flight, and keeps their order", async () => {
    await fc.assert(
      fc.asyncProperty(items, fc.integer({ min: 1, max: 3 }), async (list, parallel) => {
        const inFlight = new Set<string>();
        const written: Item[] = [];
        const coalescer = createCoalescer(
          options({
            parallel,
            flush: async (batch) => {
              for (const { key } of batch) {
                expect(inFlight.has(key)).toBe(false);
                inFlight.add(key);
              }
              await new Promise((resolve) => setImmediate(resolve));
              for (const item of batch) {
                inFlight.delete(item.key);
                written.push(item);
              }
              return batch.map((item) => item.id);
            },
          }),
        );
        const answers = await Promise.all(list.map((item) => coalescer.add(item)));
        expect(answers).toEqual(list.map((item) => item.id));
        expect(written.map((item) => item.id).sort((a, b) => a - b)).toEqual(list.map((item) => item.id));
        for (const key of new Set(list.map((item) => item.key))) {
          const order = written.filter((item) => item.key === key).map((item) => item.id);
          expect(order).toEqual([...order].sort((a, b) => a - b));
        }
        await coalescer.drained();
        expect(coalescer.size()).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  test("finds the culprits of a refused batch: only they fail", async () => {
    await fc.assert(
      fc.asyncProperty(items, async (list) => {
        const coalescer = createCoalescer(
          options({
            maxBatch: 64,
            flush: async (batch) => {
              if (batch.some((item) => item.isBad)) throw refused();
              return batch.map((item) => item.id);
            },
          }),
        );
        const answers = await Promise.allSettled(list.map((item) => coalescer.add(item)));
        expect(answers.map((answer) => answer.status)).toEqual(
          list.map(({ isBad }) => (isBad ? "rejected" : "fulfilled")),
        );
      }),
      { numRuns: 100 },
    );
  });

  test("sends a batch whose commit is unknown again, marked as such, before anybody is answered: nothing is written twice", async () => {
    await fc.assert(
      fc.asyncProperty(
        items,
        fc.array(fc.constantFrom("before", "after", "fine"), { maxLength: 4 }),
        async (list, breaks) => {
          const rows = new Map<number, number>();
          const failures = [...breaks];
          const coalescer = createCoalescer(
            options({
              flush: async (batch, again) => {
                const how = failures.shift() ?? "fine";
                if (how === "before") throw cut();
                for (const { id } of batch) {
                  if (rows.has(id)) expect(again).toBe(true);
                  else rows.set(id, 1);
                }
                if (how === "after") throw cut();
                return batch.map((item) => item.id);
              },
            }),
          );
          expect(await Promise.all(list.map((item) => coalescer.add(item)))).toEqual(list.map((item) => item.id));
          expect(rows.size).toBe(list.length);
        },
      ),
      { numRuns: 40 },
    );
  }, 60_000);

  test("takes a broken pipe for an unknown commit, not for a refusal", async () => {
    let calls = 0;
    const seen: boolean[] = [];
    const coalescer = createCoalescer(
      options({
        flush: async (batch, again) => {
          seen.push(again);
          if (calls++ === 0) throw Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
          return batch.map((item) => item.id);
        },
      }),
    );
    expect(await coalescer.add({ id: 1, key: "k", tenant: "t" })).toBe(1);
    expect(seen).toEqual([false, true]);
  });

  test("gives up when the store stays away, and says that the service is unavailable", async () => {
    const coalescer = createCoalescer(options({ retryForMs: 50, flush: () => Promise.reject(cut()) }));
    await expect(coalescer.add({ id: 1, key: "k", tenant: "t" })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("refuses beyond its bound, and a tenant that fills it leaves room for others", async () => {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const coalescer = createCoalescer(
      options({
        parallel: 1,
        maxBatch: 1,
        maxWaiting: 10,
        flush: async (batch) => {
          await gate;
          return batch.map((item) => item.id);
        },
      }),
    );
    // One is in flight; alone, a tenant may fill three quarters of the bound.
    const first = coalescer.add({ id: 100, key: "first", tenant: "a" });
    await new Promise((resolve) => setImmediate(resolve));
    const greedy = Array.from({ length: 30 }, (_, id) => coalescer.add({ id, key: `a${id}`, tenant: "a" }));
    const modest = coalescer.add({ id: 99, key: "b", tenant: "b" });
    const answers = Promise.allSettled(greedy);
    open();
    const codes = (await answers).map((one) => (one.status === "rejected" ? (one.reason as DomainError).code : "ok"));
    expect(codes.filter((code) => code === "ok")).toHaveLength(8);
    expect(codes.filter((code) => code === "OVERLOADED")).toHaveLength(22);
    expect(await Promise.all([first, modest])).toEqual([100, 99]);
  });
});
