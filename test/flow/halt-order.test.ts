import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { systemScope } from "../../src/domain/scope.js";
import { createHalt } from "../../src/governance/edit-halts.js";
import { rawRunner } from "../support/raw-runner.js";
import { withAdmin } from "../support/template-database.js";
import { until } from "../support/until.js";
import { startWorld, type World } from "../support/world.js";

// A halt and a create or claim that meet in the same moment: one of the two waits for the other, and sees it.

let world: World;
let other: pg.Client;
beforeAll(async () => {
  world = await startWorld({ agents: { echo: async (run) => run.input } });
});
afterAll(() => world.stop());
beforeEach(async () => {
  other = new pg.Client(world.database.appUrl);
  await other.connect();
  await other.query(`begin; select set_config('app.tenants', '{${world.home.id}}', true)`);
});
afterEach(async () => {
  await other.end();
  await withAdmin(world.database.adminUrl, (admin) =>
    admin.query("update halt set lifted_at = now(), lifted_by = 'test'"),
  );
});

const someoneWaits = () =>
  until("somebody waits", async () => {
    const { rows } = await withAdmin(world.database.adminUrl, (admin) =>
      admin.query(
        "select 1 from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())",
      ),
    );
    return rows.length > 0;
  });
const create = (graph = "echo") =>
  world.fetch("/runs", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: graph, input: {}, on_completion: "keep" }),
  });
const halt = () =>
  createHalt(
    world.plane.stores,
    systemScope(world.home.id),
    { scope: "tenant", agentId: null, kind: null, mode: "block", reason: "test", expiresAt: null },
    null,
    false,
  );
/** What a halt's transaction has done right before its commit. */
async function haltUncommitted(): Promise<void> {
  await other.query("select pg_advisory_xact_lock(halt_key_v1($1))", [world.home.id]);
  await other.query(
    "insert into halt (tenant_id, id, scope, mode, reason, created_by) values ($1, $2, 'tenant', 'block', 'test', 'test')",
    [world.home.id, randomUUID()],
  );
}

test("a halt waits for a create or claim that has looked already, and counts what that made", async () => {
  await other.query("select halt_gate_v1($1)", [`{${world.home.id}}`]);
  let isSet = false;
  const setting = halt().then((made) => {
    isSet = true;
    return made;
  });
  await someoneWaits();
  expect(isSet).toBe(false);
  await other.query("commit");
  expect((await setting).id).not.toBeNull();
  expect((await create()).status).toBe(403);
});

test("a create that meets a halt before its commit waits, and is refused", async () => {
  await haltUncommitted();
  const answer = create();
  await someoneWaits();
  await other.query("commit");
  const refused = await answer;
  expect([refused.status, await refused.json()]).toMatchObject([403, { code: "HALTED" }]);
});

test("a claim that meets a halt before its commit waits, and gets nothing", async () => {
  const runner = rawRunner({ address: world.grpcAddress, token: await world.runnerToken(), graphs: ["raw"] });
  await runner.getJob({ waitMs: 0 });
  expect((await create("raw")).status).toBe(200);
  await haltUncommitted();
  const job = runner.getJob({ waitMs: 0 });
  await someoneWaits();
  await other.query("commit");
  expect((await job).assignments).toEqual([]);
  await withAdmin(world.database.adminUrl, (admin) =>
    admin.query("update halt set lifted_at = now(), lifted_by = 'test'"),
  );
  expect((await runner.take()).graphId).toBe("raw");
  runner.close();
});
