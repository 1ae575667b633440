import type { Permission } from "../../src/domain/permissions.js";
import { type GraphqlAnswer, relayId } from "./graphql.js";

// Every query, mutation and type of node: what it needs, whose id it takes, and what its owner sees. A test compares these tables with the schema.

export const nodePermissions: Record<string, Permission> = {
  Tenant: "tenant:read",
  Agent: "agents:read",
  Thread: "threads:read",
  Run: "runs:read",
  Step: "runs:read",
  Member: "members:read",
  ServiceAccount: "service_accounts:read",
  ApiKey: "api_keys:read",
  RunnerToken: "runner_tokens:read",
  Runner: "runners:read",
  Budget: "budgets:read",
  ModelPrice: "budgets:read",
  Halt: "halts:read",
  ToolPolicyVersion: "policies:read",
  Tool: "policies:read",
  ToolDecision: "decisions:read",
  Secret: "secrets:read",
  AuditEvent: "audit:read",
};

export interface Case {
  readonly may: Permission;
  /** The type of node that the field takes an id of; null when it takes none. */
  readonly takes: string | null;
  readonly query: (id: string) => string;
  /** What the owner sees of it. */
  readonly own: (answer: GraphqlAnswer, ids: Record<string, string>) => unknown;
}

const lookUp = (field: string, type: string, may: Permission): Case => ({
  may,
  takes: type,
  query: (id) => `{ ${field}(id: "${relayId(type, id)}") { uuid } }`,
  own: ({ data }, ids) => data[field].uuid === ids[type],
});
const list = (field: string, may: Permission, cursor: string): Case => ({
  may,
  takes: cursor,
  // A cursor names a row too.
  query: (id) => `{ ${field}(first: 5, before: "${Buffer.from(`c:${id}`).toString("base64url")}") { nodes { id } } }`,
  own: ({ data, errors }) => errors.length === 0 && Array.isArray(data[field].nodes),
});

export const queries: Record<string, Case | Case[]> = {
  viewer: {
    may: "tenant:read",
    takes: null,
    query: () => "{ viewer { tenant { slug } } }",
    own: ({ data }) => data.viewer.tenant.slug,
  },
  tenant: { may: "tenant:read", takes: null, query: () => "{ tenant { slug } }", own: ({ data }) => data.tenant.slug },
  node: Object.entries(nodePermissions).map(([type, may]) => ({
    may,
    takes: type,
    query: (id: string) => `{ node(id: "${relayId(type, id)}") { __typename id } }`,
    own: ({ data }: GraphqlAnswer, ids: Record<string, string>) =>
      data.node.__typename === type && data.node.id === relayId(type, ids[type] as string),
  })),
  nodes: Object.entries(nodePermissions).map(([type, may]) => ({
    may,
    takes: type,
    query: (id: string) => `{ nodes(ids: ["${relayId(type, id)}"]) { __typename } }`,
    own: ({ data }: GraphqlAnswer) => data.nodes[0].__typename === type,
  })),
  agent: lookUp("agent", "Agent", "agents:read"),
  agents: list("agents", "agents:read", "Agent"),
  thread: lookUp("thread", "Thread", "threads:read"),
  threads: list("threads", "threads:read", "Thread"),
  run: lookUp("run", "Run", "runs:read"),
  runs: [
    list("runs", "runs:read", "Run"),
    {
      may: "runs:read",
      takes: "Thread",
      query: (id) => `{ runs(filter: {threadId: "${relayId("Thread", id)}"}) { nodes { id steps { nodes { id } } } } }`,
      own: ({ data }) => data.runs.nodes.length === 1,
    },
    {
      may: "runs:read",
      takes: "Agent",
      query: (id) => `{ runs(filter: {agentId: "${id}", statuses: [ERROR]}) { nodes { id } } }`,
      own: ({ data }) => data.runs.nodes.length === 0,
    },
  ],
  member: lookUp("member", "Member", "members:read"),
  members: list("members", "members:read", "Member"),
  serviceAccount: lookUp("serviceAccount", "ServiceAccount", "service_accounts:read"),
  serviceAccounts: list("serviceAccounts", "service_accounts:read", "ServiceAccount"),
  apiKey: lookUp("apiKey", "ApiKey", "api_keys:read"),
  apiKeys: list("apiKeys", "api_keys:read", "ApiKey"),
  runnerToken: lookUp("runnerToken", "RunnerToken", "runner_tokens:read"),
  runnerTokens: list("runnerTokens", "runner_tokens:read", "RunnerToken"),
  runners: list("runners", "runners:read", "Runner"),
  budget: lookUp("budget", "Budget", "budgets:read"),
  budgets: list("budgets", "budgets:read", "Budget"),
  modelPrices: list("modelPrices", "budgets:read", "ModelPrice"),
  usage: {
    may: "budgets:read",
    takes: null,
    query: () =>
      `{ usage(from: "2026-01-01T00:00:00Z", to: "2027-01-01T00:00:00Z", by: [AGENT, KEY, MODEL, DAY]) { runs nanoUsd } }`,
    own: ({ data }) => Array.isArray(data.usage),
  },
  halt: lookUp("halt", "Halt", "halts:read"),
  halts: list("halts", "halts:read", "Halt"),
  toolPolicy: {
    may: "policies:read",
    takes: null,
    query: () => "{ toolPolicy { governed number } }",
    own: ({ data }) => data.toolPolicy.governed === true && data.toolPolicy.number > 0,
  },
  toolPolicyVersion: lookUp("toolPolicyVersion", "ToolPolicyVersion", "policies:read"),
  toolPolicyVersions: list("toolPolicyVersions", "policies:read", "ToolPolicyVersion"),
  tools: [
    list("tools", "policies:read", "Tool"),
    {
      may: "policies:read",
      takes: "ToolPolicyVersion",
      query: (id) => `{ tools { nodes { name reach(versionId: "${id}") } } }`,
      own: ({ data }) => data.tools.nodes.length > 0 && data.tools.nodes[0].reach === "ALWAYS",
    },
  ],
  toolDecisions: [
    list("toolDecisions", "decisions:read", "ToolDecision"),
    {
      may: "decisions:read",
      takes: "Run",
      query: (id) => `{ toolDecisions(filter: {runId: "${id}"}) { nodes { tool allowed } } }`,
      own: ({ data }) => data.toolDecisions.nodes.length === 1,
    },
  ],
  toolPolicySimulate: [
    {
      may: "policies:read",
      takes: "ToolPolicyVersion",
      query: (id) =>
        `{ toolPolicySimulate(input: {versionId: "${relayId("ToolPolicyVersion", id)}", tool: {name: "read"}, agent: "shop", user: "system", arguments: {}}) { allowed explanation } }`,
      own: ({ data }) => data.toolPolicySimulate.allowed === true,
    },
  ],
  secret: lookUp("secret", "Secret", "secrets:read"),
  secrets: list("secrets", "secrets:read", "Secret"),
  auditEvents: [
    list("auditEvents", "audit:read", "AuditEvent"),
    {
      may: "audit:read",
      takes: "RunnerToken",
      query: (id) => `{ auditEvents(filter: {targetId: "${id}"}) { nodes { action } } }`,
      own: ({ data }) => data.auditEvents.nodes.length > 0,
    },
  ],
  auditVerification: {
    may: "audit:read",
    takes: null,
    query: () => "{ auditVerification { verdict checkedTo } }",
    own: ({ data }) => data.auditVerification.verdict === "OK",
  },
  auditKey: {
    may: "audit:read",
    takes: null,
    query: () => "{ auditKey { keyId } }",
    own: ({ data }) => data.auditKey.keyId,
  },
};

