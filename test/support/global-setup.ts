import type { TestProject } from "vitest/node";
import { removeLeftovers, startCluster, type TestCluster } from "./cluster.js";
import { ensureTemplate, removeTestDatabases } from "./template-database.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** Superuser of the server that all test files share, database postgres. */
    postgresAdminUrl: string;
  }
}

/**
 * One PostgreSQL for the whole run: the packaged one, or FAIRLEAD_TEST_PG_BIN=<its bin directory>, or the running server that
 * FAIRLEAD_TEST_DATABASE_URL names as superuser.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeLeftovers();
  const given = process.env["FAIRLEAD_TEST_DATABASE_URL"];
  const cluster = given === undefined ? await startCluster(process.env["FAIRLEAD_TEST_PG_BIN"]) : runningServer(given);
  try {
    await ensureTemplate(cluster.adminUrl);
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  project.provide("postgresAdminUrl", cluster.adminUrl);
  return () => cluster.stop();
}

function runningServer(adminUrl: string): TestCluster {
  return { adminUrl, stop: () => removeTestDatabases(adminUrl, "fairlead_test_") };
}
