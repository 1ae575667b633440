import { afterAll, beforeAll, expect, test } from "vitest";
import { apiScopes } from "../../../src/domain/scope.js";
import { askGraphql } from "../../support/graphql.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
let key: string;

beforeAll(async () => {
  world = await startWorld();
  key = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());

const ask = async (query: string) => {
  const { data, errors } = await askGraphql(world.url, key, query);
  expect(errors).toEqual([]);
  return data;
};
const draft = async (input: string) =>
  (
    await ask(
      `mutation { toolPolicyDraftCreate(input: {${input}}) { toolPolicyVersion { uuid number digest content } userErrors { code field message } } }`,
    )
  ).toolPolicyDraftCreate;
const change = async (field: string, id: string, expectedVersion: number, more = "") =>
  (
    await ask(
      `mutation { ${field}(input: {id: "${id}", expectedVersion: ${expectedVersion}${more}}) { toolPolicyVersion { uuid number restores digest } userErrors { code field message } } }`,
    )
  )[field];
const inForce = async () => (await ask("{ toolPolicy { governed number } }")).toolPolicy;

const all = '{id: "all", effect: ALLOW, tools: [{name: "*"}]}';
const limit =
  '{id: "limit", effect: DENY, tools: [{name: "pay"}], conditions: [{path: ["amount"], operator: GREATER_THAN, value: 100}]}';

test("a policy is drafted, tried, published once, changed only from what was seen, and restored as a new version", async () => {
  expect(await inForce()).toEqual({ governed: false, number: 0 });
  const first = (await draft(`name: "first", rules: [${all}], idempotencyKey: "k"`)).toolPolicyVersion;
  expect((await draft(`name: "first", rules: [${all}], idempotencyKey: "k"`)).toolPolicyVersion.uuid).toBe(first.uuid);
  expect(first.number).toBeNull();
  expect(await change("toolPolicyPublish", first.uuid, 0, ", dryRun: true")).toMatchObject({
    ...{ userErrors: [], toolPolicyVersion: { number: null } },
  });
  expect(await inForce()).toEqual({ governed: false, number: 0 });
  expect((await change("toolPolicyPublish", first.uuid, 0)).toolPolicyVersion.number).toBe(1);
  expect((await change("toolPolicyPublish", first.uuid, 1)).userErrors).toMatchObject([
    { code: "INVALID_INPUT", field: ["id"] },
  ]);

  const second = (await draft(`name: "second", rules: [${all}, ${limit}]`)).toolPolicyVersion;
  const simulate = async (args: string) =>
    (
      await ask(
        `{ toolPolicySimulate(input: {versionId: "${second.uuid}", tool: {name: "pay"}, agent: "shop", user: "system", arguments: ${args}}) { allowed reason rules explanation } }`,
      )
    ).toolPolicySimulate;
  expect(await simulate("{amount: 99.5}")).toMatchObject({ allowed: true, rules: ["all"] });
  expect(await simulate("{amount: 101}")).toEqual({
    ...{ allowed: false, reason: "RULE", rules: ["limit"], explanation: 'Denied: rule "limit" denies this call.' },
  });
  expect(await simulate('{amount: "5"}')).toMatchObject({ allowed: false, reason: "POLICY_ERROR" });

  const both = await Promise.all([
    change("toolPolicyPublish", second.uuid, 1),
    change("toolPolicyRestore", first.uuid, 1),
  ]);
  expect(both.flatMap(({ userErrors }) => userErrors.map(({ code }: { code: string }) => code))).toEqual([
    "VERSION_CONFLICT",
  ]);
  expect((await inForce()).number).toBe(2);
  const restored = (await change("toolPolicyRestore", first.uuid, 2)).toolPolicyVersion;
  expect(restored).toMatchObject({ number: 3, restores: 1, digest: first.digest });
  expect(restored.uuid).not.toBe(first.uuid);

  const audit = await ask("{ auditEvents(first: 50) { nodes { action } } }");
  const actions = audit.auditEvents.nodes.map(({ action }: { action: string }) => action);
  const count = (action: string) => actions.filter((one: string) => one === action).length;
  expect(["tool_policy.draft", "tool_policy.publish", "tool_policy.restore"].map(count)).toSatisfy(
    ([drafts, publishes, restores]: number[]) => drafts === 2 && (publishes as number) + (restores as number) === 3,
  );
});

test.each([
  ["a rule for no tool", 'rules: [{id: "a", effect: ALLOW, tools: []}]', "rules.tools"],
  [
    "a field that does not exist",
    'rules: [], cedar: "forbid(principal, action, resource) when { context.amount > 1 };"',
    "cedar",
  ],
  ["a name that no tool can have", 'rules: [{id: "a", effect: DENY, tools: [{name: "delete repo"}]}]', "rules.tools"],
  [
    "a test that fails",
    'rules: [], tests: [{name: "t", tool: {name: "a"}, agent: "shop", user: "api_key:00000000-0000-7000-8000-000000000000", arguments: {}, expect: ALLOW}]',
    "tests",
  ],
])("a version with %s is refused by the field's name", async (_what, input, field) => {
  expect((await draft(`name: "n", ${input}`)).userErrors).toMatchObject([{ code: "INVALID_INPUT", field: [field] }]);
});
