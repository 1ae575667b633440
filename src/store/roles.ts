// Who may connect to the database. Rights are granted to group roles, which cannot log in; each login role is a member of exactly one. The audit group has
// no members: it owns the functions that write the audit chain, and nobody who connects may write around them.
// Roles belong to the whole cluster, so migrators of several databases make and change the same ones at the same time, and PostgreSQL answers
// such races with errors that mean "look again".
import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { SetupError } from "../platform/setup-error.js";

export const GROUPS = {
  app: "fairlead_app",
  sweeper: "fairlead_sweeper",
  queue: "fairlead_queue",
  audit: "fairlead_audit",
} as const;

/** The groups that own functions. */
export const OWNERS = [GROUPS.sweeper, GROUPS.audit] as const;

const NAME_BYTES_MAX = 63;
const RACE_ATTEMPTS = 40;
const SCRAM_ITERATIONS = 4096;

export interface RoleUrls {
  readonly appUrl: string;
  readonly sweeperUrl: string;
  readonly queueUrl: string;
}

/** Login names and passwords for an installation that nobody configured: always the same ones for one database and secret. */
export function roleUrls(adminUrl: string, secret: Buffer): RoleUrls {
  const database = databaseOf(adminUrl);
  const url = (part: "app" | "sweeper" | "queue") => {
    const user = loginName(database, part);
    const password = createHmac("sha256", secret).update(`fairlead login ${user}`).digest("base64url");
    return withCredentials(adminUrl, user, password);
  };
  return { appUrl: url("app"), sweeperUrl: url("sweeper"), queueUrl: url("queue") };
}

function loginName(database: string, part: string): string {
  const name = `${database}_${part}`;
  if (Buffer.byteLength(name) <= NAME_BYTES_MAX) return name;
  // PostgreSQL would cut the end off, and with it what tells the roles and the databases apart.
  const digest = createHash("sha256").update(database).digest("hex").slice(0, 8);
  const tail = `_${digest}_${part}`;
  let head = database;
  while (Buffer.byteLength(head + tail) > NAME_BYTES_MAX) head = Array.from(head).slice(0, -1).join("");
  return head + tail;
}

/** The database that a URL names; without one PostgreSQL takes the user's name. */
export function databaseOf(url: string): string {
  const parsed = parseUrl(url);
  return decodeURIComponent(parsed.pathname.slice(1)) || parsed.searchParams.get("dbname") || loginOf(url).user;
}

/** The same server and database, other credentials. A URL with a socket directory has no host, and carries them as parameters. */
export function withCredentials(url: string, user: string, password: string): string {
  const parsed = parseUrl(url);
  if (parsed.hostname === "") {
    parsed.searchParams.set("user", user);
    parsed.searchParams.set("password", password);
  } else {
    parsed.username = encodeURIComponent(user);
    parsed.password = encodeURIComponent(password);
  }
  return parsed.toString();
}

function loginOf(url: string): { user: string; password: string } {
  const parsed = parseUrl(url);
  return {
    user: decodeURIComponent(parsed.username) || parsed.searchParams.get("user") || "",
    password: decodeURIComponent(parsed.password) || parsed.searchParams.get("password") || "",
  };
}

function parseUrl(url: string): URL {
  try {
    return new URL(url);
  } catch {
    throw new SetupError(
      "A database URL cannot be read.",
      "Write it as postgresql://user:password@host:port/database, with special characters percent-encoded.",
    );
  }
}

export interface RolesRequest {
  readonly adminUrl: string;
  readonly appUrl: string;
  readonly sweeperUrl: string;
  readonly queueUrl?: string | undefined;
}

/** Makes the groups and the logins of the given URLs, and lets them into this database. Changes nothing that is already so. */
export async function ensureRoles(admin: pg.Client, request: RolesRequest): Promise<void> {
  const logins = loginsOf(request);
  for (const group of Object.values(GROUPS)) await ensureGroup(admin, group);
  for (const owner of OWNERS) await joinOwner(admin, owner);
  await grantDatabase(admin);
  for (const login of logins) await ensureLogin(admin, login, request.adminUrl);
}

/**
 * Migrations hand functions over to these groups, which only a member (or a superuser) can do. Since version 16, having made a role
 * means that one may join it, not that one has.
 */
async function joinOwner(admin: pg.Client, owner: string): Promise<void> {
  await despiteRaces(async () => {
    const { rows } = await admin.query<{ member: boolean }>("select pg_has_role($1, 'usage') as member", [owner]);
    if (!rows[0]?.member) await admin.query(`grant ${owner} to current_user`);
  });
}

async function grantDatabase(admin: pg.Client): Promise<void> {
  const { rows } = await admin.query<{ name: string }>("select quote_ident(current_database()) as name");
  const groups = Object.values(GROUPS).join(", ");
  await despiteRaces(() => admin.query(`grant connect on database ${rows[0]?.name} to ${groups}`));
  await despiteRaces(() => admin.query(`grant usage on schema public to ${groups}`));
  await despiteRaces(() => admin.query("revoke create on schema public from public"));
}

interface Login {
  readonly variable: string;
  readonly group: string;
  readonly user: string;
  readonly password: string;
}

