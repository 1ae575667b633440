import { readFileSync } from "node:fs";
import { z } from "zod";

/** Limits and times of the plane; every one can be set in the environment. Times are milliseconds, sizes bytes. */
const limitsSchema = z.object({
  leaseMs: z.coerce.number().int().min(300).max(600_000).default(10_000),
  heartbeatMs: z.coerce.number().int().min(50).max(200_000).default(3_000),
  offerMs: z.coerce.number().int().min(200).max(60_000).default(5_000),
  /** Lease left once every connection of a runner is closed. */
  closedLeaseMs: z.coerce.number().int().min(100).max(60_000).default(3_000),
  sweepEveryMs: z.coerce.number().int().min(20).max(60_000).default(1_000),
  relayEveryMs: z.coerce.number().int().min(20).max(60_000).default(1_000),
  cancelGraceMs: z.coerce.number().int().min(100).max(600_000).default(10_000),
  /** How long a cancel that waits is held open; then it is answered that the run still runs. */
  cancelWaitMs: z.coerce.number().int().min(100).max(600_000).default(60_000),
  getJobWaitMs: z.coerce.number().int().min(100).max(300_000).default(50_000),
  maxHandbacks: z.coerce.number().int().min(0).max(1_000).default(20),
  /** Admitted, unclaimed runs of a tenant, times its weight. */
  admissionWindow: z.coerce.number().int().min(1).max(10_000).default(8),
  queueTimeoutMs: z.coerce.number().int().min(1_000).default(3_600_000),
  maxAttempts: z.coerce.number().int().min(1).max(100).default(3),
  bodyBytes: z.coerce
    .number()
    .int()
    .min(1_024)
    .default(16 * 1024 * 1024),
  eventBytes: z.coerce
    .number()
    .int()
    .min(1_024)
    .default(16 * 1024 * 1024),
  checkpointBytes: z.coerce
    .number()
    .int()
    .min(1_024)
    .default(64 * 1024 * 1024),
  followerBufferBytes: z.coerce
    .number()
    .int()
    .min(1_024)
    .default(8 * 1024 * 1024),
  followersPerRun: z.coerce.number().int().min(1).default(10_000),
  ringBytes: z.coerce
    .number()
    .int()
    .min(0)
    .default(64 * 1024 * 1024),
  /** For how long a job that was fetched from the queue is nobody else's. */
  jobLockMs: z.coerce.number().int().min(500).max(600_000).default(30_000),
  /** A runner's connection is asked for a sign of life this often, and cut when none comes in time. */
  runnerPingMs: z.coerce.number().int().min(100).max(600_000).default(10_000),
  runnerPingTimeoutMs: z.coerce.number().int().min(100).max(600_000).default(5_000),
  keepAliveMs: z.coerce.number().int().min(100).default(5_000),
  drainMs: z.coerce.number().int().min(0).default(10_000),
  /** How long a run's Idempotency-Key is remembered. */
  idempotencyMs: z.coerce.number().int().min(1_000).default(86_400_000),
  /** How long the idempotencyKey of a GraphQL create is remembered. */
  createRequestMs: z.coerce.number().int().min(1_000).default(2_592_000_000),
  /** How long the contents of deleted runs and threads, stateless runs among them, stay in the database. */
  deletedDataMs: z.coerce.number().int().min(0).default(86_400_000),
  purgeEveryMs: z.coerce.number().int().min(20).default(60_000),
  /** A signed-in member who does nothing for this long must sign in again. */
  sessionIdleMs: z.coerce.number().int().min(60_000).default(7_200_000),
  /** And whatever they do, after this. */
  sessionMs: z.coerce.number().int().min(60_000).default(43_200_000),
  /** An audit chain that has grown is signed after so long, or after so many records. */
  auditCheckpointMs: z.coerce.number().int().min(100).default(60_000),
  auditCheckpointRecords: z.coerce.number().int().min(1).default(1_000),
  credentialCacheMs: z.coerce.number().int().min(0).max(5_000).default(4_000),
});
export type Limits = z.infer<typeof limitsSchema>;

export const dispatchPaths = ["direct", "queue", "relay"] as const;
export type DispatchPath = (typeof dispatchPaths)[number];

