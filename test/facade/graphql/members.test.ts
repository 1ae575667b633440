import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Role } from "../../../src/domain/roles.js";
import { apiScopes, systemScope } from "../../../src/domain/scope.js";
import { createApiKey } from "../../../src/governance/edit-api-keys.js";
import { askGraphql, type Followed, followOverSocket, graphqlSocket } from "../../support/graphql.js";
import { keyOf, makeMember, type TestMember } from "../../support/members.js";
import { sampleAgents } from "../../support/sample-agents.js";
import { until } from "../../support/until.js";
import { startWorld, type TestTenant, testRootKey, type World } from "../../support/world.js";

// Two planes on one database: what is changed through one must hold on both.

let world: World;
let urls: string[];
let tenant: TestTenant;
let owner: TestMember;

beforeAll(async () => {
  world = await startWorld({ agents: sampleAgents });
  urls = [world.url, await world.replica()];
});
afterAll(() => world.stop());

/** Each test has a tenant of its own, with one Owner. */
async function newTenant(): Promise<void> {
  tenant = await world.tenant();
  owner = await makeMember(world, tenant.id, "owner");
}

const ask = (key: string, query: string, url = world.url) => askGraphql(url, key, query);
const codeOf = ({ code }: { code: string }): string => code;
const member = (role: Role) => makeMember(world, tenant.id, role);

/** The first error of a mutation's user errors, or null. */
async function change(key: string, mutation: string): Promise<{ code: string; field: string[] | null } | null> {
  const { data, errors } = await ask(key, `mutation { it: ${mutation} { userErrors { code field } } }`);
  expect(errors).toEqual([]);
  return data.it.userErrors[0] ?? null;
}
const setRole = (key: string, id: string, role: Role, version = 2) =>
  change(key, `memberRoleUpdate(input: {id: "${id}", role: ${role.toUpperCase()}, expectedVersion: ${version}})`);
const remove = (key: string, id: string) => change(key, `memberRemove(input: {id: "${id}"})`);

describe("a member", () => {
  beforeAll(newTenant);

  test("is invited once, whoever asks how often, and a record says so", async () => {
    const invite = (email: string, key: string, more = "") =>
      ask(
        owner.key,
        `mutation { memberInvite(input: {email: "${email}", role: DEVELOPER, idempotencyKey: "${key}"${more}}) { member { uuid email role status version } userErrors { code field } } }`,
      );
    const answers = await Promise.all(Array.from({ length: 4 }, () => invite(" Ada@Example.com ", "one")));
    for (const { data, errors } of answers)
      expect({ errors, refused: data.memberInvite.userErrors }).toEqual({ errors: [], refused: [] });
    const made = answers.map(({ data }) => data.memberInvite.member);
    expect(made[0]).toMatchObject({ email: "ada@example.com", role: "DEVELOPER", status: "INVITED", version: 1 });
    expect(new Set(made.map(({ uuid }) => uuid)).size).toBe(1);
    const again = await invite("ada@example.com", "two");
    expect(again.data.memberInvite.userErrors).toEqual([{ code: "MEMBER_EXISTS", field: ["email"] }]);
    const audit = await ask(
      owner.key,
      `{ auditEvents(filter: {targetId: "${made[0].uuid}"}) { nodes { action detail } } }`,
    );
    expect(audit.data.auditEvents.nodes).toEqual([
      { action: "member.invite", detail: { email: "ada@example.com", role: "developer" } },
    ]);
  });

  test.each(["", "ada", "a b@example.com", "ädä@example.com", "ada@exämple.com", `${"a".repeat(65)}@example.com`])(
    "is not invited at %j",
    async (email) => {
      const refused = await change(owner.key, `memberInvite(input: {email: "${email}", role: VIEWER})`);
      expect(refused).toEqual({ code: "INVALID_INPUT", field: ["email"] });
    },
  );

  test("is changed only by those who have seen them as they are", async () => {
    const one = await member("viewer");
    expect(await setRole(owner.key, one.id, "auditor")).toBeNull();
    expect(await setRole(owner.key, one.id, "developer")).toMatchObject({ code: "VERSION_CONFLICT" });
    expect(await setRole(owner.key, one.id, "developer", 3)).toBeNull();
  });

  test("gets and loses no more than whoever acts may do themselves", async () => {
    const [admin, victim] = [await member("admin"), await member("owner")];
    expect(await setRole(admin.key, admin.id, "owner")).toMatchObject({ code: "FORBIDDEN" });
    expect(await setRole(admin.key, victim.id, "viewer")).toMatchObject({ code: "FORBIDDEN" });
    expect(await remove(admin.key, victim.id)).toMatchObject({ code: "FORBIDDEN" });
    expect(await change(admin.key, 'memberInvite(input: {email: "o@example.com", role: OWNER})')).toMatchObject({
      code: "FORBIDDEN",
    });
    const narrow = await keyOf(world, tenant.id, owner.id, ["admin:read", "admin:write"]);
    expect(await change(narrow, 'memberInvite(input: {email: "d@example.com", role: DEVELOPER})')).toEqual({
      code: "FORBIDDEN",
      field: ["role"],
    });
    expect(await change(admin.key, 'serviceAccountCreate(input: {name: "x", role: OWNER})')).toMatchObject({
      code: "INVALID_INPUT",
    });
  });
});