function loginsOf(request: RolesRequest): Login[] {
  const wanted = [
    { variable: "The app URL", group: GROUPS.app, url: request.appUrl },
    { variable: "The sweeper URL", group: GROUPS.sweeper, url: request.sweeperUrl },
    { variable: "The queue URL", group: GROUPS.queue, url: request.queueUrl },
  ];
  const logins = wanted.flatMap(({ variable, group, url }) =>
    url === undefined ? [] : [{ variable, group, ...loginOf(url) }],
  );
  const taken = new Map([[loginOf(request.adminUrl).user, "the admin URL"]]);
  for (const { variable, user } of logins) {
    if (user === "")
      throw new SetupError(`${variable} names no user.`, "Write it as postgresql://user:password@host:port/database.");
    const other = taken.get(user);
    if (other !== undefined) {
      throw new SetupError(
        `${variable} connects as ${user}, the same role as ${other}.`,
        "Row security needs a role of its own for each: name another user, and it will be created.",
      );
    }
    taken.set(user, variable.replace("The", "the"));
  }
  return logins;
}

async function ensureGroup(admin: pg.Client, group: string): Promise<void> {
  await despiteRaces(async () => {
    const { rows } = await admin.query<RoleRow>(FIND_ROLE, [group]);
    if (rows[0] === undefined)
      await admin.query(`create role ${group} nologin nosuperuser nobypassrls nocreatedb nocreaterole inherit`);
    else refuseStrongRole(rows[0], "The group");
  });
}

async function ensureLogin(admin: pg.Client, login: Login, adminUrl: string): Promise<void> {
  const name = pg.escapeIdentifier(login.user);
  const secret = login.password === "" ? "" : ` password ${pg.escapeLiteral(scramVerifier(login.password))}`;
  const made = await despiteRaces(async () => {
    const { rows } = await admin.query<RoleRow>(FIND_ROLE, [login.user]);
    const role = rows[0];
    if (role === undefined) {
      await admin.query(
        `create role ${name} login inherit nosuperuser nobypassrls nocreatedb nocreaterole noreplication${secret}`,
      );
      return true;
    }
    refuseStrongRole(role, `The role of ${login.variable.replace("The", "the")},`);
    if (!role.rolcanlogin || !role.rolinherit) await admin.query(`alter role ${name} login inherit`);
    return false;
  });
  await despiteRaces(async () => {
    const { rows } = await admin.query(
      "select 1 from pg_auth_members where roleid = $1::regrole and member = $2::regrole",
      [login.group, name],
    );
    if (rows.length === 0) await admin.query(`grant ${login.group} to ${name}`);
  });
  if (made || secret === "" || (await logsIn(withCredentials(adminUrl, login.user, login.password)))) return;
  await despiteRaces(() => admin.query(`alter role ${name}${secret}`));
}

interface RoleRow {
  readonly rolname: string;
  readonly rolsuper: boolean;
  readonly rolbypassrls: boolean;
  readonly rolcanlogin: boolean;
  readonly rolinherit: boolean;
}

const FIND_ROLE = "select rolname, rolsuper, rolbypassrls, rolcanlogin, rolinherit from pg_roles where rolname = $1";

/** A role that exists may serve other purposes, so its powers are not taken away here. */
function refuseStrongRole(role: RoleRow, what: string): void {
  if (!role.rolsuper && !role.rolbypassrls) return;
  const power = role.rolsuper ? "is a superuser" : "has BYPASSRLS";
  throw new SetupError(
    `${what} ${role.rolname} ${power}, so row security would not hold for it.`,
    `Run alter role "${role.rolname}" nosuperuser nobypassrls, or name another role.`,
  );
}

/** Whether the password is right. Asking the server is the only way that needs no rights on pg_authid. */
async function logsIn(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {}); // The connection is over before anything depends on it.
  try {
    await client.connect();
    return true;
  } catch (error) {
    if ((error as { code?: string }).code === "28P01") return false;
    throw error;
  } finally {
    await client.end().catch(() => {});
  }
}

/**
 * What PostgreSQL stores for a password (RFC 5802). Sent instead of the password itself, which would otherwise stand in statement logs.
 * Passwords beyond ASCII are normalised by the server first, and go to it as they are.
 */
function scramVerifier(password: string): string {
  if (!/^[\x20-\x7e]+$/.test(password)) return password;
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, SCRAM_ITERATIONS, 32, "sha256");
  const hmac = (what: string) => createHmac("sha256", salted).update(what).digest();
  const storedKey = createHash("sha256").update(hmac("Client Key")).digest("base64");
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString("base64")}$${storedKey}:${hmac("Server Key").toString("base64")}`;
}

/** Runs an act that finds out by itself what is left to do, again for as long as another migrator changes the same catalog row. */
async function despiteRaces<T>(act: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await act();
    } catch (error) {
      if (attempt >= RACE_ATTEMPTS || !isCatalogRace(error)) throw error;
      // Spread by the attempt, so that migrators in step fall out of it.
      await pause(5 + ((attempt * 7) % 40));
    }
  }
}

function isCatalogRace(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  // Duplicate object, unique violation, role dropped meanwhile, and the internal error that has no code of its own.
  return code === "42710" || code === "23505" || (code === "XX000" && /tuple concurrently/.test(message ?? ""));
}