const schema = z.object({
  /** Connects as the app role. */
  databaseUrl: z.string().startsWith("postgres"),
  /** Connects as the sweeper role, which finds work across tenants and decides nothing. */
  sweeperDatabaseUrl: z.string().startsWith("postgres"),
  /** For BullMQ on PostgreSQL; unused when redisUrl is set. */
  queueDatabaseUrl: z.string().startsWith("postgres").optional(),
  redisUrl: z.string().startsWith("redis").optional(),
  /** Keys the hashes of credentials. 32 bytes or more, base64 or hex. */
  rootKey: z.string().min(32),
  /** What the key is made from that signs the audit chains. Default: the root key. */
  auditKey: z.string().min(32).optional(),
  /** Public keys (PEM) of earlier ones, whose checkpoints are still trusted. */
  auditPublicKeys: z.string().optional(),
  /** What wraps the keys of the tenants' secrets: the first wraps, the others still unwrap. Default: the root key. */
  secretsKeys: z.array(z.string().min(32)).min(1).optional(),
  roles: z.array(z.enum(["api", "bridge", "worker"])).min(1),
  host: z.string().default("127.0.0.1"),
  port: z.coerce.number().int().min(0).max(65_535).default(4_500),
  grpcHost: z.string().default("127.0.0.1"),
  grpcPort: z.coerce.number().int().min(0).max(65_535).default(4_501),
  grpcTlsCert: z.string().optional(),
  grpcTlsKey: z.string().optional(),
  corsOrigins: z.array(z.string()).default(["*"]),
  /** Where browsers find the plane, for example behind a proxy. Default: where it listens. */
  publicUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** The provider that members sign in with. */
  oidcIssuer: z.url({ protocol: /^https?$/ }).optional(),
  oidcClientId: z.string().min(1).optional(),
  /** None: a public client, which PKCE alone protects. */
  oidcClientSecret: z.string().min(1).optional(),
  dispatch: z
    .array(z.enum(dispatchPaths))
    .min(1)
    .default([...dispatchPaths]),
  logLevel: z.enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
  limits: limitsSchema,
});
export type Config = z.infer<typeof schema>;

const list = (text: string | undefined): string[] | undefined => text?.split(",").map((part) => part.trim());

