import { createHash } from "node:crypto";
import type { TenantId } from "../../domain/ids.js";
import { systemScope } from "../../domain/scope.js";
import { type JsonObject, readArguments } from "../../domain/strict-json.js";
import { runnerServer, type ToolPolicyContent, toolNamePattern } from "../../domain/tool-rules.js";
import type { Clock } from "../../platform/clock.js";
import { uuidv7 } from "../../platform/random.js";
import type { Stores } from "../../store/client.js";
import { withTenantReads } from "../../store/reads.js";
import type { HeldRun } from "../../store/run-path/append.js";
import type { AskFacts, ToolDecisions } from "../../store/tool-decisions.js";
import { findVersion } from "../../store/tool-policies.js";
import { type Decided, decideCall } from "./decide.js";

// A runner asks before a tool is called. The decision is recorded, under the run's fence and for the version in force at that moment, before it is told.

export interface ToolGate {
  readonly stores: Stores;
  readonly decisions: ToolDecisions;
  readonly clock: Clock;
  /** By tenant and version. A version never changes, so what was read of one stays true. */
  readonly contents: Map<string, ToolPolicyContent>;
}

/** Made before the plane is ready: the engine is loaded and has judged once. */
export function createToolGate(stores: Stores, decisions: ToolDecisions, clock: Clock): ToolGate {
  const call = { server: runnerServer, name: "warm", agentId: "", graphId: "", user: "", arguments: {}, nowMs: 0 };
  decideCall({ rules: [], cedar: "", tests: [] }, call);
  return { stores, decisions, clock, contents: new Map() };
}

export interface ToolAsk extends HeldRun {
  readonly askId: string;
  readonly tool: string;
  readonly schemaDigest: Buffer;
  readonly arguments: Uint8Array;
}

export interface ToolAnswer {
  readonly allowed: boolean;
  readonly decisionId: string;
  /** What was judged; empty when it is not allowed. */
  readonly arguments: string;
}

const contentsMax = 512;
const attemptsMax = 8;

/** Null: the runner does not hold the run, and learns nothing. Throws when nothing could be recorded: then nothing is allowed. */
export async function askForTool(gate: ToolGate, ask: ToolAsk): Promise<ToolAnswer | null> {
  const args = readArguments(ask.arguments);
  const schemaDigest = ask.schemaDigest.toString("hex");
  const argumentsDigest = createHash("sha256")
    .update(args.ok ? args.canonical : ask.arguments)
    .digest("hex");
  const known = toolNamePattern.test(ask.tool);
  // What is no tool's name is kept in a form that any store and any eye can take.
  const tool = known ? ask.tool : printable(ask.tool);
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const facts = await gate.decisions.ask({ ...ask, tool: known ? tool : "" });
    if (!facts) return null;
    const before = gate.clock.monotonic();
    const content = facts.policy ? await contentOf(gate, ask.tenantId, facts.policy.versionId) : null;
    const decided = args.ok
      ? decide(content, facts, ask, args.value, gate.clock.now())
      : denied("arguments_invalid", `the arguments are ${args.complaint}.`);
    const recorded = await gate.decisions.record({
      ...{ tenantId: ask.tenantId, runId: ask.runId, fence: ask.fence, queue: ask.queue, askId: ask.askId },
      ...{ id: uuidv7(), tool, user: facts.user, schemaDigest, argumentsDigest, pinned: facts.pinned },
      ...decided,
      policyNumber: facts.policy?.number ?? null,
      micros: Math.round((gate.clock.monotonic() - before) * 1_000),
    });
    if (recorded.outcome === "superseded") return null;
    if (recorded.outcome === "stale") continue;
    const allowed = recorded.allowed && recorded.outcome !== "reused";
    return { allowed, decisionId: recorded.id ?? "", arguments: allowed && args.ok ? args.canonical : "" };
  }
  return { allowed: false, decisionId: "", arguments: "" };
}

function decide(
  content: ToolPolicyContent | null,
  facts: AskFacts,
  ask: ToolAsk,
  args: JsonObject,
  nowMs: number,
): Decided {
  if (facts.halted) return denied("halted", "an admin has halted what the run belongs to.");
  if (!toolNamePattern.test(ask.tool))
    return denied("tool_unknown", "the tool's name has characters that no tool has.");
  if (facts.pinned !== null && facts.pinned !== ask.schemaDigest.toString("hex"))
    return denied(
      "tool_changed",
      "the tool's schema is not the one that it is known by; register it again to accept the change.",
    );
  if (!content)
    return {
      allowed: true,
      reason: "no_policy",
      rules: [],
      explanation: "Allowed: no tool policy is in force, so nothing is governed.",
    };
  if (facts.pinned === null) return denied("tool_unknown", "the tool is not registered for this agent.");
  return decideCall(content, {
    ...{ server: runnerServer, name: ask.tool, agentId: facts.agentId, graphId: facts.graphId },
    ...{ user: facts.user, arguments: args, nowMs },
  });
}

function printable(name: string): string {
  const escaped = JSON.stringify(name.slice(0, 128)).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return escaped.slice(0, 400);
}

function denied(reason: Decided["reason"], why: string): Decided {
  return { allowed: false, reason, rules: [], explanation: `Denied: ${why}` };
}

async function contentOf(
  { stores, contents }: ToolGate,
  tenantId: TenantId,
  versionId: string,
): Promise<ToolPolicyContent | null> {
  const key = `${tenantId}:${versionId}`;
  const known = contents.get(key);
  if (known) return known;
  const version = await withTenantReads(stores, systemScope(tenantId), (tenant) => findVersion(tenant, versionId));
  // Rows of versions are never deleted, and one that is not there must not look like no policy.
  const content = version?.content ?? { rules: [], cedar: "", tests: [] };
  if (contents.size >= contentsMax) contents.delete(contents.keys().next().value as string);
  contents.set(key, content);
  return content;
}
