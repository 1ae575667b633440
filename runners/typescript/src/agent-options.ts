import { RunnerError } from "./errors.js";
import { type AgentOffer, Recovery } from "./generated/fairlead/runner/v1/runner.js";

type JsonSchema = Record<string, unknown>;

export interface AgentOptions {
  readonly name?: string;
  readonly description?: string;
  readonly inputSchema?: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly stateSchema?: JsonSchema;
  readonly configSchema?: JsonSchema;
  readonly contextSchema?: JsonSchema;
  /** What may be done with a run whose runner was lost: start again, continue from the last checkpoint, or end it as an error. */
  readonly recovery?: "restart" | "checkpoint" | "fail";
  /** Attempts in all; a lost runner uses one. */
  readonly maxAttempts?: number;
  /** How long a run may wait for a runner. */
  readonly queueTimeoutMs?: number;
  /** How long a run may take. */
  readonly runTimeoutMs?: number;
}

const recoveries = {
  restart: Recovery.RECOVERY_RESTART,
  checkpoint: Recovery.RECOVERY_CHECKPOINT,
  fail: Recovery.RECOVERY_FAIL,
} as const;

export function offerOf(graphId: string, options: AgentOptions, fallback: keyof typeof recoveries): AgentOffer {
  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(graphId)) {
    throw new RunnerError(
      "config",
      `agents: "${graphId}" is not a valid name. Use 1 to 128 characters of A-Z, a-z, 0-9, "_", "." and "-".`,
    );
  }
  const recovery = options.recovery ?? fallback;
  if (!Object.hasOwn(recoveries, recovery)) {
    const known = Object.keys(recoveries).join(", ");
    throw new RunnerError(
      "config",
      `agents.${graphId}.recovery: "${String(recovery)}" is unknown. Use one of: ${known}.`,
    );
  }
  return {
    graphId,
    name: options.name ?? "",
    description: options.description ?? "",
    inputSchema: schema(graphId, "inputSchema", options.inputSchema),
    outputSchema: schema(graphId, "outputSchema", options.outputSchema),
    stateSchema: schema(graphId, "stateSchema", options.stateSchema),
    configSchema: schema(graphId, "configSchema", options.configSchema),
    contextSchema: schema(graphId, "contextSchema", options.contextSchema),
    recovery: recoveries[recovery],
    maxAttempts: count(graphId, "maxAttempts", options.maxAttempts, 1_000),
    queueTimeoutMs: count(graphId, "queueTimeoutMs", options.queueTimeoutMs, 2 ** 32 - 1),
    runTimeoutMs: count(graphId, "runTimeoutMs", options.runTimeoutMs, Number.MAX_SAFE_INTEGER),
  };
}

function schema(graphId: string, field: string, value: JsonSchema | undefined): Buffer {
  if (value === undefined) return Buffer.alloc(0);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RunnerError("config", `agents.${graphId}.${field}: must be a JSON Schema object.`);
  }
  return Buffer.from(JSON.stringify(value));
}

function count(graphId: string, field: string, value: number | undefined, max: number): number {
  if (value === undefined) return 0;
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new RunnerError(
      "config",
      `agents.${graphId}.${field}: must be a whole number from 1 to ${max}, it is ${value}.`,
    );
  }
  return value;
}
