import { createTenant } from "../catalog/edit-tenants.js";
import { DomainError } from "../domain/errors.js";
import { operatorTenantId, type TenantId } from "../domain/ids.js";
import { apiScopes, systemScope } from "../domain/scope.js";
import type { Authenticator } from "../governance/authenticate.js";
import { createApiKey } from "../governance/edit-api-keys.js";
import { createRunnerToken } from "../governance/edit-runner-tokens.js";
import type { Stores } from "../store/client.js";
import { findTenantByName } from "../store/tenants.js";
import type { DevTenant } from "./dev-file.js";

const SLUG = "demo";
/** The kind that the runner SDK says it is unless it is told otherwise. */
const RUNNER_KIND = "typescript";

export interface Seed {
  readonly stores: Stores;
  readonly authenticator: Authenticator;
  readonly rootKey: string;
}

/** The demo tenant with credentials that work. Those of an earlier start are kept as long as this database knows them. */
export async function seedDemoTenant(seed: Seed, known: DevTenant | undefined): Promise<DevTenant> {
  const id = (await findTenantByName(seed.stores, SLUG))?.id ?? (await createDemoTenant(seed));
  const kept = known?.id === id ? known : undefined;
  const scope = systemScope(id);
  const { stores, rootKey, authenticator } = seed;
  const apiKey = (name: string, scopes: Parameters<typeof createApiKey>[3]["scopes"]) => async () =>
    (await createApiKey(stores, rootKey, scope, { name, scopes, expiresAt: null })).text;
  return {
    id,
    slug: SLUG,
    adminKey: await keptOrNew(kept?.adminKey, authenticator.client, apiKey("dev admin", apiScopes)),
    apiKey: await keptOrNew(kept?.apiKey, authenticator.client, apiKey("dev", ["runs:read", "runs:write"])),
    // For the tenant's own pool, so that a runner of the user's own gets the runs of its agents and no others.
    runnerToken: await keptOrNew(kept?.runnerToken, authenticator.runner, () => createToken(seed, id)),
  };
}

/** For the operator's shared pool, whose agents every tenant sees. */
export function seedSampleToken(seed: Seed, known: string | undefined): Promise<string> {
  return keptOrNew(known, seed.authenticator.runner, () => createToken(seed, operatorTenantId));
}

async function createToken({ stores, rootKey }: Seed, pool: TenantId): Promise<string> {
  const token = { name: "dev", kind: RUNNER_KIND, expiresAt: null };
  return (await createRunnerToken(stores, rootKey, systemScope(pool), token)).text;
}

async function createDemoTenant({ stores }: Seed): Promise<TenantId> {
  try {
    return (await createTenant(stores, { slug: SLUG, name: "Demo" })).id;
  } catch (error) {
    // Another process on the same database was quicker.
    const tenant = await findTenantByName(stores, SLUG);
    if (!tenant) throw error;
    return tenant.id;
  }
}

async function keptOrNew(
  kept: string | undefined,
  check: (text: string) => Promise<unknown>,
  create: () => Promise<string>,
): Promise<string> {
  if (kept === undefined) return create();
  try {
    await check(kept);
    return kept;
  } catch (error) {
    if (error instanceof DomainError && error.code === "UNAUTHENTICATED") return create();
    throw error;
  }
}
