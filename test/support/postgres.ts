import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { databaseUrl, ensureTemplate, loginUrls, withAdmin } from "./template-database.js";

const CLONE_ATTEMPTS = 20;
const OBJECT_IN_USE = "55006";

export interface EmptyDatabase {
  readonly name: string;
  /** Superuser. */
  readonly adminUrl: string;
  drop(): Promise<void>;
}

export interface TestDatabase extends EmptyDatabase {
  readonly appUrl: string;
  readonly sweeperUrl: string;
  readonly queueUrl: string;
}

/** A migrated database for one test file: a clone of the run's template, which is made anew when the migrations have changed meanwhile. */
export async function testDatabase(server = inject("postgresAdminUrl")): Promise<TestDatabase> {
  const template = await ensureTemplate(server);
  const database = await createDatabase(server, `template ${template}`);
  // Rights on the database itself are not copied.
  await withAdmin(server, async (admin) => {
    await admin.query(`grant connect on database ${database.name} to fairlead_app, fairlead_sweeper, fairlead_queue`);
    await admin.query(`grant temporary on database ${database.name} to fairlead_queue`);
  });
  return { ...database, ...loginUrls(database.adminUrl) };
}

/** A database without anything in it. */
export function emptyDatabase(server = inject("postgresAdminUrl")): Promise<EmptyDatabase> {
  return createDatabase(server, "template template0");
}

async function createDatabase(server: string, options: string): Promise<EmptyDatabase> {
  const name = `fairlead_test_${process.pid}_${randomBytes(4).toString("hex")}`;
  await withAdmin(server, async (admin) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await admin.query(`create database ${name} ${options}`);
        return;
      } catch (error) {
        // The template is in use, for example by an autovacuum worker. The server has already waited five seconds for it.
        if (attempt >= CLONE_ATTEMPTS || (error as { code?: string }).code !== OBJECT_IN_USE) throw error;
      }
    }
  });
  const drop = () =>
    withAdmin(server, (admin) => admin.query(`drop database if exists ${name} with (force)`)).then(() => {});
  return { name, adminUrl: databaseUrl(server, name), drop };
}
