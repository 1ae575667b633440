import { isUuid } from "../domain/ids.js";
import type { GraphqlContext } from "./context.js";

/** No row has it. */
export const nilUuid = "00000000-0000-0000-0000-000000000000";

/** The UUID in an id of this type, or the UUID itself, as the Agent Protocol shows it. The nil UUID for everything else, which is as good as unknown. */
export function uuidOf(type: string, id: string): string {
  if (isUuid(id)) return id.toLowerCase();
  const [name, local, ...rest] = Buffer.from(id, "base64").toString("utf8").split(":");
  return name === type && rest.length === 0 && isUuid(local) ? local.toLowerCase() : nilUuid;
}

/** A row of the caller's tenant, as the client of the operation finds it. */
export function rowKey({ scope }: GraphqlContext, id: string) {
  return { tenantId_id: { tenantId: scope.tenantId, id } };
}

export function uuidOrNil(id: string): string {
  return isUuid(id) ? id.toLowerCase() : nilUuid;
}
