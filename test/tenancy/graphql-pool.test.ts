import { afterAll, beforeAll, expect, test } from "vitest";
import type { TenantId } from "../../src/domain/ids.js";
import { apiScopes, systemScope } from "../../src/domain/scope.js";
import { createLog } from "../../src/platform/log.js";
import { openGraphqlReads } from "../../src/store/graphql-reads.js";
import { askGraphql } from "../support/graphql.js";
import { startWorld, type TestTenant, type World } from "../support/world.js";

let world: World;
let tenants: TestTenant[];
let keys: string[];
beforeAll(async () => {
  world = await startWorld();
  tenants = [world.home, await world.tenant(), await world.tenant()];
  keys = await Promise.all(tenants.map((tenant) => world.key(tenant, apiScopes)));
});
afterAll(() => world.stop());

test("tenants that take turns on one pooled connection see their own rows only (F066)", async () => {
  const reads = openGraphqlReads(world.database.appUrl, createLog("silent"), 1);
  try {
    const look = async (tenant: TenantId): Promise<string[]> => {
      const operation = reads.open(systemScope(tenant));
      const rows = await operation.client.apiKey.findMany({ select: { tenantId: true } });
      await operation.close();
      return rows.map(({ tenantId }) => tenantId);
    };
    for (let turn = 0; turn < 30; turn++) {
      const tenant = tenants[turn % tenants.length] as TestTenant;
      const seen = await look(tenant.id);
      expect(seen.length).toBeGreaterThan(0);
      expect(new Set(seen)).toEqual(new Set([tenant.id]));
    }
    const together = await Promise.all(Array.from({ length: 12 }, (_, n) => look((tenants[n % 3] as TestTenant).id)));
    together.forEach((seen, n) => {
      expect(new Set(seen)).toEqual(new Set([(tenants[n % 3] as TestTenant).id]));
    });
  } finally {
    await reads.close();
  }
});

test("what failed half-way leaves no tenant on the connection (F066)", async () => {
  const reads = openGraphqlReads(world.database.appUrl, createLog("silent"), 1);
  try {
    const broken = reads.open(systemScope((tenants[0] as TestTenant).id));
    await expect(broken.query("select 1 / 0", [])).rejects.toThrow(/division by zero/);
    await broken.close().catch(() => {});
    const other = reads.open(systemScope((tenants[1] as TestTenant).id));
    const rows = await other.query<{ tenant_id: string }>("select distinct tenant_id::text from api_key", []);
    expect(rows).toEqual([{ tenant_id: (tenants[1] as TestTenant).id }]);
    await other.close();
  } finally {
    await reads.close();
  }
});

test("a reading transaction cannot write, whatever it is asked", async () => {
  const reads = openGraphqlReads(world.database.appUrl, createLog("silent"), 1);
  try {
    const operation = reads.open(systemScope((tenants[0] as TestTenant).id));
    await expect(operation.client.apiKey.updateMany({ data: { name: "stolen" } })).rejects.toThrow(/read-only/);
    await operation.close().catch(() => {});
  } finally {
    await reads.close();
  }
});

test("a hundred interleaved requests of three tenants over HTTP never mix, and leave no transaction open", async () => {
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      askGraphql(
        world.url,
        keys[n % 3] as string,
        "{ viewer { tenant { slug } } apiKeys { nodes { createdBy name } } tenant { id } }",
      ),
    ),
  );
  const slugs = ["tenant-1", "tenant-2", "tenant-3"];
  answers.forEach(({ data, errors }, n) => {
    expect(errors).toEqual([]);
    expect(data.viewer.tenant.slug).toBe(slugs[n % 3]);
  });
  await expect
    .poll(async () => {
      const { rows } = await world.plane.stores.app.query<{ open: number }>(
        "select count(*)::int as open from pg_stat_activity where application_name = 'fairlead graphql' and datname = current_database() and state like 'idle in transaction%'",
      );
      return rows[0]?.open;
    })
    .toBe(0);
});
