import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { AgentOptions } from "./agent-options.js";
import { RunnerError } from "./errors.js";
import { readTlsFiles, type TlsOptions } from "./transport.js";

/** What `--config` names, checked, with the environment on top. */
export interface FileConfig {
  readonly address: string;
  readonly token: string;
  readonly kind: string | undefined;
  readonly capacity: number | undefined;
  readonly drainMs: number | undefined;
  readonly tls: TlsOptions | undefined;
  readonly agents: readonly AgentEntry[];
}

export interface AgentEntry {
  readonly graphId: string;
  readonly file: string;
  readonly exportName: string;
  readonly framework: "function" | "langgraph" | undefined;
  readonly options: AgentOptions;
}

type Fields = Record<string, unknown>;
type Environment = Readonly<Record<string, string | undefined>>;

const known = new Set(["address", "token", "tokenEnv", "kind", "capacity", "drainMs", "tls", "agents", "$schema"]);
const agentFields = new Set([
  "path",
  "framework",
  "name",
  "description",
  "inputSchema",
  "outputSchema",
  "stateSchema",
  "configSchema",
  "contextSchema",
  "recovery",
  "maxAttempts",
  "queueTimeoutMs",
  "runTimeoutMs",
  "history",
]);

export function readConfigFile(path: string, environment: Environment): FileConfig {
  const file = resolve(path);
  const fields = parse(file);
  for (const key of Object.keys(fields)) {
    if (!known.has(key))
      fail(file, key, `is unknown. Known are: ${[...known].filter((name) => name !== "$schema").join(", ")}.`);
  }
  return {
    address:
      environment["FAIRLEAD_RUNNER_ADDRESS"] ||
      text(file, fields, "address") ||
      missing(file, "address", "FAIRLEAD_RUNNER_ADDRESS"),
    token: tokenOf(file, fields, environment),
    kind: text(file, fields, "kind"),
    capacity: count(file, fields, "capacity"),
    drainMs: count(file, fields, "drainMs"),
    tls: tlsOf(file, fields["tls"]),
    agents: agentsOf(file, fields["agents"]),
  };
}

function parse(file: string): Fields {
  let source: string;
  try {
    source = readFileSync(file, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why = code === "ENOENT" ? "does not exist" : `cannot be read (${code})`;
    throw new RunnerError("config", `${file} ${why}. Name the runner's configuration with --config <file>.`);
  }
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (error) {
    throw new RunnerError("config", `${file} is not JSON: ${(error as Error).message}.`);
  }
  if (!isObject(value))
    throw new RunnerError("config", `${file} must hold an object, like {"address": "…", "agents": {…}}.`);
  return value;
}

function tokenOf(file: string, fields: Fields, environment: Environment): string {
  const given = environment["FAIRLEAD_RUNNER_TOKEN"] || text(file, fields, "token");
  if (given) return given;
  const variable = text(file, fields, "tokenEnv");
  if (variable === undefined) return missing(file, "token", "FAIRLEAD_RUNNER_TOKEN");
  return environment[variable] || fail(file, "tokenEnv", `names the variable ${variable}, which is not set.`);
}

function agentsOf(file: string, value: unknown): AgentEntry[] {
  if (!isObject(value) || Object.keys(value).length === 0) {
    fail(file, "agents", 'must name at least one agent, like {"echo": "./agents.mjs:echo"}.');
  }
  return Object.entries(value).map(([graphId, entry]) => agentOf(file, graphId, entry));
}

function agentOf(file: string, graphId: string, entry: unknown): AgentEntry {
  const field = `agents.${graphId}`;
  const fields = typeof entry === "string" ? { path: entry } : entry;
  if (!isObject(fields) || typeof fields["path"] !== "string" || fields["path"] === "") {
    fail(file, field, 'must be "./file.mjs:export", or an object with "path" and options.');
  }
  for (const key of Object.keys(fields)) if (!agentFields.has(key)) fail(file, `${field}.${key}`, "is unknown.");
  const { path, framework, ...options } = fields;
  if (framework !== undefined && framework !== "function" && framework !== "langgraph") {
    fail(file, `${field}.framework`, 'must be "function" or "langgraph".');
  }
  // A colon at the second place belongs to a Windows drive.
  const colon = (path as string).lastIndexOf(":");
  const split = colon > 1 ? colon : (path as string).length;
  return {
    graphId,
    file: resolve(dirname(file), (path as string).slice(0, split)),
    exportName: (path as string).slice(split + 1) || "default",
    framework,
    options: options as AgentOptions,
  };
}

function tlsOf(file: string, value: unknown): TlsOptions | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  if (!isObject(value)) fail(file, "tls", 'must be true, false, or {"ca", "cert", "key"} with file names.');
  const files: Record<string, string> = {};
  for (const [key, name] of Object.entries(value)) {
    if (!["ca", "cert", "key"].includes(key) || typeof name !== "string")
      fail(file, `tls.${key}`, "must be ca, cert or key, and a file name.");
    files[key] = resolve(dirname(file), name);
  }
  return readTlsFiles(files);
}

function text(file: string, fields: Fields, key: string): string | undefined {
  const value = fields[key];
  if (value === undefined || (typeof value === "string" && value !== "")) return value;
  return fail(file, key, "must be a text that is not empty.");
}

function count(file: string, fields: Fields, key: string): number | undefined {
  const value = fields[key];
  if (value === undefined || (typeof value === "number" && Number.isInteger(value) && value >= 0)) return value;
  return fail(file, key, "must be a whole number.");
}

function missing(file: string, key: string, variable: string): never {
  return fail(file, key, `is missing. Set it, or set the environment variable ${variable}.`);
}

function fail(file: string, field: string, why: string): never {
  throw new RunnerError("config", `${file}: ${field} ${why}`);
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
