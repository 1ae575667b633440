import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkPosture } from "../../src/store/posture.js";
import { withCredentials } from "../../src/store/roles.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { withAdmin } from "../support/template-database.js";

let database: TestDatabase;
const made: string[] = [];

beforeAll(async () => {
  database = await testDatabase();
});
afterAll(async () => {
  await withAdmin(database.adminUrl, async (admin) => {
    for (const name of made) await admin.query(`reassign owned by ${name} to postgres; drop owned by ${name}`);
  });
  const server = new URL(database.adminUrl);
  server.pathname = "/postgres";
  await database.drop();
  await withAdmin(server.toString(), async (admin) => {
    for (const name of made.reverse()) await admin.query(`drop role ${name}`);
  });
});

/** A login with this in addition; `also` sees the role's name. */
async function login(
  suffix: string,
  attributes: string,
  also: (name: string) => string = () => "",
): Promise<{ name: string; url: string }> {
  const name = `${database.name}_${suffix}`;
  made.push(name);
  await withAdmin(database.adminUrl, (admin) =>
    admin.query(`create role ${name} login ${attributes} password 'x'; ${also(name)}`),
  );
  return { name, url: withCredentials(database.adminUrl, name, "x") };
}

describe("the logins that migrate makes", () => {
  test("have nothing to complain about", async () => {
    expect(await checkPosture(database.appUrl)).toEqual([]);
    expect(await checkPosture(database.sweeperUrl)).toEqual([]);
    expect(await checkPosture(database.queueUrl)).toEqual([]);
  });
});

describe("a complaint is made about", () => {
  test("a superuser", async () => {
    expect(await checkPosture(database.adminUrl)).toEqual([
      "postgres is a superuser, and superusers ignore row security. Connect as a member of fairlead_app.",
    ]);
  });

  test("a role with BYPASSRLS", async () => {
    const { name, url } = await login("bypass", "bypassrls");
    expect(await checkPosture(url)).toEqual([`${name} has BYPASSRLS. Run: alter role ${name} nobypassrls.`]);
  });

  test("a role that may create roles", async () => {
    const { name, url } = await login("creator", "createrole");
    expect(await checkPosture(url)).toEqual([
      `${name} may create roles, and so join others. Run: alter role ${name} nocreaterole.`,
    ]);
  });

  test("the owner of a table", async () => {
    const { name, url } = await login(
      "owner",
      "",
      (one) => `alter table thread owner to ${one}; alter table step owner to ${one}`,
    );
    expect(await checkPosture(url)).toEqual([
      `${name} owns 2 tables, for example public.step. Run migrations as the owner, and the plane as another role.`,
    ]);
  });

  test("the owner of a table of the queue", async () => {
    const { name, url } = await login("queue_owner", "", (one) => `alter table bullmq.job owner to ${one}`);
    expect(await checkPosture(url)).toEqual([
      expect.stringContaining(`${name} owns 1 tables, for example bullmq.job.`),
    ]);
  });

  test("the owner of the database", async () => {
    const { name, url } = await login("landlord", "", (one) => `alter database ${database.name} owner to ${one}`);
    expect(await checkPosture(url)).toContain(
      `${name} owns the database ${database.name}. Run migrations as the owner, and the plane as another role.`,
    );
  });

  test("a member of such a role, at any remove", async () => {
    const strong = await login("strong", "bypassrls");
    const middle = await login("middle", "", (one) => `grant ${strong.name} to ${one}`);
    const { name, url } = await login("member", "", (one) => `grant fairlead_app, ${middle.name} to ${one}`);
    expect(await checkPosture(url)).toEqual([
      `${name} is a member of ${strong.name}, which has BYPASSRLS. Revoke the membership.`,
    ]);
  });
});
