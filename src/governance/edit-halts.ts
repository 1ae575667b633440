import { DomainError, invalidInput } from "../domain/errors.js";
import { type AgentId, type HaltId, isUuid } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { uuidv7 } from "../platform/random.js";
import { findAgent } from "../store/agents.js";
import type { Stores } from "../store/client.js";
import {
  type Affected,
  countAffected,
  type Halt,
  type HaltMode,
  type HaltPlace,
  type HaltScope,
  insertHalt,
  lockHalts,
  readHalt,
  writeLift,
} from "../store/halts.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";
import { madeBefore, type OnceKey } from "./create-once.js";
import { demandVersion } from "./edit-members.js";
import { recordAuditIn } from "./record-audit.js";

export interface NewHalt {
  readonly scope: HaltScope;
  readonly agentId: string | null;
  readonly kind: string | null;
  readonly mode: HaltMode;
  readonly reason: string;
  readonly expiresAt: Date | null;
}

export interface HaltMade {
  /** Null after a dry run. */
  readonly id: HaltId | null;
  readonly place: HaltPlace;
  readonly affected: Affected;
}

/** Stops a tenant, an agent or a kind: from the commit on nothing of it is created or claimed, on any plane. A dry run only counts what it would meet. */
export async function createHalt(
  stores: Stores,
  scope: Scope,
  input: NewHalt,
  once: OnceKey | null,
  dryRun: boolean,
): Promise<HaltMade> {
  const id = uuidv7() as HaltId;
  return withTenantTx(stores, scope, async (tx) => {
    if (!dryRun) {
      const before = await madeBefore(tx, "haltCreate", once, id);
      if (before) {
        const halt = await requireHalt(tx, before);
        return { id: halt.id, place: halt, affected: await countAffected(tx, halt) };
      }
    }
    const place = await readPlace(tx, input);
    demandReason(input.reason);
    if (input.expiresAt && input.expiresAt.getTime() <= (await now(tx)))
      throw invalidInput("expiresAt", "is over already");
    if (dryRun) return { id: null, place, affected: await countAffected(tx, place) };
    await lockHalts(tx);
    const affected = await countAffected(tx, place);
    await insertHalt(tx, { ...input, ...place, id });
    await recordAuditIn(tx, {
      action: "halt.create",
      targetKind: "halt",
      targetId: id,
      detail: {
        ...place,
        mode: input.mode,
        reason: input.reason,
        expiresAt: input.expiresAt?.toISOString() ?? null,
        affected,
      },
    });
    return { id, place, affected };
  });
}

/** Lets what was stopped go on. Lifting a lifted halt changes nothing. */
export async function liftHalt(
  stores: Stores,
  scope: Scope,
  lift: { readonly id: string; readonly expectedVersion: number | null },
): Promise<HaltId> {
  return withTenantTx(stores, scope, async (tx) => {
    const halt = await requireHalt(tx, lift.id);
    demandOwnAgents(tx, halt);
    if (halt.liftedAt) return halt.id;
    if (lift.expectedVersion !== null) demandVersion(lift.expectedVersion, halt.version);
    await writeLift(tx, halt);
    await recordAuditIn(tx, {
      action: "halt.lift",
      targetKind: "halt",
      targetId: halt.id,
      detail: { scope: halt.scope, agentId: halt.agentId, kind: halt.kind, mode: halt.mode },
    });
    return halt.id;
  });
}

async function readPlace(tx: TenantTx, { scope, agentId, kind }: NewHalt): Promise<HaltPlace> {
  if ((scope === "agent") !== (agentId !== null))
    throw invalidInput("agentId", scope === "agent" ? "names the agent to stop" : "only with the scope AGENT");
  if ((scope === "kind") !== (kind !== null))
    throw invalidInput("kind", scope === "kind" ? "names the kind to stop" : "only with the scope KIND");
  if (kind !== null && !/^[A-Za-z0-9_.-]{1,64}$/.test(kind))
    throw invalidInput("kind", "1 to 64 characters of A-Z a-z 0-9 _ . -");
  const agent = agentId !== null && isUuid(agentId) ? await findAgent(tx, agentId) : null;
  const place: HaltPlace = { scope, agentId: agent?.id ?? null, kind };
  if (scope === "agent" && !agent)
    throw new DomainError("NOT_FOUND", "agentId: there is no such agent.", { field: "agentId" });
  demandOwnAgents(tx, place);
  return place;
}

/** A key that is for some agents only stops those only. */
function demandOwnAgents({ scope }: TenantTx, place: HaltPlace): void {
  if (scope.agents === null || (place.agentId !== null && scope.agents.has(place.agentId as AgentId))) return;
  if (place.scope === "agent")
    throw new DomainError("NOT_FOUND", "agentId: there is no such agent.", { field: "agentId" });
  throw new DomainError("FORBIDDEN", "scope: the API key is for some agents only; halt those one by one.", {
    field: "scope",
  });
}

function demandReason(reason: string): void {
  if (reason.trim().length < 1 || reason.length > 1_000)
    throw invalidInput("reason", "1 to 1000 characters, for whoever asks why");
}

async function now(tx: TenantTx): Promise<number> {
  const rows = await tx.query<{ now: Date }>("select clock_timestamp() as now", []);
  return (rows[0] as { now: Date }).now.getTime();
}

async function requireHalt(tx: TenantTx, text: string): Promise<Halt> {
  const id = text.toLowerCase() as HaltId;
  const halt = isUuid(id) ? await readHalt(tx, id) : null;
  if (!halt) throw new DomainError("NOT_FOUND", "id: there is no such halt.", { field: "id" });
  return halt;
}
