import { createHash } from "node:crypto";
import { canonicalJson } from "../../domain/canonical-json.js";
import { invalidInput } from "../../domain/errors.js";
import { isUuid } from "../../domain/ids.js";
import type { JsonObject } from "../../domain/strict-json.js";
import { checkContent, judgeConditions, type ToolPolicyContent, type ToolRule } from "../../domain/tool-rules.js";
import { askCedar, type CedarAnswer, complaintsOf, partsOf, prepareCedar, preparedSet } from "../../platform/cedar.js";

// A policy set as Cedar, and one call judged by it. Deny overrides, no match is deny, what cannot be evaluated is deny.

export const toolSchema = `
entity Agent = { graph: String };
entity Tool = { server: String, name: String };
action call appliesTo { principal: [Agent], resource: [Tool], context: { user: String, now: Long, holds: Set<String> } };
`;

export const decisionReasons = [
  "no_policy",
  "halted",
  "rule",
  "no_match",
  "policy_error",
  "tool_unknown",
  "tool_changed",
  "arguments_invalid",
] as const;
export type DecisionReason = (typeof decisionReasons)[number];

export interface Decided {
  readonly allowed: boolean;
  readonly reason: DecisionReason;
  /** Ids of the rules that decided. */
  readonly rules: readonly string[];
  /** One sentence for people who govern. */
  readonly explanation: string;
}

export interface ToolCall {
  readonly server: string;
  readonly name: string;
  readonly agentId: string;
  readonly graphId: string;
  readonly user: string;
  readonly arguments: JsonObject;
  readonly nowMs: number;
}

/** The name of a content: equal contents have equal digests, whoever wrote them. */
export function digestOf(content: ToolPolicyContent): Buffer {
  return createHash("sha256").update(canonicalJson(content)).digest();
}

const keys = new WeakMap<ToolPolicyContent, string>();

function keyOf(content: ToolPolicyContent): string {
  const known = keys.get(content);
  if (known !== undefined) return known;
  const key = digestOf(content).toString("hex");
  keys.set(content, key);
  return key;
}

/** The policies of a content, by id. Text of its own has the ids cedar:0, cedar:1, …, which no rule can have. */
export function policiesOf(content: ToolPolicyContent): Record<string, string> {
  const policies: Record<string, string> = Object.fromEntries(content.rules.map((rule) => [rule.id, compiled(rule)]));
  if (content.cedar.trim() === "") return policies;
  const parts = partsOf(content.cedar);
  if ("complaint" in parts) throw invalidInput("cedar", parts.complaint);
  for (const [at, text] of parts.policies.entries()) policies[`cedar:${at}`] = text;
  return policies;
}

function compiled({ id, effect, tools, agents, users, conditions, expiresAtMs }: ToolRule): string {
  const quoted = (text: string): string => JSON.stringify(text);
  const any = (parts: readonly string[]): string => `(${parts.join(" || ")})`;
  const tool = tools.map(({ server, name }) =>
    name === "*"
      ? `resource.server == ${quoted(server)}`
      : `(resource.server == ${quoted(server)} && resource.name == ${quoted(name)})`,
  );
  const when = [any(tool)];
  // An id and a graph that is called like one are not confused: each text is one of them.
  if (agents)
    when.push(
      any(
        agents.map((agent) =>
          isUuid(agent) ? `principal == Agent::${quoted(agent.toLowerCase())}` : `principal.graph == ${quoted(agent)}`,
        ),
      ),
    );
  if (users) when.push(any(users.map((user) => `context.user == ${quoted(user)}`)));
  if (expiresAtMs !== null) when.push(`context.now < ${Math.trunc(expiresAtMs)}`);
  if (conditions.length > 0) when.push(`context.holds.contains(${quoted(id)})`);
  return `${effect === "allow" ? "permit" : "forbid"} (principal, action == Action::"call", resource) when { ${when.join(" && ")} };`;
}

