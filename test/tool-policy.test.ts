import { describe, expect, test } from "vitest";
import { readArguments } from "../src/domain/strict-json.js";
import type { Condition, ToolPolicyContent, ToolRule } from "../src/domain/tool-rules.js";
import { checkPolicy, decideCall, digestOf, reachOf } from "../src/governance/tool-policy/decide.js";

const agentId = "01920000-0000-7000-8000-000000000001";
const user = `member:${agentId}`;
const rule = (id: string, more: Partial<ToolRule> = {}): ToolRule => ({
  ...{ id, effect: "allow", tools: [{ server: "runner", name: "*" }], agents: null, users: null },
  ...{ conditions: [], expiresAtMs: null },
  ...more,
});
const policy = (rules: ToolRule[], more: Partial<ToolPolicyContent> = {}): ToolPolicyContent => ({
  ...{ rules, cedar: "", tests: [] },
  ...more,
});
const call = (name: string, json = "{}", more: object = {}) => {
  const args = readArguments(Buffer.from(json));
  if (!args.ok) throw new TypeError(args.complaint);
  const whole = { server: "runner", name, agentId, graphId: "shop", user, arguments: args.value, nowMs: 1_000 };
  return { ...whole, ...more };
};
const reason = (content: ToolPolicyContent, ...args: Parameters<typeof call>) => {
  const { allowed, reason } = decideCall(content, call(...args));
  return allowed ? "allowed" : reason;
};
const only = (name: string, effect: "allow" | "deny", conditions: Condition[] = []): ToolRule =>
  rule(`${effect}-${name.replace(/[^a-z_]/g, "_")}`, { effect, tools: [{ server: "runner", name }], conditions });

test("a denial overrides every permission, and what no rule allows is denied", () => {
  const content = policy([rule("all"), only("delete_repo", "deny")]);
  expect(reason(content, "delete_repo")).toBe("rule");
  expect(reason(content, "read")).toBe("allowed");
  expect(reason(policy([only("read", "allow")]), "write")).toBe("no_match");
  expect(reason(policy([]), "read")).toBe("no_match");
});

test("who a rule is for is compared byte for byte, and servers and names are not run together", () => {
  const content = policy([rule("one", { tools: [{ server: "a-b", name: "c" }] })]);
  expect(reason(content, "c", "{}", { server: "a-b" })).toBe("allowed");
  expect(reason(content, "b-c", "{}", { server: "a" })).toBe("no_match");
  expect(reason(content, "C", "{}", { server: "a-b" })).toBe("no_match");
  const agents = policy([rule("a", { agents: ["shop"], users: [user] })]);
  expect(reason(agents, "x")).toBe("allowed");
  expect(reason(agents, "x", "{}", { graphId: "Shop" })).toBe("no_match");
  expect(reason(agents, "x", "{}", { user: `api_key:${agentId}` })).toBe("no_match");
  // A graph that is called like an agent's id is not that agent.
  const byId = policy([rule("a", { agents: [agentId] })]);
  expect(reason(byId, "x")).toBe("allowed");
  expect(reason(byId, "x", "{}", { agentId: user, graphId: agentId })).toBe("no_match");
});

describe("a denial of amounts over 100", () => {
  const over: Condition = { path: ["amount"], operator: "greater_than", value: 100 };
  const content = policy([rule("all"), only("pay", "deny", [over])]);

  test.each([
    ['{"amount":100}', "allowed"],
    ['{"amount":100.5}', "rule"],
    ['{"amount":1e3}', "rule"],
    ["{}", "policy_error"],
    ['{"amount":"500"}', "policy_error"],
    ['{"amount":null}', "policy_error"],
    ['{"amount":[500]}', "policy_error"],
    ['{"Amount":500}', "policy_error"],
  ])("judges %s as %s: what is missing or of another type is denied", (json, expected) => {
    expect(reason(content, "pay", json)).toBe(expected);
  });

  test("does not touch other tools", () => {
    expect(reason(content, "look", "{}")).toBe("allowed");
  });
});

test("a permission whose argument is missing or of another type permits nothing", () => {
  const content = policy([
    only("pay", "allow", [{ path: ["to", "country"], operator: "one_of", value: ["DE", "FR"] }]),
  ]);
  expect(reason(content, "pay", '{"to":{"country":"DE"}}')).toBe("allowed");
  for (const json of ['{"to":{"country":"US"}}', '{"to":{}}', '{"to":"DE"}', '{"to":{"country":["DE"]}}', "{}"])
    expect([json, reason(content, "pay", json)]).toEqual([json, "no_match"]);
});

