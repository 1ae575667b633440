import { randomUUID } from "node:crypto";
import { GraphQLObjectType, isInterfaceType } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CredentialId, RunnerId } from "../../src/domain/ids.js";
import { permissionTable } from "../../src/domain/permissions.js";
import { type Role, roles } from "../../src/domain/roles.js";
import { type ApiScope, apiScopes, systemScope } from "../../src/domain/scope.js";
import type { ToolPolicyContent } from "../../src/domain/tool-rules.js";
import { createServiceAccount } from "../../src/governance/edit-service-accounts.js";
import { draftToolPolicy, publishToolPolicy, registerTool } from "../../src/governance/tool-policy/edit.js";
import { graphqlSchema } from "../../src/schema/index.js";
import { announceAgents } from "../../src/store/agents.js";
import { upsertRunner } from "../../src/store/runners.js";
import { withTenantTx } from "../../src/store/tx.js";
import { askGraphql, type GraphqlAnswer, graphqlSocket, relayId } from "../support/graphql.js";
import { mutations, nodePermissions, queries } from "../support/graphql-cases.js";
import { makeMember, officeOf, rolesOf } from "../support/members.js";
import { sampleAgents } from "../support/sample-agents.js";
import { startWorld, type TestTenant, type World } from "../support/world.js";

// Two tenants with the same things in both. Whatever takes an id is asked for the other tenant's and for one that nobody has: the answers must be the
// same, byte for byte once the id itself is taken out. And everything is asked in every role. The tables are compared with the schema, so a field without
// a case fails.

interface Things {
  readonly tenant: TestTenant;
  readonly admin: string;
  /** Local ids by node type. */
  readonly ids: Record<string, string>;
}

let world: World;
let mine: Things;
let theirs: Things;
/** A key of a member of mine, by role. */
let keys: Record<Role, string>;

beforeAll(async () => {
  world = await startWorld({
    agents: { ...sampleAgents, stepping: async (run) => run.step("tool", "look", () => ({ ok: true })) },
  });
  mine = await fill(world.home);
  theirs = await fill(await world.tenant());
  const made = roles.map(async (role) => [role, (await makeMember(world, mine.tenant.id, role)).key] as const);
  keys = Object.fromEntries(await Promise.all(made)) as Record<Role, string>;
});
afterAll(() => world.stop());

/** A version in force, a draft, a tool that is known and a decision. */
async function toolThings(tenant: TestTenant, agentId: string, runId: string): Promise<Record<string, string>> {
  const scope = systemScope(tenant.id);
  const { tools, stores } = world.plane;
  const content: ToolPolicyContent = {
    rules: [
      {
        ...{ id: "all", effect: "allow", tools: [{ server: "runner", name: "*" }], agents: null, users: null },
        ...{ conditions: [], expiresAtMs: null },
      },
    ],
    ...{ cedar: "", tests: [] },
  };
  const version = await draftToolPolicy(tools, scope, { name: "p", content }, null);
  await publishToolPolicy(tools, scope, { id: version, expectedVersion: 0 });
  const draft = await draftToolPolicy(tools, scope, { name: "draft", content }, null);
  const schemaDigest = "00".repeat(32);
  const tool = await registerTool(tools, scope, { agentId, server: "runner", name: "read", schemaDigest });
  const decision = randomUUID();
  await withTenantTx(stores, scope, (tx) =>
    tx.query(
      `insert into tool_decision (tenant_id, id, run_id, fence, ask_id, agent_id, server, tool, "user", schema_digest, arguments_digest, allowed, reason, rules, explanation, micros)
       values ($1, $2, $3, 1, 'a', $4, 'runner', 'read', 'system', $5, $5, true, 'rule', '{all}', 'Allowed by rule "all".', 1)`,
      [tenant.id, decision, runId, agentId, Buffer.alloc(32)],
    ),
  );
  return { ToolPolicyVersion: version, ToolPolicyDraft: draft, Tool: tool, ToolDecision: decision };
}