/** Everything that can be known before the set is in force. */
export function checkPolicy(content: ToolPolicyContent, nowMs: number): void {
  checkContent(content);
  prepareCedar(toolSchema);
  const [complaint] = complaintsOf(policiesOf(content));
  if (complaint) throw invalidInput("cedar", `${complaint.id}: ${complaint.message}`);
  for (const test of content.tests) {
    const { allowed, explanation } = decideCall(content, {
      ...{ server: test.tool.server, name: test.tool.name, user: test.user, arguments: test.arguments, nowMs },
      ...{ agentId: isUuid(test.agent) ? test.agent.toLowerCase() : "", graphId: isUuid(test.agent) ? "" : test.agent },
    });
    if (allowed !== (test.expect === "allow"))
      throw invalidInput("tests", `"${test.name}" expects ${test.expect}; ${explanation}`);
  }
}

/** One call under a content. It never throws. */
export function decideCall(content: ToolPolicyContent, call: ToolCall): Decided {
  const doubtful = new Set<string>();
  const holds: string[] = [];
  for (const { id, effect, conditions } of content.rules) {
    if (conditions.length === 0) continue;
    const judged = judgeConditions(conditions, call.arguments);
    // A denial in doubt denies where it applies; a permission in doubt permits nothing.
    if (judged === "error" && effect === "deny") doubtful.add(id);
    if (judged === "holds" || doubtful.has(id)) holds.push(id);
  }
  const answer = evaluate(content, call, holds);
  const refuse = (reason: DecisionReason, rules: readonly string[], why: string): Decided => {
    return { allowed: false, reason, rules, explanation: `Denied: ${why}` };
  };
  if (answer.errors.length > 0)
    return refuse("policy_error", [], `a policy could not be evaluated (${answer.errors.join("; ").slice(0, 500)}).`);
  const { reasons } = answer;
  const named = (ids: readonly string[]): string => ids.map((id) => `"${id}"`).join(", ");
  if (answer.allowed)
    return { allowed: true, reason: "rule", rules: reasons, explanation: `Allowed by rule ${named(reasons)}.` };
  if (reasons.length === 0) return refuse("no_match", [], "no rule allows this call.");
  if (reasons.every((id) => doubtful.has(id))) {
    const why = `rule ${named(reasons)} denies, and an argument that it looks at is missing or of another type.`;
    return refuse("policy_error", reasons, why);
  }
  return refuse("rule", reasons, `rule ${named(reasons)} denies this call.`);
}

export const reaches = ["always", "never", "depends"] as const;
/** Whether the arguments decide about calls of a tool. */
export type Reach = (typeof reaches)[number];

export function reachOf(content: ToolPolicyContent, call: Omit<ToolCall, "arguments">): Reach {
  const conditional = (effect: "allow" | "deny"): string[] =>
    content.rules.filter((rule) => rule.effect === effect && rule.conditions.length > 0).map(({ id }) => id);
  const may = (holds: readonly string[]): boolean => {
    const { allowed, errors } = evaluate(content, call, holds);
    return allowed && errors.length === 0;
  };
  if (!may(conditional("allow"))) return "never";
  return may(conditional("deny")) ? "always" : "depends";
}

function evaluate(
  content: ToolPolicyContent,
  { server, name, agentId, graphId, user, nowMs }: Omit<ToolCall, "arguments">,
  holds: readonly string[],
): CedarAnswer {
  try {
    prepareCedar(toolSchema);
    const set = preparedSet(keyOf(content), () => policiesOf(content));
    return askCedar(set, {
      principal: { type: "Agent", id: agentId, attrs: { graph: graphId } },
      action: "call",
      resource: { type: "Tool", id: JSON.stringify([server, name]), attrs: { server, name } },
      context: { user, now: Math.trunc(nowMs), holds },
    });
  } catch (error) {
    return { allowed: false, reasons: [], errors: [String(error)] };
  }
}
