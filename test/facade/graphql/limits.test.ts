import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiScopes } from "../../../src/domain/scope.js";
import { forged } from "../../support/forged.js";
import { askGraphql, type GraphqlAnswer } from "../../support/graphql.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
let admin: string;
const ask = (query: string, variables = {}, key: string | null = admin): Promise<GraphqlAnswer> =>
  askGraphql(world.url, key, query, variables);

beforeAll(async () => {
  world = await startWorld();
  admin = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());

const post = (body: string, headers: Record<string, string> = { "content-type": "application/json" }) =>
  fetch(`${world.url}/graphql`, { method: "POST", headers: { "x-api-key": admin, ...headers }, body });

/** Selections within each other, `depth` deep in all. */
function nested(depth: number): string {
  let query = "id";
  for (let left = depth - 1; left > 1; left -= 2) query = `runs(first: 1) { nodes { thread { ${query} } } }`;
  return query;
}

describe("before anything is executed", () => {
  test("a query that is too deep is refused, also through fragments", async () => {
    const deep = `{ threads(first: 1) { nodes { ${nested(20)} } } }`;
    expect((await ask(deep)).errors[0]?.message).toMatch(/depth/i);
    const hidden = `{ threads(first: 1) { nodes { ...a } } } fragment a on Thread { ${nested(20)} }`;
    expect((await ask(hidden)).errors[0]?.message).toMatch(/depth/i);
    const shallow = "{ threads(first: 1) { nodes { runs(first: 1) { nodes { agent { id } } } } } }";
    expect((await ask(shallow)).errors).toEqual([]);
  });

  test("more than 30 aliases are refused, 30 are not", async () => {
    const aliases = (count: number) =>
      `{ ${Array.from({ length: count }, (_, n) => `a${n}: viewer { apiKeyId }`).join(" ")} }`;
    expect((await ask(aliases(31))).errors[0]?.message).toMatch(/alias/i);
    expect((await ask(aliases(30))).errors).toEqual([]);
  });

  test("rows times fields above the limit are refused, with variables as well", async () => {
    const query = "query ($n: Int) { runs(first: $n) { nodes { steps(first: $n) { nodes { name } } } } }";
    const dear = await ask(query, { n: 100 });
    expect(dear.data).toBeNull();
    expect(dear.errors[0]).toMatchObject({ extensions: { code: "INVALID_INPUT" } });
    expect(dear.errors[0]?.message).toMatch(/costs \d+, more than 10000/);
    expect((await ask(query, { n: 10 })).errors).toEqual([]);
  });

  test("a body above 256 KiB is refused", async () => {
    const query = "{ viewer { apiKeyId } }";
    const response = await post(JSON.stringify({ query, variables: { x: "y".repeat(257 * 1024) } }));
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({ errors: [{ extensions: { code: "BODY_TOO_LARGE" } }] });
    expect((await post(JSON.stringify({ query, variables: { x: "y".repeat(200 * 1024) } }))).status).toBe(200);
  });

  test("an array of operations is refused", async () => {
    const response = await post(JSON.stringify([{ query: "{ viewer { apiKeyId } }" }]));
    expect(response.status).toBe(400);
    expect(await response.json()).toHaveProperty("errors");
  });

  test.each(["{", "[", "null", "5", '"text"', "{}", '{"query": 5}', '{"query": "{"}'])(
    "the body %s gets an error and the process lives",
    async (body) => {
      const response = await post(body);
      expect(response.status).toBeLessThan(500);
      expect(((await response.json()) as { errors: unknown[] }).errors.length).toBeGreaterThan(0);
      expect((await ask("{ viewer { apiKeyId } }")).errors).toEqual([]);
    },
  );

  test("a form of another site is not a request", async () => {
    const form = await post("query=%7Bviewer%7BapiKeyId%7D%7D", { "content-type": "text/plain" });
    expect(form.status).toBeGreaterThanOrEqual(400);
    const mutation = encodeURIComponent('mutation { runCancel(input: {id: "x"}) { run { id } } }');
    const get = await fetch(`${world.url}/graphql?query=${mutation}`, { headers: { "x-api-key": admin } });
    expect(get.status).toBe(405);
  });
});

describe("who may ask", () => {
  test("nobody without a valid key, with one answer for every reason", async () => {
    for (const key of [null, "nonsense", forged(admin), await world.runnerToken()]) {
      const answer = await ask("{ viewer { apiKeyId } }", {}, key);
      expect(answer.status).toBe(401);
      expect(answer.data).toBeNull();
      expect(answer.errors[0]?.extensions?.code).toBe("UNAUTHENTICATED");
    }
  });

  test("a key works as a bearer token too", async () => {
    const response = await fetch(`${world.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${admin}` },
      body: JSON.stringify({ query: "{ viewer { scopes } }" }),
    });
    expect(await response.json()).toEqual({
      data: { viewer: { scopes: ["RUNS_READ", "RUNS_WRITE", "ADMIN_READ", "ADMIN_WRITE"] } },
    });
  });

  test("the schema is told to those with admin:read only, and no name is suggested to anybody", async () => {
    const query = "{ __schema { types { name } } }";
    expect((await ask(query)).data.__schema.types.length).toBeGreaterThan(50);
    const refused = await ask(query, {}, world.home.key);
    expect(refused.data).toBeNull();
    expect(refused.errors[0]).toMatchObject({ extensions: { code: "FORBIDDEN" } });
    expect((await ask("{ viewer { scope } }")).errors[0]?.message).not.toMatch(/did you mean/i);
  });

  test("no page of a tool is served to browsers", async () => {
    const page = await fetch(`${world.url}/graphql`, { headers: { accept: "text/html", "x-api-key": admin } });
    expect(await page.text()).not.toMatch(/<html/i);
  });
});
