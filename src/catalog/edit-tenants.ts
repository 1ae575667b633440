import { DomainError, invalidInput } from "../domain/errors.js";
import type { Stores } from "../store/client.js";
import { insertTenant, type Tenant } from "../store/tenants.js";

export async function createTenant(stores: Stores, input: { slug: string; name: string }): Promise<Tenant> {
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(input.slug))
    throw invalidInput("slug", "1 to 63 characters of a-z, 0-9 and -, starting with a letter or digit");
  if (input.name.length < 1 || input.name.length > 200) throw invalidInput("name", "1 to 200 characters");
  const tenant = await insertTenant(stores, input.slug, input.name);
  if (!tenant)
    throw new DomainError("VERSION_CONFLICT", `There is a tenant with the slug "${input.slug}" already.`, {
      field: "slug",
    });
  return tenant;
}