async function fill(tenant: TestTenant): Promise<Things> {
  const admin = await world.key(tenant, apiScopes);
  const client = world.client(tenant.key);
  const thread = await client.threads.create();
  await client.runs.wait(thread.thread_id, "stepping", { input: { a: 1 } });
  const [run] = await client.runs.list(thread.thread_id);
  const ask = (query: string) => askGraphql(world.url, admin, query);
  const token = await ask(
    'mutation { runnerTokenCreate(input: {name: "t", kind: "typescript"}) { runnerToken { uuid } secret } }',
  );
  const budget = await ask(
    'mutation { budgetCreate(input: {name: "b", unit: TOKENS, scope: TENANT, period: DAY, amount: 1000000}) { budget { uuid } } }',
  );
  const price = await ask(
    'mutation { modelPriceSet(input: {model: "mine", inputPico: 1, outputPico: 1}) { modelPrice { uuid } } }',
  );
  const halt = await ask('mutation { haltCreate(input: {scope: KIND, kind: "other", reason: "r"}) { halt { uuid } } }');
  const secret = await ask('mutation { secretCreate(input: {name: "KEPT", value: "kept value"}) { secret { uuid } } }');
  const seen = await ask(
    "{ tenant { id } agents { nodes { uuid } } apiKeys { nodes { uuid } } auditEvents { nodes { id } } runs { nodes { steps { nodes { id } } } } }",
  );
  expect(seen.errors).toEqual([]);
  const local = (id: string): string => Buffer.from(id, "base64").toString("utf8").replace(/^\w+:/, "");
  const tokenId = token.data.runnerTokenCreate.runnerToken.uuid as string;
  const runner = randomUUID();
  await upsertRunner(
    world.plane.stores,
    { poolId: tenant.id, kind: "typescript", tokenId: tokenId as CredentialId },
    { id: runner as RunnerId, version: "1", capacity: 1, announcementDigest: "", graphIds: [] },
  );
  // Agents of the shared pool have the same id in every tenant, so each gets one of its own.
  const agent = randomUUID();
  const schemas = { input: null, output: null, state: null, config: null, context: null };
  await announceAgents(world.plane.stores.app, tenant.id, "typescript", [
    {
      ...{ id: agent, graphId: `own-${tenant.id}`, name: "Own", description: "", digest: "00", schemas },
      ...{ recovery: "restart", maxAttempts: 1, queueTimeoutMs: 1_000, runTimeoutMs: null },
    },
  ]);
  const member = await makeMember(world, tenant.id, "viewer");
  const account = { name: "ci", role: "developer" } as const;
  return {
    tenant,
    admin,
    ids: {
      Member: member.id,
      ServiceAccount: await createServiceAccount(officeOf(world), systemScope(tenant.id), account, null),
      ...(await toolThings(tenant, agent, run?.run_id as string)),
      Budget: budget.data.budgetCreate.budget.uuid,
      ModelPrice: price.data.modelPriceSet.modelPrice.uuid,
      Secret: secret.data.secretCreate.secret.uuid,
      Halt: halt.data.haltCreate.halt.uuid,
      Tenant: tenant.id,
      Agent: agent,
      Thread: thread.thread_id,
      Run: run?.run_id as string,
      Step: local(seen.data.runs.nodes[0].steps.nodes[0].id),
      ApiKey: seen.data.apiKeys.nodes[0].uuid,
      RunnerToken: tokenId,
      Runner: runner,
      AuditEvent: local(seen.data.auditEvents.nodes[0].id),
    },
  };
}

test("every query, mutation, subscription and node type has a case", () => {
  const fieldsOf = (type: GraphQLObjectType | null | undefined) => Object.keys(type?.getFields() ?? {}).sort();
  expect(fieldsOf(graphqlSchema.getQueryType())).toEqual(Object.keys(queries).sort());
  expect(fieldsOf(graphqlSchema.getMutationType())).toEqual(Object.keys(mutations).sort());
  expect(fieldsOf(graphqlSchema.getSubscriptionType())).toEqual(["runEvents"]);
  const node = graphqlSchema.getType("Node");
  const nodes = Object.values(graphqlSchema.getTypeMap()).filter(
    (type) => type instanceof GraphQLObjectType && isInterfaceType(node) && type.getInterfaces().includes(node),
  );
  expect(nodes.map(({ name }) => name).sort()).toEqual(Object.keys(nodePermissions).sort());
});

