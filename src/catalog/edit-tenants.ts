import { DomainError, invalidInput } from "../domain/errors.js";
import type { TenantId } from "../domain/ids.js";
import { type Scope, systemScope } from "../domain/scope.js";
import { recordAuditIn } from "../governance/record-audit.js";
import { uuidv7 } from "../platform/random.js";
import type { Stores } from "../store/client.js";
import { insertTenant, type Tenant } from "../store/tenants.js";
import { withTenantTx } from "../store/tx.js";

/** Makes a tenant; the first record of its audit chain says so. `as` is who makes it. */
export async function createTenant(
  stores: Stores,
  input: { slug: string; name: string },
  as: (tenantId: TenantId) => Scope = systemScope,
): Promise<Tenant> {
  const { slug, name } = input;
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(slug))
    throw invalidInput("slug", "1 to 63 characters of a-z, 0-9 and -, starting with a letter or digit");
  if (name.length < 1 || name.length > 200) throw invalidInput("name", "1 to 200 characters");
  const id = uuidv7() as TenantId;
  const tenant = await withTenantTx(stores, as(id), async (tx) => {
    const made = await insertTenant(tx, slug, name);
    if (made)
      await recordAuditIn(tx, {
        action: "tenant.create",
        targetKind: "tenant",
        targetId: id,
        detail: { slug, name },
      });
    return made;
  });
  if (!tenant)
    throw new DomainError("VERSION_CONFLICT", `There is a tenant with the slug "${slug}" already.`, {
      field: "slug",
    });
  return tenant;
}