describe("the last Owner", () => {
  beforeAll(newTenant);

  test("stays, as an Owner", async () => {
    expect(await remove(owner.key, owner.id)).toEqual({ code: "LAST_OWNER", field: ["id"] });
    expect(await setRole(owner.key, owner.id, "admin")).toEqual({ code: "LAST_OWNER", field: ["id"] });
  });

  test("stays when Owners remove and lower each other at the same time", async () => {
    for (let round = 0; round < 8; round++) {
      await newTenant();
      const others = await Promise.all([member("owner"), member("owner"), member("owner")]);
      const owners = [owner, ...others];
      // Everybody against the next one, by both ways, from both planes.
      const done = await Promise.all(
        owners.map(async (one, at) => {
          const { id } = owners[(at + 1) % owners.length] as TestMember;
          const mutation =
            at % 2 === round % 2
              ? `memberRemove(input: {id: "${id}"})`
              : `memberRoleUpdate(input: {id: "${id}", role: VIEWER, expectedVersion: 2})`;
          const text = `mutation { it: ${mutation} { userErrors { code } } }`;
          const { data, errors } = await ask(one.key, text, urls[at % urls.length]);
          // Whoever has lost their own place meanwhile is refused before anything is looked at.
          const codes = [
            ...errors.map(({ extensions }) => extensions?.code),
            ...(data?.it?.userErrors ?? []).map(codeOf),
          ];
          expect(["LAST_OWNER", "FORBIDDEN", "UNAUTHENTICATED", undefined]).toContain(codes[0]);
          return codes.length === 0;
        }),
      );
      const { rows } = await world.plane.stores.sweep.query(
        "select id from member where tenant_id = $1 and role = 'owner' and status = 'active'",
        [tenant.id],
      );
      expect(rows.length).toBeGreaterThanOrEqual(1);
      expect(done.filter(Boolean).length).toBe(4 - rows.length);
    }
  });
});

