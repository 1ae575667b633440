import { pino } from "pino";
import { createTenant } from "../../src/catalog/edit-tenants.js";
import { operatorTenantId, type TenantId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { createApiKey } from "../../src/governance/edit-api-keys.js";
import { createRunnerToken } from "../../src/governance/edit-runner-tokens.js";
import { openStores } from "../../src/store/client.js";

import { testRootKey } from "./world.js";

export interface TestTenant {
  readonly id: TenantId;
  readonly apiKey: string;
  /** For runners of kind `typescript` in the tenant's own pool. */
  readonly poolToken: string;
}

export interface TestTenants {
  readonly tenants: readonly TestTenant[];
  /** For runners of kind `typescript` in the shared pool. */
  readonly sharedToken: string;
}

/** Tenants with credentials, made by the verbs that make them for people. */
export async function makeTenants(appUrl: string, slugs: readonly string[], kind = "typescript"): Promise<TestTenants> {
  const stores = openStores(appUrl, appUrl, pino({ level: "silent" }));
  try {
    const token = async (id: TenantId): Promise<string> =>
      (await createRunnerToken(stores, testRootKey, systemScope(id), { name: "test", kind, expiresAt: null })).text;
    const tenants: TestTenant[] = [];
    for (const slug of slugs) {
      const { id } = await createTenant(stores, { slug, name: slug });
      const key = await createApiKey(stores, testRootKey, systemScope(id), {
        name: "test",
        scopes: ["runs:read", "runs:write"],
        expiresAt: null,
      });
      tenants.push({ id, apiKey: key.text, poolToken: await token(id) });
    }
    return { tenants, sharedToken: await token(operatorTenantId) };
  } finally {
    await stores.close();
  }
}