const change = (field: string, object: string, type: string, may: Permission, more = ""): Case => ({
  may,
  takes: type,
  query: (id) =>
    `mutation { ${field}(input: {id: "${relayId(type, id)}"${more}}) { ${object} { uuid } userErrors { code field message } } }`,
  own: ({ data }, ids) => data[field].userErrors.length === 0 && data[field][object].uuid === ids[type],
});
const create = (field: string, object: string, may: Permission, input: string): Case => ({
  may,
  takes: null,
  query: () => `mutation { ${field}(input: {${input}}) { ${object} { uuid } userErrors { code message } } }`,
  own: ({ data }) => data[field].userErrors.length === 0,
});
const keyWith = (type: string, input: (id: string) => string): Case => ({
  may: "own_keys:write",
  takes: type,
  query: (id) =>
    `mutation { apiKeyCreate(input: {name: "n", scopes: [RUNS_READ], ${input(relayId(type, id))}}) { apiKey { name } userErrors { code field message } } }`,
  own: ({ data }) => data.apiKeyCreate.userErrors.length === 0,
});

export const mutations: Record<string, Case | Case[]> = {
  memberInvite: create("memberInvite", "member", "members:write", 'email: "new@example.com", role: VIEWER'),
  memberRoleUpdate: change(
    ...(["memberRoleUpdate", "member", "Member", "members:write"] as const),
    ", role: VIEWER, expectedVersion: 2",
  ),
  memberRemove: change("memberRemove", "member", "Member", "members:write"),
  serviceAccountCreate: create(
    ...(["serviceAccountCreate", "serviceAccount", "service_accounts:write"] as const),
    'name: "n", role: VIEWER',
  ),
  serviceAccountUpdate: change(
    ...(["serviceAccountUpdate", "serviceAccount", "ServiceAccount", "service_accounts:write"] as const),
    ', name: "other", expectedVersion: 1',
  ),
  apiKeyCreate: [
    create("apiKeyCreate", "apiKey", "own_keys:write", 'name: "n", scopes: [RUNS_READ]'),
    keyWith("ServiceAccount", (id) => `ownerId: "${id}"`),
    keyWith("Agent", (id) => `agentIds: ["${id}"]`),
  ],
  serviceAccountRemove: change(
    ...(["serviceAccountRemove", "serviceAccount", "ServiceAccount", "service_accounts:write"] as const),
  ),
  apiKeyRotate: change("apiKeyRotate", "apiKey", "ApiKey", "own_keys:write"),
  apiKeyRevoke: change("apiKeyRevoke", "apiKey", "ApiKey", "own_keys:write"),
  runnerTokenCreate: create("runnerTokenCreate", "runnerToken", "runner_tokens:write", 'name: "n", kind: "k"'),
  runnerTokenRotate: change("runnerTokenRotate", "runnerToken", "RunnerToken", "runner_tokens:write"),
  runnerTokenRevoke: change("runnerTokenRevoke", "runnerToken", "RunnerToken", "runner_tokens:write"),
  budgetCreate: [
    create(
      ...(["budgetCreate", "budget", "budgets:write"] as const),
      'name: "n", unit: RUNS, scope: TENANT, period: DAY, amount: "1000000"',
    ),
    ...(["Agent", "ApiKey"] as const).map((type) => ({
      may: "budgets:write" as const,
      takes: type,
      query: (id: string) =>
        `mutation { budgetCreate(input: {name: "n", unit: RUNS, period: DAY, amount: 1000000, ${
          type === "Agent" ? "scope: AGENT, agentId" : "scope: KEY, apiKeyId"
        }: "${relayId(type, id)}"}) { budget { uuid } userErrors { code field message } } }`,
      own: ({ data }: GraphqlAnswer) => data.budgetCreate.userErrors.length === 0,
    })),
  ],
  budgetUpdate: change(
    ...(["budgetUpdate", "budget", "Budget", "budgets:write"] as const),
    ', name: "other", expectedVersion: 1',
  ),
  budgetArchive: change("budgetArchive", "budget", "Budget", "budgets:write"),
  modelPriceSet: create(
    ...(["modelPriceSet", "modelPrice", "budgets:write"] as const),
    'model: "m", inputPico: 1, outputPico: 1',
  ),
  haltCreate: [
    create("haltCreate", "halt", "halts:write", 'scope: KIND, kind: "nobody", reason: "r"'),
    {
      may: "halts:write",
      takes: "Agent",
      query: (id) =>
        `mutation { haltCreate(input: {scope: AGENT, agentId: "${relayId("Agent", id)}", reason: "r", dryRun: true}) { affected { pending running } userErrors { code field message } } }`,
      own: ({ data }) => data.haltCreate.userErrors.length === 0 && data.haltCreate.affected.pending === 0,
    },
  ],
  toolPolicyDraftCreate: create(
    ...(["toolPolicyDraftCreate", "toolPolicyVersion", "policies:write"] as const),
    'name: "n", rules: [{id: "all", effect: ALLOW, tools: [{name: "*"}]}]',
  ),
  toolPolicyPublish: {
    may: "policies:write",
    takes: "ToolPolicyDraft",
    query: (id) =>
      `mutation { toolPolicyPublish(input: {id: "${id}", expectedVersion: 1, dryRun: true}) { toolPolicyVersion { uuid number } userErrors { code field message } } }`,
    own: ({ data }) =>
      data.toolPolicyPublish.userErrors.length === 0 && data.toolPolicyPublish.toolPolicyVersion.number === null,
  },
  toolPolicyRestore: change(
    ...(["toolPolicyRestore", "toolPolicyVersion", "ToolPolicyVersion", "policies:write"] as const),
    ", expectedVersion: 1, dryRun: true",
  ),
  toolRegister: {
    may: "policies:write",
    takes: "Agent",
    query: (id) =>
      `mutation { toolRegister(input: {agentId: "${relayId("Agent", id)}", name: "write", schemaDigest: "${"0".repeat(64)}"}) { tool { uuid } userErrors { code field message } } }`,
    own: ({ data }) => data.toolRegister.userErrors.length === 0,
  },
  haltLift: change("haltLift", "halt", "Halt", "halts:lift"),
  secretCreate: create("secretCreate", "secret", "secrets:write", 'name: "FRESH", value: "a value"'),
  secretPutVersion: change("secretPutVersion", "secret", "Secret", "secrets:write", ', value: "another value"'),
  secretActivateVersion: change("secretActivateVersion", "secret", "Secret", "secrets:write", ", number: 1"),
  secretDeprecateVersion: change("secretDeprecateVersion", "secret", "Secret", "secrets:write", ", number: 1"),
  secretDestroyVersion: change("secretDestroyVersion", "secret", "Secret", "secrets:write", ", number: 1"),
  // Of a version that nobody has: the list of the tenant's secrets is looked at later.
  secretDelete: {
    may: "secrets:write",
    takes: "Secret",
    query: (id) =>
      `mutation { secretDelete(input: {id: "${relayId("Secret", id)}", expectedVersion: 99}) { secret { uuid } userErrors { code field message } } }`,
    own: ({ data }) => data.secretDelete.userErrors[0].code === "VERSION_CONFLICT",
  },
  runCancel: {
    may: "runs:cancel",
    takes: "Run",
    query: (id) => `mutation { runCancel(input: {id: "${id}"}) { run { uuid } userErrors { code field message } } }`,
    own: ({ data }, ids) => data.runCancel.userErrors.length === 0 && data.runCancel.run.uuid === ids["Run"],
  },
};