describe("a key", () => {
  beforeAll(newTenant);

  const canWrite = async (key: string) =>
    Promise.all(
      urls.map(async (url) => {
        const response = await fetch(`${url}/threads`, { method: "POST", headers: { "x-api-key": key } });
        return response.status;
      }),
    );
  const both = (status: number) => [status, status];

  test("loses within five seconds, on every plane, what its owner's role no longer includes", async () => {
    const developer = await member("developer");
    expect(await canWrite(developer.key)).toEqual(both(200));
    const before = performance.now();
    expect(await setRole(owner.key, developer.id, "viewer")).toBeNull();
    await until("both planes refuse it", async () => (await canWrite(developer.key)).every((status) => status === 403));
    expect(performance.now() - before).toBeLessThan(5_000);
    const may = await ask(developer.key, "{ viewer { role member { uuid } tenant { viewerCan } } }");
    expect(may.data.viewer).toMatchObject({ role: "VIEWER", member: { uuid: developer.id } });
    expect(may.data.viewer.tenant.viewerCan).toEqual(["TENANT_READ", "AGENTS_READ", "THREADS_READ", "RUNS_READ"]);
    expect(await setRole(owner.key, developer.id, "developer", 3)).toBeNull();
    await until("it comes back", async () => (await canWrite(developer.key)).every((status) => status === 200));
  });

  test("dies with its owner's removal, on every plane, and says why", async () => {
    const developer = await member("developer");
    const { data } = await ask(
      owner.key,
      'mutation { serviceAccountCreate(input: {name: "ci", role: DEVELOPER}) { serviceAccount { uuid } } }',
    );
    const account = data.serviceAccountCreate.serviceAccount.uuid as string;
    for (const [id, key, mutation] of [
      [developer.id, developer.key, "memberRemove"],
      [account, await keyOf(world, tenant.id, account), "serviceAccountRemove"],
    ] as const) {
      expect(await canWrite(key)).toEqual(both(200));
      const before = performance.now();
      expect(await change(owner.key, `${mutation}(input: {id: "${id}"})`)).toBeNull();
      await until("both planes refuse it", async () => (await canWrite(key)).every((status) => status === 401));
      expect(performance.now() - before).toBeLessThan(5_000);
    }
    const list = await ask(owner.key, "{ apiKeys(first: 100) { nodes { uuid status member { uuid } } } }");
    const row = list.data.apiKeys.nodes.find(
      (node: { member: { uuid: string } }) => node.member?.uuid === developer.id,
    );
    expect(row.status).toBe("BLOCKED");
    expect(await change(owner.key, `apiKeyRotate(input: {id: "${row.uuid}"})`)).toMatchObject({
      code: "CREDENTIAL_ENDED",
    });
    // Somebody with the same address who comes back is somebody new.
    expect(await change(owner.key, `memberInvite(input: {email: "${developer.email}", role: OWNER})`)).toBeNull();
    expect(await canWrite(developer.key)).toEqual(both(401));
  });

  test("belongs to whoever makes it, and one that somebody makes with it belongs to them too", async () => {
    const developer = await member("developer");
    const make = (key: string, more = "") =>
      ask(
        key,
        `mutation { apiKeyCreate(input: {name: "k", scopes: [RUNS_READ]${more}}) { apiKey { uuid } secret userErrors { code field } } }`,
      );
    const made = (await make(developer.key)).data.apiKeyCreate;
    const viewer = await ask(made.secret, "{ viewer { role member { uuid email } } }");
    expect(viewer.data.viewer).toEqual({ role: "DEVELOPER", member: { uuid: developer.id, email: developer.email } });
    const admin = await member("admin");
    // Whoever makes or rotates a key holds it: that would be acting as somebody else.
    expect((await make(admin.key, `, ownerId: "${developer.id}"`)).data.apiKeyCreate.userErrors).toEqual([
      { code: "FORBIDDEN", field: ["ownerId"] },
    ]);
    expect(await change(admin.key, `apiKeyRotate(input: {id: "${made.apiKey.uuid}"})`)).toMatchObject({
      code: "FORBIDDEN",
    });
    expect(await change(developer.key, `apiKeyRotate(input: {id: "${made.apiKey.uuid}"})`)).toBeNull();
    expect(await change(admin.key, `apiKeyRevoke(input: {id: "${made.apiKey.uuid}"})`)).toBeNull();
  });

  test("of somebody else or of the tenant is not touched by who may change only their own", async () => {
    const [developer, admin] = [await member("developer"), await member("admin")];
    const idOf = async (key: string) => (await ask(key, "{ viewer { apiKeyId } }")).data.viewer.apiKeyId as string;
    const tenants = await world.key(tenant, ["runs:read"]);
    for (const key of [admin.key, tenants])
      for (const verb of ["apiKeyRotate", "apiKeyRevoke"])
        expect(await change(developer.key, `${verb}(input: {id: "${await idOf(key)}"})`)).toMatchObject({
          code: "FORBIDDEN",
        });
    // A key of the tenant's own has no role to limit it: it may more than an Admin.
    const whole = await world.key(tenant, apiScopes);
    expect(await change(admin.key, `apiKeyRotate(input: {id: "${await idOf(whole)}"})`)).toMatchObject({
      code: "FORBIDDEN",
    });
    const security = await member("security_admin");
    const account = await ask(
      owner.key,
      'mutation { serviceAccountCreate(input: {name: "strong", role: ADMIN}) { serviceAccount { id } } }',
    );
    const ownerId = account.data.serviceAccountCreate.serviceAccount.id as string;
    expect(
      await change(security.key, `apiKeyCreate(input: {name: "k", scopes: [RUNS_WRITE], ownerId: "${ownerId}"})`),
    ).toEqual({ code: "FORBIDDEN", field: ["ownerId"] });
  });

  test("loses its open subscription with the right to it", async () => {
    const developer = await member("developer");
    const run = await world.client(tenant.key).runs.create(null, "gated", { input: { gate: "of no one" } });
    const socket = graphqlSocket(world.url, { apiKey: developer.key });
    const seen: Followed = { batches: [], errors: [] };
    const over = followOverSocket(socket, { run: run.run_id, after: "0" }, seen).catch(() => {});
    await until("the subscription is open", () => seen.batches.length > 0);
    expect(await setRole(owner.key, developer.id, "billing_admin")).toBeNull();
    await over;
    await socket.dispose();
    expect(seen.errors[0]?.extensions?.code).toBe("FORBIDDEN");
  });
});