const cases = Object.entries({ ...queries, ...mutations }).flatMap(([field, given]) =>
  (Array.isArray(given) ? given : [given]).map(
    (one) => [`${field}${one.takes ? ` by ${one.takes}` : ""}`, one] as const,
  ),
);

/** An id of the right form that nobody has. */
function unknownLike(id: string): string {
  return id.includes("/") ? `${randomUUID()}/nothing` : randomUUID();
}

/** An answer with every form of an id taken out. */
function without(answer: GraphqlAnswer, type: string, id: string): string {
  let text = JSON.stringify(answer);
  for (const form of [id, relayId(type, id)]) text = text.replaceAll(form, "ID");
  return text;
}

describe.each(cases)("%s", (_name, { may, takes, query, own }) => {
  const scope: ApiScope | null = permissionTable[may].scope;
  const ids = (things: Things) => things.ids[takes ?? "Tenant"] as string;

  test("another tenant's id is answered like one that nobody has", async () => {
    if (takes === null) {
      expect(query("a")).toBe(query("b"));
      return;
    }
    const foreign = await askGraphql(world.url, mine.admin, query(ids(theirs)));
    const unknownId = unknownLike(ids(theirs));
    const unknown = await askGraphql(world.url, mine.admin, query(unknownId));
    expect(without(foreign, takes, ids(theirs))).toBe(without(unknown, takes, unknownId));
    expect(foreign.status).toBe(200);
    expect(JSON.stringify(foreign)).not.toContain("INTERNAL");
  });

  test("a key without the scope learns nothing, be the id its own, foreign or unknown", async () => {
    const others = apiScopes.filter((name) => name !== scope);
    const key = await world.key(mine.tenant, others);
    const answers = await Promise.all(
      [ids(mine), ids(theirs), unknownLike(ids(mine))].map((id) => askGraphql(world.url, key, query(id))),
    );
    if (scope === null) {
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      return;
    }
    for (const { data, errors } of answers) {
      expect(errors[0]?.extensions?.code).toBe("FORBIDDEN");
      expect(errors[0]?.message).toContain(`"${scope}"`);
      expect(Object.values((data ?? {}) as object).every((value) => value === null)).toBe(true);
    }
  });

  test("each role gets it or is refused, as the table of permissions says", async () => {
    const isMutation = query("x").startsWith("mutation");
    const asked = roles.map(async (role) => {
      const id = isMutation ? unknownLike(ids(mine)) : ids(mine);
      // Only one can be invited.
      const text = query(id).replace("new@", `${role}@`);
      const { data, errors } = await askGraphql(world.url, keys[role], text);
      const refused = { role, code: "FORBIDDEN", data: true };
      const isEmpty = Object.values((data ?? {}) as object).every((value) => value === null);
      if (rolesOf(may).includes(role)) expect({ role, errors }).toEqual({ role, errors: [] });
      else expect({ role, code: errors[0]?.extensions?.code, data: isEmpty }).toEqual(refused);
    });
    await Promise.all(asked);
  });

  test("a revoked key and no key are refused", async () => {
    const key = await world.key(mine.tenant, apiScopes);
    const id = (await askGraphql(world.url, key, "{ viewer { apiKeyId } }")).data.viewer.apiKeyId as string;
    const revoked = await askGraphql(
      world.url,
      mine.admin,
      `mutation { apiKeyRevoke(input: {id: "${id}"}) { userErrors { code } } }`,
    );
    expect(revoked.data.apiKeyRevoke.userErrors).toEqual([]);
    for (const none of [key, null]) {
      const answer = await askGraphql(world.url, none, query(ids(mine)));
      expect(answer).toMatchObject({ status: 401, data: null });
    }
  });

  test("the owner gets it", async () => {
    // Ids of keys in use are not changed under the other tests.
    const used = takes === "ApiKey" && query("x").startsWith("mutation") ? await spareKey() : ids(theirs);
    const answer = await askGraphql(world.url, theirs.admin, query(used));
    expect(answer.errors).toEqual([]);
    expect(own(answer, { ...theirs.ids, ...(takes === "ApiKey" ? { ApiKey: used } : {}) })).toBeTruthy();
  });
});