/** One key a line. */
function keysIn(file: string | undefined): string[] | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, "utf8")
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
  } catch (error) {
    throw new ConfigError(`FAIRLEAD_SECRETS_KEYS_FILE cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
}

/** Reads the environment, once, at start. All mistakes are reported together. */
export function readConfig(
  env: NodeJS.ProcessEnv = process.env,
  overrides: Partial<Record<keyof Config, unknown>> = {},
): Config {
  const limits: Record<string, string> = {};
  for (const name of Object.keys(limitsSchema.shape)) {
    const value = env[`FAIRLEAD_${name.replace(/[A-Z]/g, (c) => `_${c}`).toUpperCase()}`];
    if (value !== undefined) limits[name] = value;
  }
  const given = {
    databaseUrl: env.DATABASE_URL,
    sweeperDatabaseUrl: env.SWEEPER_DATABASE_URL,
    queueDatabaseUrl: env.QUEUE_DATABASE_URL,
    redisUrl: env.REDIS_URL,
    rootKey: env.FAIRLEAD_ROOT_KEY,
    auditKey: env.FAIRLEAD_AUDIT_KEY,
    auditPublicKeys: env.FAIRLEAD_AUDIT_PUBLIC_KEYS,
    secretsKeys: list(env.FAIRLEAD_SECRETS_KEYS) ?? keysIn(env.FAIRLEAD_SECRETS_KEYS_FILE),
    roles: list(env.FAIRLEAD_ROLES) ?? ["api", "bridge", "worker"],
    host: env.FAIRLEAD_HOST,
    port: env.FAIRLEAD_PORT,
    grpcHost: env.FAIRLEAD_GRPC_HOST,
    grpcPort: env.FAIRLEAD_GRPC_PORT,
    grpcTlsCert: env.FAIRLEAD_GRPC_TLS_CERT,
    grpcTlsKey: env.FAIRLEAD_GRPC_TLS_KEY,
    corsOrigins: list(env.FAIRLEAD_CORS_ORIGINS),
    publicUrl: env.FAIRLEAD_PUBLIC_URL,
    oidcIssuer: env.FAIRLEAD_OIDC_ISSUER,
    oidcClientId: env.FAIRLEAD_OIDC_CLIENT_ID,
    oidcClientSecret: env.FAIRLEAD_OIDC_CLIENT_SECRET,
    dispatch: list(env.FAIRLEAD_DISPATCH),
    logLevel: env.FAIRLEAD_LOG_LEVEL,
    limits,
    ...overrides,
  };
  const result = schema.safeParse(given);
  if (!result.success) {
    const lines = result.error.issues.map((issue) => `  ${issue.path.join(".")}: ${issue.message}`);
    throw new ConfigError(`The configuration is not valid:\n${lines.join("\n")}`);
  }
  const { limits: l } = result.data;
  const problems: string[] = [];
  if (l.heartbeatMs * 2 > l.leaseMs) problems.push("heartbeatMs must be at most half of leaseMs");
  if (Boolean(result.data.grpcTlsCert) !== Boolean(result.data.grpcTlsKey))
    problems.push("grpcTlsCert and grpcTlsKey go together");
  problems.push(...signInProblems(result.data));
  if (problems.length > 0)
    throw new ConfigError(`The configuration is not valid:\n${problems.map((p) => `  ${p}`).join("\n")}`);
  return result.data;
}

/** Whoever signs in comes back to publicUrl, and what the provider says is trusted as far as the connection to it is. */
function signInProblems({ oidcIssuer, oidcClientId, publicUrl }: Config): string[] {
  if (oidcIssuer === undefined && oidcClientId === undefined) return [];
  if (oidcIssuer === undefined || oidcClientId === undefined || publicUrl === undefined)
    return ["oidcIssuer, oidcClientId and publicUrl go together"];
  return [oidcIssuer, publicUrl]
    .filter(
      (url) => new URL(url).protocol === "http:" && !/^(localhost|127[.][0-9.]+|\[::1\])$/.test(new URL(url).hostname),
    )
    .map((url) => `${url} must be https: only this machine is reached without`);
}

export interface MigrateConfig {
  readonly adminUrl: string;
  readonly appUrl: string;
  readonly sweeperUrl: string;
  readonly queueUrl?: string;
}

/** The owner's connection, and the logins that `migrate` makes for the plane. */
export function readMigrateConfig(env: NodeJS.ProcessEnv = process.env): MigrateConfig {
  const missing = ["DATABASE_ADMIN_URL", "DATABASE_URL", "SWEEPER_DATABASE_URL"].filter((name) => !env[name]);
  if (missing.length > 0)
    throw new ConfigError(`Set ${missing.join(", ")}: the owner's URL, and the URLs that the plane will use.`);
  return {
    adminUrl: env.DATABASE_ADMIN_URL as string,
    appUrl: env.DATABASE_URL as string,
    sweeperUrl: env.SWEEPER_DATABASE_URL as string,
    ...(env.QUEUE_DATABASE_URL ? { queueUrl: env.QUEUE_DATABASE_URL } : {}),
  };
}

/** The stores that `fairlead dev` uses instead of starting its own. Its DATABASE_URL is the owner's, because it migrates. */
export interface GivenStores {
  readonly databaseUrl: string | undefined;
  readonly redisUrl: string | undefined;
}

export function readGivenStores(env: NodeJS.ProcessEnv = process.env): GivenStores {
  return { databaseUrl: env.DATABASE_URL || undefined, redisUrl: env.REDIS_URL || undefined };
}

/** What a runner process that we start may know: everything but the plane's own settings, which hold the keys to its stores. */
export function runnerEnvironment(
  runner: { readonly address: string; readonly token: string },
  env: NodeJS.ProcessEnv = process.env,
): NodeJS.ProcessEnv {
  const others = Object.entries(env).filter(([name]) => !/^FAIRLEAD_|^REDIS_URL$|DATABASE(_ADMIN)?_URL$/.test(name));
  return {
    ...Object.fromEntries(others),
    FAIRLEAD_RUNNER_ADDRESS: runner.address,
    FAIRLEAD_RUNNER_TOKEN: runner.token,
  };
}

export class ConfigError extends Error {
  override readonly name = "ConfigError";
}
