import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { apiScopes } from "../../../src/domain/scope.js";
import { askGraphql } from "../../support/graphql.js";
import { makeMember } from "../../support/members.js";
import { withAdmin } from "../../support/template-database.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
let admin: string;
beforeAll(async () => {
  world = await startWorld({ agents: { echo: async (run) => run.input } });
  admin = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());
afterEach(() =>
  withAdmin(world.database.adminUrl, (client) =>
    client.query("update halt set lifted_at = now(), lifted_by = 'test' where lifted_at is null"),
  ),
);

const answer = "{ halt { uuid version mode } affected { pending running } userErrors { code field message } }";
async function halt(input: string, key = admin) {
  const { data, errors } = await askGraphql(world.url, key, `mutation { haltCreate(input: {${input}}) ${answer} }`);
  expect(errors).toEqual([]);
  return data.haltCreate;
}
const run = () => world.client().runs.wait(null, "echo", { input: { a: 1 } });

test("a dry run counts and stops nothing", async () => {
  expect(await halt('scope: TENANT, mode: CANCEL, reason: "r", dryRun: true')).toEqual({
    halt: null,
    affected: { pending: 0, running: 0 },
    userErrors: [],
  });
  expect(await run()).toEqual({ a: 1 });
});

test("a bad halt is refused by the field's name, and stops nothing", async () => {
  for (const [field, input] of [
    ["reason", 'scope: TENANT, reason: " "'],
    ["reason", `scope: TENANT, reason: "${"x".repeat(1_001)}"`],
    ["agentId", 'scope: AGENT, reason: "r"'],
    ["agentId", `scope: TENANT, reason: "r", agentId: "${randomUUID()}"`],
    ["agentId", `scope: AGENT, reason: "r", agentId: "${randomUUID()}"`],
    ["kind", 'scope: KIND, reason: "r"'],
    ["kind", 'scope: KIND, reason: "r", kind: "a b"'],
    ["kind", 'scope: TENANT, reason: "r", kind: "k"'],
    ["expiresAt", 'scope: TENANT, reason: "r", expiresAt: "2020-01-01T00:00:00Z"'],
  ] as const) {
    const { halt: none, userErrors } = await halt(input);
    expect([input, none, userErrors.length, userErrors[0]?.field]).toEqual([input, null, 1, [field]]);
    expect(userErrors[0].message).toMatch(new RegExp(`^${field}: .{10,}`));
  }
  expect(await run()).toEqual({ a: 1 });
});

test("a repeated request makes one halt, another one under its key none; the SDK hears who stopped it, and not why", async () => {
  const input = 'scope: TENANT, reason: "a secret matter", idempotencyKey: "k-1"';
  const [first, second] = [await halt(input), await halt(input)];
  expect(second.halt.uuid).toBe(first.halt.uuid);
  const other = await halt('scope: TENANT, reason: "another", idempotencyKey: "k-1"');
  expect(other.userErrors[0].code).toBe("IDEMPOTENCY_MISMATCH");
  const refused = (await run().catch((error: unknown) => error)) as Error & { status: number };
  expect([refused.status, refused.message]).toEqual([403, expect.stringContaining("stopped here by an administrator")]);
  expect(refused.message).not.toContain("secret");
});

test("is lifted on the version that was seen, once, by who may; both acts are on record with reason and counts", async () => {
  const { halt: made } = await halt('scope: TENANT, reason: "drill"');
  const lift = (key: string, version: number) =>
    askGraphql(
      world.url,
      key,
      `mutation { haltLift(input: {id: "${made.uuid}", expectedVersion: ${version}}) { halt { version liftedAt viewerCan } userErrors { code } } }`,
    );
  const developer = await makeMember(world, world.home.id, "developer");
  const refused = await lift(developer.key, 1);
  expect(refused.errors[0]?.extensions?.code).toBe("FORBIDDEN");
  expect((await lift(admin, 7)).data.haltLift.userErrors).toEqual([{ code: "VERSION_CONFLICT" }]);
  const lifted = (await lift(admin, 1)).data.haltLift;
  expect(lifted).toMatchObject({ halt: { version: 2, viewerCan: ["HALTS_LIFT"] }, userErrors: [] });
  expect((await lift(admin, 1)).data.haltLift.halt).toEqual(lifted.halt);
  expect(await run()).toEqual({ a: 1 });
  const { data } = await askGraphql(
    world.url,
    admin,
    `{ auditEvents(first: 5, filter: {targetId: "${made.uuid}"}) { nodes { action detail } } }`,
  );
  expect(data.auditEvents.nodes).toMatchObject([
    { action: "halt.lift" },
    { action: "halt.create", detail: { reason: "drill", mode: "block", affected: { pending: 0, running: 0 } } },
  ]);
});