async function spareKey(): Promise<string> {
  const made = await askGraphql(
    world.url,
    theirs.admin,
    'mutation { apiKeyCreate(input: {name: "spare", scopes: [RUNS_READ]}) { apiKey { uuid } } }',
  );
  return made.data.apiKeyCreate.apiKey.uuid as string;
}

test("a subscription to another tenant's run is refused like one to a run that nobody has, and without the scope", async () => {
  const refusal = async (key: string, run: string): Promise<string> => {
    const client = graphqlSocket(world.url, { apiKey: key });
    try {
      for await (const result of client.iterate({ query: `subscription { runEvents(runId: "${run}") { lastSeq } }` }))
        return JSON.stringify(result).replaceAll(run, "ID");
      return "nothing";
    } catch (error) {
      return JSON.stringify(error).replaceAll(run, "ID");
    } finally {
      await client.dispose();
    }
  };
  const foreign = await refusal(mine.admin, theirs.ids["Run"] as string);
  expect(foreign).toContain("RUN_NOT_FOUND");
  expect(await refusal(mine.admin, randomUUID())).toBe(foreign);
  const unable = await world.key(mine.tenant, ["runs:write", "admin:read", "admin:write"]);
  for (const run of [mine.ids["Run"], theirs.ids["Run"], randomUUID()])
    expect(await refusal(unable, run as string)).toContain("FORBIDDEN");
  expect(await refusal(theirs.admin, theirs.ids["Run"] as string)).toContain("lastSeq");
});

test("what a role may not see is not seen through what it may", async () => {
  const look = (role: Role, query: string) => askGraphql(world.url, keys[role], query);
  const runs = await look("billing_admin", "{ agents(first: 100) { nodes { uuid runs { nodes { uuid } } } } }");
  expect(runs.errors[0]?.extensions?.code).toBe("FORBIDDEN");
  expect(JSON.stringify(runs)).not.toContain(mine.ids["Run"]);
  const owners = await look("developer", "{ apiKeys(first: 100) { nodes { uuid member { email } } } }");
  expect(owners.errors[0]?.extensions?.code).toBe("FORBIDDEN");
  expect(JSON.stringify(owners)).not.toContain("@example.com");
  const socket = graphqlSocket(world.url, { apiKey: keys.billing_admin });
  const events = socket.iterate({ query: `subscription { runEvents(runId: "${mine.ids["Run"]}") { lastSeq } }` });
  await expect(events.next().then((result) => Promise.reject(result.value?.errors ?? result))).rejects.toMatchObject([
    { extensions: { code: "FORBIDDEN" } },
  ]);
  await socket.dispose();
});

test("lists hold the caller's own rows only", async () => {
  for (const [one, other] of [
    [mine, theirs],
    [theirs, mine],
  ] as const) {
    const answer = await askGraphql(
      world.url,
      one.admin,
      `{ agents(first: 100) { nodes { id } } threads(first: 100) { nodes { id } } runs(first: 100) { nodes { id steps { nodes { id } } } }
         apiKeys(last: 100) { nodes { id } } members(first: 100) { nodes { id } } serviceAccounts(first: 100) { nodes { id } } runnerTokens(first: 100) { nodes { id } } runners(first: 100) { nodes { id } }
         budgets(first: 100) { nodes { id current { posted } } } modelPrices(first: 100) { nodes { id } } halts(first: 100) { nodes { id } } toolPolicyVersions(first: 100) { nodes { id } }
         tools(first: 100) { nodes { id } } toolDecisions(first: 100) { nodes { id } } secrets(first: 100) { nodes { id } } auditEvents(first: 100) { nodes { id targetId } } }`,
    );
    expect(answer.errors).toEqual([]);
    const text = JSON.stringify(answer.data);
    // The first of many records may be on a later page.
    for (const [type, id] of Object.entries(one.ids))
      if (!["Tenant", "AuditEvent", "ToolPolicyDraft"].includes(type))
        expect({ type, there: text.includes(relayId(type, id)) }).toEqual({ type, there: true });
    // Agents of the shared pool have the same id everywhere.
    for (const [type, id] of Object.entries(other.ids))
      if (type !== "Agent") expect({ type, there: text.includes(relayId(type, id)) }).toEqual({ type, there: false });
  }
});
