import type { TenantReads } from "./reads.js";

/** Who made a row, as it is kept beside it. */
export function actorName({ scope: { actor } }: Pick<TenantReads, "scope">): string {
  return actor.id ? `${actor.kind}:${actor.id}` : actor.kind;
}