describe("a key that is bound to agents", () => {
  let bound: string;
  let ids: { echo: string; mine: string; others: string; run: string; foreignRun: string };

  beforeAll(async () => {
    await newTenant();
    const client = world.client(tenant.key);
    const [echo] = await client.assistants.search({ graphId: "echo" });
    const agentIds = [echo?.assistant_id as string];
    const input = { name: "bound", scopes: ["runs:read", "runs:write"] as const, expiresAt: null, agentIds };
    bound = (await createApiKey(world.plane.stores, testRootKey, systemScope(tenant.id), input)).text;
    const [mine, others] = [await client.threads.create(), await client.threads.create()];
    await client.runs.wait(mine.thread_id, "echo", { input: { a: 1 } });
    // The thread began with the agent of the key, and then another one worked on it.
    await client.runs.wait(others.thread_id, "echo", { input: { a: 1 } });
    const foreign = await client.runs.create(others.thread_id, "asking", { input: {} });
    await client.runs.join(others.thread_id, foreign.run_id);
    const [run] = await client.runs.list(mine.thread_id);
    ids = {
      ...{ echo: agentIds[0] as string, mine: mine.thread_id, others: others.thread_id },
      ...{ run: run?.run_id as string, foreignRun: foreign.run_id },
    };
  });

  const status = async (path: string, body?: unknown) =>
    (
      await world.fetch(path, {
        key: bound,
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      })
    ).status;

  test("works with those agents and nothing of any other", async () => {
    const run = { input: {} };
    expect(await status("/runs/wait", { assistant_id: "echo", ...run })).toBe(200);
    expect(await status("/runs/wait", { assistant_id: "asking", ...run })).toBe(404);
    expect(await status(`/threads/${ids.mine}/runs/wait`, { assistant_id: "echo", ...run })).toBe(200);
    for (const path of ["", "/state", "/history", "/runs", `/runs/${ids.foreignRun}`])
      expect({ path, status: await status(`/threads/${ids.others}${path}`) }).toEqual({ path, status: 404 });
    for (const path of ["", "/state", "/history", "/runs", `/runs/${ids.run}`])
      expect({ path, status: await status(`/threads/${ids.mine}${path}`) }).toEqual({ path, status: 200 });
    expect(await status(`/threads/${ids.others}/runs/wait`, { assistant_id: "echo", ...run })).toBe(404);
    expect(await status("/runs/wait", { assistant_id: "echo", thread_id: ids.others, ...run })).toBe(404);
    expect(await status(`/runs/${ids.foreignRun}`)).toBe(404);
    expect(await status(`/runs/${ids.foreignRun}/cancel`, {})).toBe(404);
    expect(await status("/runs/cancel", { run_ids: [ids.foreignRun] })).toBe(404);
  });

  test("finds nothing of any other in lists", async () => {
    const client = world.client(bound);
    const assistants = await client.assistants.search();
    expect(assistants.map(({ assistant_id: id }) => id)).toEqual([ids.echo]);
    const threads = await client.threads.search({ limit: 100 });
    expect(threads.map(({ thread_id: id }) => id)).toEqual([ids.mine]);
    expect(await status("/assistants/asking")).toBe(404);
  });

  test("has no way into GraphQL, and no scope that is not about agents", async () => {
    expect((await ask(bound, "{ viewer { role } }")).status).toBe(401);
    const refused = `apiKeyCreate(input: {name: "k", scopes: [RUNS_READ, ADMIN_READ], agentIds: ["${ids.echo}"]})`;
    expect(await change(owner.key, refused)).toEqual({ code: "INVALID_INPUT", field: ["agentIds"] });
  });
});
