import { readFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { type AgentDefinition, langgraph } from "./definitions.js";
import { RunnerError } from "./errors.js";
import type { RunnerOptions } from "./runner.js";

// The file of the command: where the plane is, which token to show it, and which exports of which files are agents.
//
//   {"address": "127.0.0.1:4501", "tokenEnv": "MY_TOKEN", "kind": "typescript", "capacity": 10, "agents": {"echo": "./agents.mjs:echo"}}
//
// FAIRLEAD_RUNNER_ADDRESS and FAIRLEAD_RUNNER_TOKEN override what it says, so that one file serves several planes and holds no secret.

type Fields = Readonly<Record<string, unknown>>;

const KNOWN = ["address", "token", "tokenEnv", "kind", "capacity", "agents"];

export async function readCliConfig(file: string, env: NodeJS.ProcessEnv): Promise<RunnerOptions> {
  const fields = await readFields(file);
  const unknown = Object.keys(fields).find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) throw wrong(file, unknown, `is unknown. Known are ${KNOWN.join(", ")}.`);
  const kind = text(file, fields, "kind");
  const { capacity } = fields;
  if (capacity !== undefined && typeof capacity !== "number") throw wrong(file, "capacity", "must be a number.");
  return {
    address: env["FAIRLEAD_RUNNER_ADDRESS"] || text(file, fields, "address") || missingAddress(file),
    token: env["FAIRLEAD_RUNNER_TOKEN"] || tokenOf(file, fields, env),
    agents: await readAgents(file, fields["agents"]),
    ...(kind === undefined ? {} : { kind }),
    ...(capacity === undefined ? {} : { capacity }),
  };
}

async function readFields(file: string): Promise<Fields> {
  let content: string;
  try {
    content = await readFile(file, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new RunnerError("config", `${file}: cannot be read (${code}). Name the file with --config.`, { cause });
  }
  try {
    const fields = JSON.parse(content) as unknown;
    if (typeof fields === "object" && fields !== null && !Array.isArray(fields)) return fields as Fields;
  } catch (cause) {
    throw new RunnerError("config", `${file}: is not JSON (${(cause as Error).message}).`, { cause });
  }
  throw new RunnerError("config", `${file}: must hold a JSON object.`);
}

function tokenOf(file: string, fields: Fields, env: NodeJS.ProcessEnv): string {
  const name = text(file, fields, "tokenEnv");
  const token = name === undefined ? text(file, fields, "token") : env[name];
  if (token) return token;
  throw wrong(
    file,
    name === undefined ? "token" : "tokenEnv",
    name === undefined
      ? "is missing. Set FAIRLEAD_RUNNER_TOKEN, or name the variable that holds the token in tokenEnv."
      : `names ${name}, which is not set. Set it, or FAIRLEAD_RUNNER_TOKEN, to a runner token.`,
  );
}

function missingAddress(file: string): never {
  throw wrong(file, "address", "is missing. Set it, or FAIRLEAD_RUNNER_ADDRESS, to the plane's host:port for runners.");
}

function text(file: string, fields: Fields, name: string): string | undefined {
  const value = fields[name];
  if (value === undefined || (typeof value === "string" && value !== "")) return value;
  throw wrong(file, name, "must be a text that is not empty.");
}

async function readAgents(file: string, agents: unknown): Promise<Record<string, AgentDefinition>> {
  if (typeof agents !== "object" || agents === null || Array.isArray(agents)) {
    throw wrong(file, "agents", 'must be an object like {"echo": "./agents.mjs:echo"}.');
  }
  const definitions: Record<string, AgentDefinition> = {};
  for (const [graphId, place] of Object.entries(agents)) {
    definitions[graphId] = await loadAgent(file, `agents.${graphId}`, place);
  }
  return definitions;
}

/** `./file.mjs:name`, seen from the configuration file. */
async function loadAgent(file: string, field: string, place: unknown): Promise<AgentDefinition> {
  const [, source, name] = (typeof place === "string" && /^(.+):([^:/\\]+)$/.exec(place)) || [];
  if (source === undefined || name === undefined) {
    throw wrong(file, field, "must name a file and one of its exports, like ./agents.mjs:echo.");
  }
  const module = path.resolve(path.dirname(file), source);
  let exports: Readonly<Record<string, unknown>>;
  try {
    exports = (await import(pathToFileURL(module).href)) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw wrong(file, field, `${module} cannot be loaded: ${(cause as Error).message}`, cause);
  }
  const value = exports[name];
  if (value !== undefined) return toDefinition(value);
  const known = Object.keys(exports).join(", ") || "nothing";
  throw wrong(file, field, `${module} does not export "${name}". It exports ${known}.`);
}

/** A function is an agent; what agent() or langgraph() made stays what it is; everything else is a graph, compiled or not. */
function toDefinition(value: unknown): AgentDefinition {
  if (typeof value === "function") return value as AgentDefinition;
  const { kind } = value as { kind?: unknown };
  return kind === "function" || kind === "langgraph" ? (value as AgentDefinition) : langgraph(value);
}

function wrong(file: string, field: string, what: string, cause?: unknown): RunnerError {
  return new RunnerError("config", `${file}: ${field}: ${what}`, cause === undefined ? undefined : { cause });
}
