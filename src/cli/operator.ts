import { DomainError } from "../domain/errors.js";
import { operatorScope, type Scope } from "../domain/scope.js";
import type { AuditSigner } from "../governance/audit/sign-heads.js";
import { auditKeysOf } from "../governance/audit/signing-key.js";
import type { CredentialOffice } from "../governance/change-credentials.js";
import { createKeyring, type Keyring } from "../governance/secrets/envelope.js";
import { systemClock } from "../platform/clock.js";
import { type Config, readConfig } from "../platform/config.js";
import { publishOnRedis } from "../platform/live-redis.js";
import { createLog } from "../platform/log.js";
import { SetupError } from "../platform/setup-error.js";
import { openStores, type Stores } from "../store/client.js";
import { publishOnPostgres } from "../store/live-postgres.js";
import { findTenantByName, type Tenant } from "../store/tenants.js";

const tellMs = 2_000;

/** What the operator's commands work with: the stores of `fairlead serve`, from the same environment. */
export interface Operator {
  readonly stores: Stores;
  readonly office: CredentialOffice;
  readonly signer: AuditSigner;
  readonly keyring: Keyring;
  /** A tenant by slug or id, and the right to act in it. */
  inTenant(name: string): Promise<{ tenant: Tenant; scope: Scope }>;
}

export async function asOperator<Result>(work: (operator: Operator) => Promise<Result>): Promise<Result> {
  const config = readConfig(undefined, { logLevel: "silent" });
  const stores = openStores(config.databaseUrl, config.sweeperDatabaseUrl, createLog("silent"));
  const changed: Buffer[] = [];
  const office: CredentialOffice = {
    stores,
    rootKey: config.rootKey,
    clock: systemClock,
    changed: (publicId) => {
      changed.push(Buffer.from(publicId));
    },
  };
  try {
    const result = await work({
      stores,
      office,
      signer: { stores, clock: systemClock, ...auditKeysOf(config) },
      keyring: createKeyring(config.secretsKeys ?? [config.rootKey]),
      inTenant: async (name) => {
        const tenant = await findTenantByName(stores, name);
        if (!tenant) throw new DomainError("NOT_FOUND", `There is no tenant "${name}". See: fairlead tenants list`);
        return { tenant, scope: operatorScope(tenant.id) };
      },
    });
    if (changed.length > 0) await tell(config, stores, changed);
    return result;
  } catch (error) {
    throw explained(error);
  } finally {
    await stores.close();
  }
}

/** Running planes forget at once what they remember of these credentials. Those that do not hear it look again within their cache time. */
async function tell(config: Config, stores: Stores, publicIds: readonly Buffer[]): Promise<void> {
  const told = config.redisUrl
    ? publishOnRedis(config.redisUrl, "credential", publicIds, tellMs)
    : publishOnPostgres(stores.app, "credential", publicIds);
  await told.catch(() => {});
}

/** Without a database nothing works here, and the reason is worth more than "try again". */
function explained(error: unknown): unknown {
  const cause = error instanceof DomainError && error.code === "UNAVAILABLE" ? (error.cause ?? error) : error;
  const { code, message } = cause as { code?: string; message?: string };
  if (!/^(ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOST|28|3D|57)/.test(code ?? "")) return error;
  return new SetupError(`The database cannot be used: ${message || code}.`, "See: fairlead doctor", { cause });
}
