import { DomainError } from "../domain/errors.js";
import { operatorScope, type Scope } from "../domain/scope.js";
import type { CredentialOffice } from "../governance/change-credentials.js";
import { systemClock } from "../platform/clock.js";
import { readConfig } from "../platform/config.js";
import { createLog } from "../platform/log.js";
import { SetupError } from "../platform/setup-error.js";
import { openStores, type Stores } from "../store/client.js";
import { findTenantByName, type Tenant } from "../store/tenants.js";

/** What the operator's commands work with: the stores of `fairlead serve`, from the same environment. */
export interface Operator {
  readonly stores: Stores;
  readonly office: CredentialOffice;
  /** A tenant by slug or id, and the right to act in it. */
  inTenant(name: string): Promise<{ tenant: Tenant; scope: Scope }>;
}

export async function asOperator<Result>(work: (operator: Operator) => Promise<Result>): Promise<Result> {
  const config = readConfig(undefined, { logLevel: "silent" });
  const stores = openStores(config.databaseUrl, config.sweeperDatabaseUrl, createLog("silent"));
  const office: CredentialOffice = {
    stores,
    rootKey: config.rootKey,
    clock: systemClock,
    // A running plane looks every credential up again within its cache time; a command does not stay to tell it.
    changed: () => {},
  };
  try {
    return await work({
      stores,
      office,
      inTenant: async (name) => {
        const tenant = await findTenantByName(stores, name);
        if (!tenant) throw new DomainError("NOT_FOUND", `There is no tenant "${name}". See: fairlead tenants list`);
        return { tenant, scope: operatorScope(tenant.id) };
      },
    });
  } catch (error) {
    throw explained(error);
  } finally {
    await stores.close();
  }
}

/** Without a database nothing works here, and the reason is worth more than "try again". */
function explained(error: unknown): unknown {
  const cause = error instanceof DomainError && error.code === "UNAVAILABLE" ? (error.cause ?? error) : error;
  const { code, message } = cause as { code?: string; message?: string };
  if (!/^(ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOST|28|3D|57)/.test(code ?? "")) return error;
  return new SetupError(`The database cannot be used: ${message || code}.`, "See: fairlead doctor", { cause });
}
