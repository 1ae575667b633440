import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const require = createRequire(import.meta.url);

/** The folders below test/ that are projects of their own; everything else there needs no store and is the project `unit`. */
const folders = ["store", "flow", "facade", "tenancy", "dispatch", "runner", "golden"];

/** Starting Postgres takes seconds for which the unit tests alone need not wait. */
const chosen = process.argv.join(" ").match(/--project[ =]\S+/g) ?? [];
const onlyUnit = chosen.length > 0 && chosen.every((option) => option.endsWith("unit"));

const everywhere = {
  testTimeout: 30_000,
  hookTimeout: 60_000,
  // A test without an assertion cannot fail.
  expect: { requireAssertions: true },
};

const resolve = {
  alias: [
    // vite would take graphql's ES module and node its CommonJS one: two copies, whose types refuse each other.
    { find: /^graphql$/, replacement: require.resolve("graphql") },
    // The runner package is tested from its sources; what is built of it is tested as a process.
    {
      find: /^@fairlead\/runner$/,
      replacement: fileURLToPath(new URL("runners/typescript/src/index.ts", import.meta.url)),
    },
  ],
};

export default defineConfig({
  test: {
    globalSetup: onlyUnit ? [] : ["test/support/global-setup.ts"],
    reporters: ["default", "./test/support/reporter.ts"],
    fileParallelism: true,
    maxWorkers: 2,
    projects: [
      {
        resolve,
        test: {
          ...everywhere,
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: [...folders, "fault", "gates", "fixtures"].map((folder) => `test/${folder}/**`),
        },
      },
      ...folders.map((name) => ({ resolve, test: { ...everywhere, name, include: [`test/${name}/**/*.test.ts`] } })),
      {
        resolve,
        test: {
          ...everywhere,
          name: "fault",
          include: ["test/fault/**/*.test.ts"],
          // Killing processes and stalling stores is measured against deadlines, so nothing else may run beside it.
          sequence: { groupOrder: 1 },
          maxWorkers: 1,
        },
      },
      {
        resolve,
        test: {
          ...everywhere,
          name: "gates",
          include: ["test/gates/**/*.test.ts"],
          // Counts and processor time per run: whatever runs beside it would be counted too.
          sequence: { groupOrder: 2 },
          maxWorkers: 1,
        },
      },
    ],
  },
});
