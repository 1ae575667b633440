import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { compose } from "../../../src/compose.js";
import { apiScopes } from "../../../src/domain/scope.js";
import { readConfig } from "../../../src/platform/config.js";
import { askGraphql, type GraphqlAnswer } from "../../support/graphql.js";
import { makeMember } from "../../support/members.js";
import { startWorld, testRootKey, type World } from "../../support/world.js";

let world: World;
let admin: string;
beforeAll(async () => {
  world = await startWorld();
  admin = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());

const canary = "canary-5512-never-said";
const answer = "{ secret { uuid name version versions { number state } viewerCan } userErrors { code field message } }";
const createDoc = `mutation ($input: SecretCreateInput!) { secretCreate(input: $input) ${answer} }`;
const putDoc = `mutation ($input: SecretPutVersionInput!) { secretPutVersion(input: $input) ${answer} }`;
const ask = (query: string, variables: Record<string, unknown> = {}, key = admin) =>
  askGraphql(world.url, key, query, variables);
const create = async (name: string, more: Record<string, unknown> = {}) => {
  const { data, errors } = await ask(createDoc, { input: { name, value: canary, ...more } });
  expect(errors).toEqual([]);
  return data.secretCreate;
};

test("a secret is made, given versions and moved between them; no answer says a value", async () => {
  const said: GraphqlAnswer[] = [];
  const { secret } = await create("API_KEY");
  expect(secret).toMatchObject({ name: "API_KEY", version: 2, versions: [{ number: 1, state: "ACTIVE" }] });
  expect(secret.viewerCan).toEqual(["SECRETS_WRITE"]);
  const id = secret.uuid as string;
  const put = await ask(putDoc, { input: { id, value: `${canary}-2`, expectedVersion: 2 } });
  const move = (field: string, number: number) =>
    ask(`mutation { ${field}(input: {id: "${id}", number: ${number}}) ${answer} }`);
  said.push(put, await move("secretActivateVersion", 2));
  expect(said[1]?.data.secretActivateVersion.secret.versions).toEqual([
    { number: 2, state: "ACTIVE" },
    { number: 1, state: "DEPRECATED" },
  ]);
  said.push(await move("secretDeprecateVersion", 2), await move("secretDestroyVersion", 1));
  said.push(await move("secretActivateVersion", 1));
  expect(said[4]?.data.secretActivateVersion.userErrors).toMatchObject([{ code: "INVALID_INPUT", field: ["number"] }]);
  said.push(await ask(putDoc, { input: { id, value: canary, expectedVersion: 1 } }));
  expect(said[5]?.data.secretPutVersion.userErrors).toMatchObject([{ code: "VERSION_CONFLICT" }]);
  said.push(await ask(`mutation { secretDelete(input: {id: "${id}"}) ${answer} }`));
  said.push(
    await ask(
      "{ secrets(first: 9) { nodes { name versions { number state } } } auditEvents(first: 50) { nodes { action detail } } }",
    ),
  );
  expect(said[7]?.data.secrets.nodes).toEqual([]);
  expect(said[7]?.data.auditEvents.nodes[0]).toMatchObject({ action: "secret.delete", detail: { name: "API_KEY" } });
  expect(JSON.stringify(said)).not.toContain("canary");
});

test("a repeated request makes one secret; another value under its key, or the name again, is refused", async () => {
  const once = { idempotencyKey: "k-1" };
  const [first, second] = [await create("ONCE", once), await create("ONCE", once)];
  expect(second.secret.uuid).toBe(first.secret.uuid);
  const other = await create("ONCE", { ...once, value: `${canary}!` });
  expect(other.userErrors).toMatchObject([{ code: "IDEMPOTENCY_MISMATCH" }]);
  expect((await create("ONCE")).userErrors).toMatchObject([{ code: "SECRET_EXISTS", field: ["name"] }]);
});

test("who may not change secrets sees their names, or nothing", async () => {
  const developer = await makeMember(world, world.home.id, "developer");
  const viewer = await makeMember(world, world.home.id, "viewer");
  const refused = await ask(createDoc, { input: { name: "MINE", value: canary } }, developer.key);
  expect(refused.errors[0]?.extensions?.code).toBe("FORBIDDEN");
  expect((await ask("{ secrets(first: 1) { nodes { viewerCan } } }", {}, developer.key)).errors).toEqual([]);
  const unseen = await ask("{ secrets(first: 1) { nodes { name } } }", {}, viewer.key);
  expect(unseen.errors[0]?.extensions?.code).toBe("FORBIDDEN");
});

test("neither an error nor the log quotes a value, whatever is wrong with the request", async () => {
  const lines: string[] = [];
  const log = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
  const { appUrl, sweeperUrl } = world.database;
  const config = readConfig(
    {},
    {
      ...{ databaseUrl: appUrl, sweeperDatabaseUrl: sweeperUrl, rootKey: testRootKey, roles: ["api"], port: 0 },
      ...{ grpcPort: 0, logLevel: "trace", limits: {} },
    },
  );
  log.info("what is logged is caught here");
  const other = await compose(config, log);
  try {
    const url = other.http?.url as string;
    const inputs: unknown[] = [
      { name: "A", value: [canary] },
      { name: "A", value: { canary } },
      { name: "A", value: canary, valeu: canary },
      { name: [canary, canary], value: canary },
      { value: canary },
      canary,
      { name: "A B", value: canary },
      { name: "A", value: "canar" },
    ];
    const queries: [string, Record<string, unknown>][] = [
      ...inputs.map((input): [string, Record<string, unknown>] => [createDoc, { input }]),
      [`mutation ($v: Int!) { secretCreate(input: {name: "A", value: $v}) ${answer} }`, { v: canary }],
      [
        `mutation ($v: [Int!]!) { secretPutVersion(input: {id: "a", value: "${canary}", n: $v}) ${answer} }`,
        { v: canary },
      ],
      [`mutation { secretCreate(input: {name: "A", value: ["${canary}"]}) ${answer} }`, {}],
      [`mutation { secretCreate(input: {name: "A", value: "x" "${canary}"}) ${answer} }`, {}],
      [`mutation { secretCreate(input: {name: "A", value: "${canary}) ${answer} }`, {}],
    ];
    for (const [query, variables] of queries) {
      const { data, errors } = await askGraphql(url, admin, query, variables);
      const refused = errors[0]?.message ?? data?.secretCreate?.userErrors[0]?.message;
      expect(refused).toMatch(/.{10,}/);
      expect(JSON.stringify([data, errors])).not.toContain("canar");
    }
    const body = `{"query": "mutation { secretCreate", "variables": ${canary}}`;
    const broken = await fetch(`${url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": admin },
      body,
    });
    expect(await broken.text()).not.toContain("canar");
  } finally {
    await other.stop();
  }
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.join("")).not.toContain("canar");
});