test("a rule ends at its time", () => {
  const content = policy([rule("all", { expiresAtMs: 1_000 })]);
  expect(reason(content, "x", "{}", { nowMs: 999 })).toBe("allowed");
  expect(reason(content, "x", "{}", { nowMs: 1_000 })).toBe("no_match");
});

test("Cedar text counts beside the rules, and an error in it is a denial although another rule allows", () => {
  const forbids = policy([rule("all")], { cedar: 'forbid(principal, action, resource == Tool::"x") when { false };' });
  expect(reason(forbids, "x")).toBe("allowed");
  const fails = policy([rule("all")], {
    cedar: "forbid(principal, action, resource) when { context.now * 9223372036854775807 > 1 };",
  });
  expect(() => checkPolicy(fails, 1_000)).not.toThrow();
  expect(reason(fails, "x")).toBe("policy_error");
});

test.each<[string, ToolPolicyContent, RegExp]>([
  [
    "a field that does not exist",
    policy([], { cedar: "forbid(principal, action, resource) when { context.amount > 1 };" }),
    /amount/,
  ],
  ["text that is no Cedar", policy([], { cedar: "forbid everything" }), /cedar/],
  ["a list of tools that is empty", policy([rule("a", { tools: [] })]), /empty/],
  ["a list of agents that is empty", policy([rule("a", { agents: [] })]), /empty/],
  ["a name that no tool can have", policy([only("dеlete", "deny")]), /no tool name/],
  ["a name with a space", policy([only("delete_repo ", "deny")]), /no tool name/],
  ["two rules of one id", policy([rule("a"), rule("a")]), /twice/],
  ["an id that could end the text of a rule", policy([rule('a"]) || true')]), /rules.id/],
  [
    "a bound that is no number",
    policy([only("pay", "deny", [{ path: ["a"], operator: "at_most", value: "1" }])]),
    /number/,
  ],
  [
    "a list of nothing",
    policy([only("pay", "deny", [{ path: ["a"], operator: "one_of", value: [] }])]),
    /at least one/,
  ],
])("a set with %s is not published", (_what, content, why) => {
  expect(() => checkPolicy(content, 0)).toThrow(why);
});

test("a set whose test fails is not published, and the message says what was decided", () => {
  const expecting = (expect: "allow" | "deny") =>
    policy([only("read", "allow")], {
      tests: [{ name: "t", tool: { server: "runner", name: "read" }, agent: "shop", user, arguments: {}, expect }],
    });
  expect(() => checkPolicy(expecting("allow"), 0)).not.toThrow();
  expect(() => checkPolicy(expecting("deny"), 0)).toThrow(/"t" expects deny; Allowed by rule "allow-read"/);
});

test("a denial is explained by the rule that denied", () => {
  const { explanation, rules } = decideCall(policy([rule("all"), only("rm", "deny")]), call("rm"));
  expect({ explanation, rules }).toEqual({
    explanation: 'Denied: rule "deny-rm" denies this call.',
    rules: ["deny-rm"],
  });
});

test("equal contents have one digest, and any difference another", () => {
  expect(digestOf(policy([rule("a")]))).toEqual(digestOf(policy([{ ...rule("a") }])));
  expect(digestOf(policy([rule("a")]))).not.toEqual(digestOf(policy([rule("b")])));
});

test("whether arguments matter for a tool is known without arguments", () => {
  const over: Condition = { path: ["amount"], operator: "greater_than", value: 100 };
  const content = policy([
    rule("all", {
      tools: [
        { server: "runner", name: "pay" },
        { server: "runner", name: "look" },
      ],
    }),
    only("pay", "deny", [over]),
  ]);
  expect(reachOf(content, call("look"))).toBe("always");
  expect(reachOf(content, call("pay"))).toBe("depends");
  expect(reachOf(content, call("rm"))).toBe("never");
});

test("a long policy and a hostile text are judged in time: nothing in a condition can run away", () => {
  const hostile: Condition = { path: ["a"], operator: "contains", value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab" };
  const rules = Array.from({ length: 200 }, (_, at) => rule(`r${at}`, { effect: "deny", conditions: [hostile] }));
  const content = policy([...rules.slice(1), rule("all")]);
  const json = JSON.stringify({ a: "a".repeat(100_000) });
  const before = performance.now();
  expect(reason(content, "x", json)).toBe("allowed");
  expect(performance.now() - before).toBeLessThan(5_000);
});
