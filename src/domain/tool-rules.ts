import { invalidInput } from "./errors.js";
import { isUuid } from "./ids.js";
import type { JsonObject, JsonValue } from "./strict-json.js";

// The friendly form of a tool policy. Who, which tool and when go to Cedar; conditions on arguments are judged here, because Cedar knows neither fractions
// nor null and skips a rule that fails (decision 0014). A condition holds, does not hold, or cannot be judged.

export const toolNamePattern = /^[A-Za-z0-9_.:/-]{1,128}$/;
/** The server of tools that the SDK wraps. */
export const runnerServer = "runner";

export const ruleEffects = ["allow", "deny"] as const;
export type RuleEffect = (typeof ruleEffects)[number];
export const conditionOperators = [
  "equals",
  "not_equals",
  "one_of",
  "none_of",
  "less_than",
  "at_most",
  "greater_than",
  "at_least",
  "starts_with",
  "ends_with",
  "contains",
  "absent",
] as const;
export type ConditionOperator = (typeof conditionOperators)[number];

export interface Condition {
  /** Names from the top, such as ["order", "amount"]. */
  readonly path: readonly string[];
  readonly operator: ConditionOperator;
  readonly value?: JsonValue;
}
export interface ToolSelector {
  readonly server: string;
  /** "*" is every tool of the server. */
  readonly name: string;
}
export interface ToolRule {
  readonly id: string;
  readonly effect: RuleEffect;
  readonly tools: readonly ToolSelector[];
  /** Ids or graph ids; null for all. */
  readonly agents: readonly string[] | null;
  /** member:…, service_account:… or api_key:… with the id; null for all. */
  readonly users: readonly string[] | null;
  /** All must hold. */
  readonly conditions: readonly Condition[];
  /** Unix milliseconds; null for ever. */
  readonly expiresAtMs: number | null;
}
export interface ToolTest {
  readonly name: string;
  readonly tool: ToolSelector;
  readonly agent: string;
  readonly user: string;
  readonly arguments: JsonObject;
  readonly expect: "allow" | "deny";
}
export interface ToolPolicyContent {
  readonly rules: readonly ToolRule[];
  /** More policies as Cedar text; may be empty. */
  readonly cedar: string;
  readonly tests: readonly ToolTest[];
}

export type Judged = "holds" | "fails" | "error";

/** All conditions of a rule over the arguments. An error that another condition makes irrelevant stays an error: a rule is judged whole. */
export function judgeConditions(conditions: readonly Condition[], args: JsonObject): Judged {
  let all: Judged = "holds";
  for (const condition of conditions) {
    const judged = judge(condition, args);
    if (judged === "error") return "error";
    if (judged === "fails") all = "fails";
  }
  return all;
}

function judge({ path, operator, value }: Condition, args: JsonObject): Judged {
  let found: JsonValue | undefined = args;
  for (const name of path) {
    if (typeof found !== "object" || found === null || Array.isArray(found)) {
      return operator === "absent" && found === undefined ? "holds" : "error";
    }
    found = Object.hasOwn(found, name) ? found[name] : undefined;
    if (found === undefined) return operator === "absent" ? "holds" : "error";
  }
  if (operator === "absent") return "fails";
  const yes = (is: boolean): Judged => (is ? "holds" : "fails");
  switch (operator) {
    case "equals":
    case "not_equals":
      if (typeof found !== typeof value || found === null || typeof found === "object") return "error";
      return yes((found === value) === (operator === "equals"));
    case "one_of":
    case "none_of": {
      const among = value as JsonValue[];
      if (typeof found !== typeof among[0] || found === null) return "error";
      return yes(among.includes(found) === (operator === "one_of"));
    }
    case "less_than":
    case "at_most":
    case "greater_than":
    case "at_least": {
      if (typeof found !== "number") return "error";
      const bound = value as number;
      if (operator === "less_than") return yes(found < bound);
      if (operator === "at_most") return yes(found <= bound);
      return yes(operator === "greater_than" ? found > bound : found >= bound);
    }
    default: {
      if (typeof found !== "string") return "error";
      const part = value as string;
      if (operator === "starts_with") return yes(found.startsWith(part));
      return yes(operator === "ends_with" ? found.endsWith(part) : found.includes(part));
    }
  }
}

