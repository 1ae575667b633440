import { connect } from "node:net";
import path from "node:path";
import type { GivenStores } from "../platform/config.js";
import { startEmbeddedPostgres } from "../platform/embedded-postgres.js";
import { startEmbeddedRedis } from "../platform/embedded-redis.js";
import type { Service } from "../platform/lifecycle.js";
import { SetupError } from "../platform/setup-error.js";
import { migrate } from "../store/migrate.js";
import { checkPosture } from "../store/posture.js";
import { databaseOf, type RoleUrls, roleUrls } from "../store/roles.js";

const CONNECT_TIMEOUT_MS = 5_000;

export type Say = (line: string) => void;

/** The owner's URL of the database: the given one, or that of an embedded server in the data directory. */
export async function startDatabase(
  directory: string,
  given: GivenStores,
  services: Service[],
  say: Say,
): Promise<string> {
  if (given.databaseUrl !== undefined) {
    say(`Using the PostgreSQL server of DATABASE_URL (${whereIs(given.databaseUrl, "DATABASE_URL")}) …`);
    return given.databaseUrl;
  }
  say("Starting PostgreSQL …");
  const postgres = await startEmbeddedPostgres({ directory: path.join(directory, "postgres"), log: say });
  services.push({ name: "PostgreSQL", stop: postgres.stop });
  return postgres.url;
}

/** The Redis to use, or undefined: then PostgreSQL carries the queue too. */
export async function startQueueStore(
  directory: string,
  given: GivenStores,
  wantsRedis: boolean,
  services: Service[],
  say: Say,
): Promise<string | undefined> {
  if (given.redisUrl !== undefined) {
    const where = whereIs(given.redisUrl, "REDIS_URL");
    say(`Using the Redis of REDIS_URL (${where}) …`);
    await requireListener(given.redisUrl, where);
    return given.redisUrl;
  }
  if (!wantsRedis) return undefined;
  say("Starting Redis …");
  const redis = await startEmbeddedRedis({ directory: path.join(directory, "redis"), log: say });
  services.push({ name: "Redis", stop: redis.stop });
  return redis.url;
}

/** Migrates as owner, and makes sure that the roles of the running plane are held by row security. */
export async function prepareDatabase(
  adminUrl: string,
  rootKey: string,
  hasRedis: boolean,
  say: Say,
): Promise<RoleUrls> {
  const urls = roleUrls(adminUrl, Buffer.from(rootKey));
  say("Migrating …");
  try {
    const { appUrl, sweeperUrl, queueUrl } = urls;
    await migrate({ adminUrl, appUrl, sweeperUrl, ...(hasRedis ? {} : { queueUrl }), log: say });
  } catch (error) {
    throw explainConnection(adminUrl, error);
  }
  const running = hasRedis ? [urls.appUrl, urls.sweeperUrl] : Object.values<string>({ ...urls });
  const complaints = (await Promise.all(running.map((url) => checkPosture(url)))).flat();
  if (complaints.length === 0) return urls;
  throw new SetupError(`Row security would not hold: ${complaints.join(" ")}`, "Correct the roles, then start again.");
}

/** The driver says what happened in words of the system; a person needs to know which setting is wrong. */
function explainConnection(url: string, error: unknown): unknown {
  if (error instanceof SetupError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const reason = reasons[code ?? ""] ?? (/timeout|terminated/i.test(message) ? "it does not answer" : undefined);
  if (reason === undefined) return error;
  return new SetupError(
    `The database ${whereIs(url, "DATABASE_URL")} cannot be used: ${reason}.`,
    "Correct DATABASE_URL (postgresql://owner:password@host:port/database), or unset it to start a server here.",
    { cause: error },
  );
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was cut",
  ENOTFOUND: "the host is unknown",
  EAI_AGAIN: "the host is unknown at the moment",
  ETIMEDOUT: "it does not answer",
  EHOSTUNREACH: "the host cannot be reached",
  "28P01": "user or password is wrong",
  "28000": "the server refuses this user",
  "3D000": "there is no such database",
  "53300": "it has no connection left",
  "57P03": "it is starting up or shutting down",
};

/** A URL without its credentials, for people. */
function whereIs(url: string, variable: string): string {
  try {
    const { host, protocol } = new URL(url);
    if (protocol.startsWith("postgres")) return `${host || "local socket"}/${databaseOf(url)}`;
    if (protocol.startsWith("redis")) return host;
  } catch {
    // Not a URL: said below.
  }
  throw new SetupError(
    `${variable} is not the URL of a ${variable === "REDIS_URL" ? "Redis" : "PostgreSQL"} server.`,
    variable === "REDIS_URL"
      ? "Write it as redis://user:password@host:port, or unset it."
      : "Write it as postgresql://owner:password@host:port/database, or unset it to start a server here.",
  );
}

/** Later the plane would only wait for a Redis that is away, as it should in production. */
async function requireListener(url: string, where: string): Promise<void> {
  const { hostname, port } = new URL(url);
  const answer = await new Promise<string | undefined>((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 6379) });
    const end = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => end("it does not answer"));
    socket.once("connect", () => end(undefined));
    socket.once("error", (error: NodeJS.ErrnoException) => end(reasons[error.code ?? ""] ?? error.message));
  });
  if (answer === undefined) return;
  throw new SetupError(
    `The Redis ${where} of REDIS_URL cannot be used: ${answer}.`,
    "Correct REDIS_URL, or unset it: the queue then lives in PostgreSQL.",
  );
}
