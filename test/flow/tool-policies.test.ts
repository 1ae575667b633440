import { createHash, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { operatorTenantId, type RunId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import type { ToolPolicyContent, ToolRule } from "../../src/domain/tool-rules.js";
import type { Assignment, PolicyAsk, RunRef } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { createToolGate } from "../../src/governance/tool-policy/ask.js";
import {
  draftToolPolicy,
  publishToolPolicy,
  registerTool,
  restoreToolPolicy,
} from "../../src/governance/tool-policy/edit.js";
import { systemClock } from "../../src/platform/clock.js";
import { createLog } from "../../src/platform/log.js";
import { openStores } from "../../src/store/client.js";
import { createToolDecisions, type DecisionItem } from "../../src/store/tool-decisions.js";
import { type RawRunner, type RawStream, rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { startWorld, type TestTenant, type World } from "../support/world.js";

// A runner asks before it calls a tool. The runner here has no manners: what it is refused, the plane refuses.

let world: World;
let runner: RawRunner;
let stream: RawStream;
const ends: (() => void)[] = [];
const schemaDigest = createHash("sha256").update("{}").digest();

beforeAll(async () => {
  world = await startWorld();
  runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken(), graphs: ["raw"] });
  await runner.getJob({ waitMs: 0 });
  stream = runner.events();
});
afterAll(async () => {
  for (const end of ends) end();
  runner.close();
  await world.stop();
});

/** A run of the tenant that the runner holds until the file is over. */
async function hold(tenant: TestTenant): Promise<Assignment & { run: RunRef }> {
  await world.client(tenant.key).runs.create(null, "raw", { input: {} });
  const assignment = (await runner.take()) as Assignment & { run: RunRef };
  ends.push(await runner.keepAlive(assignment.run));
  return assignment;
}

const ask = (run: RunRef, tool: string, json = "{}", more: Partial<PolicyAsk> = {}): PolicyAsk => ({
  ...{ run, askId: randomUUID(), tool, schemaDigest, arguments: Buffer.from(json) },
  ...more,
});
async function one(what: PolicyAsk, over = stream) {
  const [decision] = await over.ask(what);
  if (!decision) throw new TypeError("no decision came");
  return decision;
}
const allowed = async (run: RunRef, tool: string, json = "{}") => (await one(ask(run, tool, json))).allowed;

const rule = (id: string, more: Partial<ToolRule> = {}): ToolRule => ({
  ...{ id, effect: "allow", tools: [{ server: "runner", name: "*" }], agents: null, users: null },
  ...{ conditions: [], expiresAtMs: null },
  ...more,
});
const content = (...rules: ToolRule[]): ToolPolicyContent => ({ rules, cedar: "", tests: [] });
const deny = (name: string): ToolRule => rule(`no-${name}`, { effect: "deny", tools: [{ server: "runner", name }] });

async function publish(tenant: TestTenant, expectedVersion: number, what: ToolPolicyContent): Promise<string> {
  const scope = systemScope(tenant.id);
  const id = await draftToolPolicy(world.plane.tools, scope, { name: "p", content: what }, null);
  await publishToolPolicy(world.plane.tools, scope, { id, expectedVersion });
  return id;
}
const register = (tenant: TestTenant, agentId: string, name: string) =>
  registerTool(world.plane.tools, systemScope(tenant.id), {
    ...{ agentId, server: "runner", name, schemaDigest: schemaDigest.toString("hex") },
  });

async function decisions(tenant: TestTenant) {
  const { rows } = await withAdmin(world.database.adminUrl, (client) =>
    client.query<{ tool: string; allowed: boolean; reason: string; explanation: string; policy_number: number | null }>(
      "select tool, allowed, reason, explanation, policy_number from tool_decision where tenant_id = $1 order by created_at, id",
      [tenant.id],
    ),
  );
  return rows;
}

test("a tenant without a policy governs nothing, visibly: calls are allowed and recorded, and tools become known", async () => {
  const tenant = await world.tenant();
  const { run } = await hold(tenant);
  expect(await one(ask(run, "read", '{ "b": 1e3, "a": 2 }'))).toMatchObject({
    ...{ allowed: true, message: "", arguments: Buffer.from('{"a":2,"b":1000}') },
  });
  const [decision] = await decisions(tenant);
  expect(decision).toMatchObject({ tool: "read", allowed: true, reason: "no_policy", policy_number: null });
  await publish(tenant, 0, content(rule("all")));
  expect(await allowed(run, "read")).toBe(true);
  expect(await allowed(run, "other")).toBe(false);
});

describe("where delete_repo is denied and everything else is allowed", () => {
  let tenant: TestTenant;
  let run: RunRef;
  beforeAll(async () => {
    tenant = await world.tenant();
    const assignment = await hold(tenant);
    run = assignment.run;
    for (const name of ["delete_repo", "read"]) await register(tenant, assignment.agentId, name);
    await publish(tenant, 0, content(rule("all"), deny("delete_repo")));
  });

  test.each([
    ["itself", "delete_repo"],
    ["another case", "Delete_Repo"],
    ["a space behind it", "delete_repo "],
    ["a character of no width", "delete\u200b_repo"],
    ["a Cyrillic letter", "d\u0435lete_repo"],
    ["a full-width letter", "\uff44elete_repo"],
    ["a null character", "delete_repo\u0000"],
    ["a percent code", "delete%5frepo"],
    ["a server in front of it", "runner/delete_repo"],
    ["nothing", ""],
  ])("%s is denied, in the same words", async (_what, name) => {
    const { allowed, message, arguments: args } = await one(ask(run, name));
    expect({ allowed, message, args: args.length }).toEqual({
      ...{ allowed: false, message: "This tool is not available for this call.", args: 0 },
    });
  });

  test("arguments that two parsers could read differently are denied", async () => {
    for (const json of ['{"a":1,"a":2}', '{"__proto__":{}}', '{"a":9007199254740993}', "[]", "", '{"a":"\\ud800"}'])
      expect([json, await allowed(run, "read", json)]).toEqual([json, false]);
  });

  test("a tool whose schema changed is denied until somebody accepts the change", async () => {
    expect((await one(ask(run, "read", "{}", { schemaDigest: Buffer.alloc(32, 7) }))).allowed).toBe(false);
    expect(await allowed(run, "read")).toBe(true);
  });

  test("each decision is explained and names the version", async () => {
    const all = await decisions(tenant);
    expect(all.find(({ tool }) => tool === "delete_repo")).toMatchObject({
      ...{ reason: "rule", policy_number: 1, explanation: 'Denied: rule "no-delete_repo" denies this call.' },
    });
    expect(new Set(all.map(({ reason }) => reason))).toEqual(
      new Set(["rule", "tool_unknown", "arguments_invalid", "tool_changed"]),
    );
  });
});

test("a version that is published between two asks holds for the second, at a plane that has not heard of it", async () => {
  const tenant = await world.tenant();
  const { run, agentId } = await hold(tenant);
  await register(tenant, agentId, "read");
  const first = await publish(tenant, 0, content(rule("all")));
  expect(await allowed(run, "read")).toBe(true);
  // Another process, with stores and memory of its own, publishes.
  const stores = openStores(world.database.appUrl, world.database.sweeperUrl, createLog("silent"));
  const elsewhere = createToolGate(stores, createToolDecisions(stores), systemClock);
  const scope = systemScope(tenant.id);
  try {
    const id = await draftToolPolicy(
      elsewhere,
      scope,
      { name: "strict", content: content(rule("all"), deny("read")) },
      null,
    );
    expect(await publishToolPolicy(elsewhere, scope, { id, expectedVersion: 1, dryRun: true })).toBe(2);
    expect(await allowed(run, "read")).toBe(true);
    await publishToolPolicy(elsewhere, scope, { id, expectedVersion: 1 });
    expect(await allowed(run, "read")).toBe(false);
    await expect(publishToolPolicy(elsewhere, scope, { id, expectedVersion: 1 })).rejects.toThrow(
      /version 2 is in force/,
    );
    await restoreToolPolicy(elsewhere, scope, { id: first, expectedVersion: 2 });
    expect(await allowed(run, "read")).toBe(true);
  } finally {
    await stores.close();
  }
  expect((await decisions(tenant)).map(({ policy_number }) => policy_number)).toEqual([1, 1, 2, 3]);
});

test("the same ask gets the same answer, and its name stands for nothing else", async () => {
  const tenant = await world.tenant();
  const { run } = await hold(tenant);
  const asked = ask(run, "read", '{"a":1}');
  const answers = await Promise.all([
    one(asked),
    one({ ...asked, arguments: Buffer.from('{ "a": 1.0 }') }),
    one(asked),
  ]);
  expect(new Set(answers.map(({ decisionId }) => decisionId)).size).toBe(1);
  expect(answers.map((answer) => answer.allowed)).toEqual([true, true, true]);
  expect((await one({ ...asked, arguments: Buffer.from('{"a":2}') })).allowed).toBe(false);
  expect((await one({ ...asked, tool: "write" })).allowed).toBe(false);
  expect(await decisions(tenant)).toHaveLength(1);
});

test("who does not hold a run gets nothing for it, and leaves nothing: another tenant, another run, another fence, another pool", async () => {
  const [mine, theirs] = [await world.tenant(), await world.tenant()];
  const [{ run }, other] = [await hold(mine), await hold(theirs)];
  const stranger = rawRunner({ address: world.grpcAddress, token: await world.runnerToken("other"), kind: "other" });
  const strangers = stranger.events();
  const wrong: [PolicyAsk, RawStream][] = [
    [ask({ ...run, tenantId: theirs.id }, "read"), stream],
    [ask({ ...run, runId: other.run.runId }, "read"), stream],
    [ask({ ...run, runId: randomUUID() }, "read"), stream],
    [ask({ ...run, generation: run.generation + 1 }, "read"), stream],
    [ask({ ...run, generation: 0 }, "read"), stream],
    [ask(run, "read"), strangers],
  ];
  for (const [what, over] of wrong)
    expect(await one(what, over)).toMatchObject({ allowed: false, decisionId: "", arguments: Buffer.alloc(0) });
  expect([await decisions(mine), await decisions(theirs)]).toEqual([[], []]);
  await runner.report({ run, events: 0 });
  expect((await one(ask(run, "read"))).allowed).toBe(false);
  expect(await decisions(mine)).toEqual([]);
  strangers.call.cancel();
  stranger.close();
});

test("a decision that cannot be recorded is not told: the ask is denied", async () => {
  const tenant = await world.tenant();
  const { run } = await hold(tenant);
  await withAdmin(world.database.adminUrl, (client) =>
    client.query("alter table tool_decision add constraint closed check (tool <> 'unrecorded') not valid"),
  );
  expect((await one(ask(run, "unrecorded"))).allowed).toBe(false);
  expect(await allowed(run, "recorded")).toBe(true);
  expect((await decisions(tenant)).map(({ tool }) => tool)).toEqual(["recorded"]);
});

test("an ask on a stream that is cut gets no answer", async () => {
  const { run } = await hold(await world.tenant());
  const cut = runner.events();
  await one(ask(run, "read"), cut);
  const late = cut.ask(ask(run, "read"));
  cut.call.cancel();
  await expect(late).rejects.toThrow("the stream ended");
});

test("a decision is recorded only under the fence, the version and the pin that it was made for", async () => {
  const tenant = await world.tenant();
  const { run, agentId } = await hold(tenant);
  await register(tenant, agentId, "read");
  await publish(tenant, 0, content(rule("all")));
  const hex = schemaDigest.toString("hex");
  const record = async (more: Partial<DecisionItem>) =>
    (
      await world.plane.tools.decisions.record({
        ...{ tenantId: tenant.id, runId: run.runId as RunId, fence: run.generation },
        queue: { poolId: operatorTenantId, kind: "typescript" },
        ...{
          id: randomUUID(),
          askId: randomUUID(),
          tool: "read",
          user: "system",
          schemaDigest: hex,
          argumentsDigest: hex,
        },
        ...{ allowed: true, reason: "rule", rules: ["all"], explanation: "", policyNumber: 1, pinned: hex, micros: 1 },
        ...more,
      })
    ).outcome;
  expect(await record({ fence: run.generation + 1 })).toBe("superseded");
  expect(await record({ queue: { poolId: tenant.id, kind: "typescript" } })).toBe("superseded");
  expect(await record({ policyNumber: null })).toBe("stale");
  expect(await record({ pinned: null })).toBe("stale");
  expect(await decisions(tenant)).toEqual([]);
  expect(await record({})).toBe("recorded");
});

test("a run whose tenant is halted with what is open of it calls no tools, and the record says why", async () => {
  const tenant = await world.tenant();
  const { run } = await hold(tenant);
  expect(await allowed(run, "read")).toBe(true);
  await withAdmin(world.database.adminUrl, (client) =>
    client.query(
      "insert into halt (tenant_id, id, scope, mode, reason, created_by) values ($1, $2, 'tenant', 'cancel', 'r', 'test')",
      [tenant.id, randomUUID()],
    ),
  );
  expect(await allowed(run, "read")).toBe(false);
  expect((await decisions(tenant)).map(({ reason }) => reason)).toEqual(["no_policy", "halted"]);
});