const most = { rules: 200, selectors: 200, conditions: 20, tests: 200, cedarBytes: 65_536 };
const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const serverPattern = /^[A-Za-z0-9_.-]{1,64}$/;
const agentPattern = /^[A-Za-z0-9_.-]{1,128}$/;
const userPattern = /^(member|service_account|api_key):[0-9a-f-]{36}$/;
const needsNumber = new Set<ConditionOperator>(["less_than", "at_most", "greater_than", "at_least"]);
const needsText = new Set<ConditionOperator>(["starts_with", "ends_with", "contains"]);

/** Refuses what could never mean what its author wrote. An empty list is refused: nobody can tell whether it says all or none. */
export function checkContent(content: ToolPolicyContent): void {
  if (content.rules.length > most.rules) throw invalidInput("rules", `at most ${most.rules}`);
  if (content.tests.length > most.tests) throw invalidInput("tests", `at most ${most.tests}`);
  if (Buffer.byteLength(content.cedar) > most.cedarBytes)
    throw invalidInput("cedar", `at most ${most.cedarBytes} bytes`);
  const ids = new Set<string>();
  for (const rule of content.rules) {
    if (!idPattern.test(rule.id)) throw invalidInput("rules.id", "1 to 64 characters of A-Z a-z 0-9 _ -");
    if (ids.has(rule.id)) throw invalidInput("rules.id", `"${rule.id}" stands there twice`);
    ids.add(rule.id);
    checkList("rules.tools", rule.id, rule.tools, 'name tools, or "*" for all of a server');
    for (const tool of rule.tools) checkSelector("rules.tools", tool, true);
    if (rule.agents) checkList("rules.agents", rule.id, rule.agents, "name agents, or leave the field out for all");
    for (const agent of rule.agents ?? [])
      if (!agentPattern.test(agent)) throw invalidInput("rules.agents", `"${agent}" is no agent id or graph id`);
    if (rule.users) checkList("rules.users", rule.id, rule.users, "name users, or leave the field out for all");
    for (const user of rule.users ?? []) checkUser("rules.users", user);
    if (rule.conditions.length > most.conditions)
      throw invalidInput("rules.conditions", `at most ${most.conditions} in a rule`);
    for (const condition of rule.conditions) checkCondition(rule.id, condition);
  }
  for (const test of content.tests) {
    checkSelector("tests.tool", test.tool, false);
    if (!agentPattern.test(test.agent)) throw invalidInput("tests.agent", `"${test.agent}" is no agent id or graph id`);
    checkUser("tests.user", test.user);
  }
}

function checkList(field: string, rule: string, list: readonly unknown[], advice: string): void {
  if (list.length === 0) throw invalidInput(field, `the list of rule "${rule}" is empty; ${advice}`);
  if (list.length > most.selectors) throw invalidInput(field, `at most ${most.selectors} in a rule`);
}

function checkSelector(field: string, { server, name }: ToolSelector, wild: boolean): void {
  if (!serverPattern.test(server)) throw invalidInput(field, `"${server}" is no server`);
  if (!(wild && name === "*") && !toolNamePattern.test(name))
    throw invalidInput(field, `${JSON.stringify(name)} is no tool name: 1 to 128 characters of A-Z a-z 0-9 _ . : / -`);
}

function checkUser(field: string, user: string): void {
  if (!userPattern.test(user) || !isUuid(user.split(":")[1]))
    throw invalidInput(field, `"${user}" is no user: write member:ID, service_account:ID or api_key:ID`);
}

function checkCondition(rule: string, { path, operator, value }: Condition): void {
  const field = "rules.conditions";
  const refuse = (why: string) => invalidInput(field, `rule "${rule}", ${operator}: ${why}`);
  if (!conditionOperators.includes(operator)) throw refuse("is no operator");
  if (path.length < 1 || path.length > 16 || path.some((name) => name === "" || name.length > 128))
    throw refuse("the path names 1 to 16 levels");
  if (operator === "absent") return;
  if (needsNumber.has(operator)) {
    if (typeof value !== "number" || !Number.isFinite(value)) throw refuse("the value must be a number");
  } else if (needsText.has(operator)) {
    if (typeof value !== "string" || value === "") throw refuse("the value must be a text that is not empty");
  } else if (operator === "one_of" || operator === "none_of") {
    const list = Array.isArray(value) ? value : [];
    const sound = list.length > 0 && ["string", "number", "boolean"].includes(typeof list[0]);
    if (!sound || list.some((item) => typeof item !== typeof list[0]))
      throw refuse("the value must be a list of texts, of numbers or of booleans, with at least one");
  } else if (!["string", "number", "boolean"].includes(typeof value))
    throw refuse("the value must be a text, number or boolean");
}
