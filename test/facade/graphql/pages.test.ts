import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiScopes } from "../../../src/domain/scope.js";
import { askGraphql } from "../../support/graphql.js";
import { withAdmin } from "../../support/template-database.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;
let admin: string;
/** Ids of all threads, newest first, as the database sorts them. */
let all: string[];

beforeAll(async () => {
  world = await startWorld();
  admin = await world.key(world.home, apiScopes);
  // Many within one millisecond, some within one microsecond: a cursor that carried a time would lose or double some.
  await withAdmin(world.database.adminUrl, async (client) => {
    for (let n = 0; n < 45; n++) {
      const at = `2026-01-01T00:00:00.0001${String(Math.floor(n / 3)).padStart(2, "0")}Z`;
      await client.query("insert into thread (tenant_id, id, created_at) values ($1, $2, $3)", [
        world.home.id,
        randomUUID(),
        at,
      ]);
    }
    const { rows } = await client.query<{ id: string }>("select id from thread order by created_at desc, id desc");
    all = rows.map(({ id }) => id);
  });
});
afterAll(() => world.stop());

interface Page {
  nodes: { uuid: string }[];
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string; endCursor: string };
}
async function page(args: string): Promise<Page> {
  const answer = await askGraphql(
    world.url,
    admin,
    `{ threads(${args}) { nodes { uuid } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`,
  );
  expect(answer.errors).toEqual([]);
  return answer.data.threads as Page;
}

test.each([1, 7, 45, 100])("pages of %i forward hold every row once, in order", async (size) => {
  const seen: string[] = [];
  for (let after = ""; ; ) {
    const { nodes, pageInfo } = await page(`first: ${size}${after}`);
    seen.push(...nodes.map(({ uuid }) => uuid));
    if (!pageInfo.hasNextPage) break;
    after = `, after: "${pageInfo.endCursor}"`;
  }
  expect(seen).toEqual(all);
});

test.each([7, 45])("pages of %i backward hold every row once, in order", async (size) => {
  const seen: string[] = [];
  for (let before = ""; ; ) {
    const { nodes, pageInfo } = await page(`last: ${size}${before}`);
    seen.unshift(...nodes.map(({ uuid }) => uuid));
    if (!pageInfo.hasPreviousPage) break;
    before = `, before: "${pageInfo.startCursor}"`;
  }
  expect(seen).toEqual(all);
});

test.each([
  ["first: 0", "first"],
  ["first: 101", "first"],
  ["first: 1, last: 1", "last"],
  ['after: "nonsense"', "after"],
  [`after: "${Buffer.from(`c:${randomUUID()}`).toString("base64url")}"`, "after"],
])("threads(%s) is refused with the field", async (args, field) => {
  const answer = await askGraphql(world.url, admin, `{ threads(${args}) { nodes { uuid } } }`);
  expect(answer.errors[0]).toMatchObject({ extensions: { code: "INVALID_INPUT", field } });
});

test("numbers beyond 2^53 arrive digit by digit (F072)", async () => {
  const client = world.client();
  const thread = await client.threads.create();
  const big = "9007199254740993";
  await withAdmin(world.database.adminUrl, async (owner) => {
    const agent = randomUUID();
    await owner.query(
      "insert into agent (tenant_id, id, graph_id, pool_id, kind, created_by, name) values ($1, $2, 'g', $1, 'k', 'user', 'n')",
      [world.home.id, agent],
    );
    await owner.query(
      `insert into run (tenant_id, id, thread_id, agent_id, graph_id, pool_id, kind, status, max_attempts, recovery, thread_head, queue_deadline, last_seq)
       values ($1, $2, $2, $3, 'g', $1, 'k', 'success', 1, 'fail', false, now(), $4)`,
      [world.home.id, thread.thread_id, agent, big],
    );
  });
  const answer = await askGraphql(world.url, admin, `{ run(id: "${thread.thread_id}") { lastSeq } }`);
  expect(answer.data.run.lastSeq).toBe(big);
});
