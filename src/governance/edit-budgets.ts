import { DomainError, invalidInput } from "../domain/errors.js";
import { type AgentId, type BudgetId, type CredentialId, isUuid } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { demandName } from "../domain/text.js";
import { uuidv7 } from "../platform/random.js";
import { findAgent } from "../store/agents.js";
import { knowsApiKey } from "../store/api-keys.js";
import {
  type Budget,
  type BudgetTerms,
  insertBudget,
  insertPrice,
  isZone,
  lockBudget,
  lockWindows,
  type ModelPrice,
  type NewBudget,
  writeArchival,
  writeTerms,
} from "../store/budgets.js";
import type { Stores } from "../store/client.js";
import { type TenantTx, withTenantTx } from "../store/tx.js";
import { madeBefore, type OnceKey } from "./create-once.js";
import { demandVersion } from "./edit-members.js";
import { recordAuditIn } from "./record-audit.js";

const most = 2n ** 61n;
const dollar = 10n ** 12n;

export interface BudgetInput extends Omit<NewBudget, "agentId" | "apiKeyId"> {
  readonly agentId: string | null;
  readonly apiKeyId: string | null;
}

/** A budget holds from its commit on: runs that are created after it are counted, those before are not. */
export async function createBudget(
  stores: Stores,
  scope: Scope,
  input: BudgetInput,
  once: OnceKey | null,
): Promise<BudgetId> {
  const id = uuidv7() as BudgetId;
  return withTenantTx(stores, scope, async (tx) => {
    const before = await madeBefore(tx, "budgetCreate", once, id);
    if (before) return before;
    demandTerms(input.unit, input);
    const place = await readPlace(tx, input);
    if (!(await isZone(tx, input.zone)))
      throw invalidInput("zone", "is no IANA time zone; write it as Europe/Berlin or UTC");
    await insertBudget(tx, id, { ...input, ...place });
    await recordAuditIn(tx, {
      action: "budget.create",
      targetKind: "budget",
      targetId: id,
      detail: {
        ...place,
        unit: input.unit,
        scope: input.scope,
        period: input.period,
        zone: input.zone,
        ...told(input),
      },
    });
    return id;
  });
}

export interface BudgetChange {
  readonly id: string;
  /** Null leaves it. */
  readonly name: string | null;
  readonly amount: bigint | null;
  readonly runHold: bigint | null;
  readonly hard: boolean | null;
  readonly expectedVersion: number;
}

/** Holds at once: a lower amount refuses new runs and takes nothing from those that run. */
export async function changeBudget(stores: Stores, scope: Scope, change: BudgetChange): Promise<BudgetId> {
  return withTenantTx(stores, scope, async (tx) => {
    const budget = await requireBudget(tx, change.id);
    if (budget.archivedAt) throw invalidInput("id", "this budget is archived; create a new one");
    demandVersion(change.expectedVersion, budget.version);
    const next: BudgetTerms = {
      name: change.name ?? budget.name,
      amount: change.amount ?? budget.amount,
      runHold: change.runHold ?? budget.runHold,
      hard: change.hard ?? budget.hard,
    };
    demandTerms(budget.unit, next);
    await lockWindows(tx, budget.id);
    await writeTerms(tx, budget.id, next);
    await recordAuditIn(tx, {
      action: "budget.change",
      targetKind: "budget",
      targetId: budget.id,
      detail: { from: told(budget), to: told(next) },
    });
    return budget.id;
  });
}

/** Counts and refuses nothing more. Archiving an archived one changes nothing. */
export async function archiveBudget(
  stores: Stores,
  scope: Scope,
  archival: { readonly id: string; readonly expectedVersion: number | null },
): Promise<BudgetId> {
  return withTenantTx(stores, scope, async (tx) => {
    const budget = await requireBudget(tx, archival.id);
    if (budget.archivedAt) return budget.id;
    if (archival.expectedVersion !== null) demandVersion(archival.expectedVersion, budget.version);
    await writeArchival(tx, budget.id);
    await recordAuditIn(tx, {
      action: "budget.archive",
      targetKind: "budget",
      targetId: budget.id,
      detail: told(budget),
    });
    return budget.id;
  });
}

/** A price is never changed: a new one counts from its moment on. */
export async function setModelPrice(stores: Stores, scope: Scope, price: ModelPrice): Promise<string> {
  const id = uuidv7();
  return withTenantTx(stores, scope, async (tx) => {
    if (price.model.trim().length < 1 || price.model.length > 200) throw invalidInput("model", "1 to 200 characters");
    for (const field of ["inputPico", "outputPico", "cacheReadPico"] as const)
      if (price[field] < 0n || price[field] > dollar)
        throw invalidInput(field, "0 to 1000000000000 picodollars a token, which is one dollar");
    if (price.effectiveFrom) {
      const rows = await tx.query<{ past: boolean }>("select $1::timestamptz < clock_timestamp() as past", [
        price.effectiveFrom,
      ]);
      if (rows[0]?.past)
        throw invalidInput("effectiveFrom", "lies in the past, which was counted already; leave it out for now");
    }
    if (!(await insertPrice(tx, id, price)))
      throw invalidInput("effectiveFrom", "the model has a price from this moment on already; choose another");
    await recordAuditIn(tx, {
      action: "price.set",
      targetKind: "model_price",
      targetId: id,
      detail: {
        model: price.model,
        inputPico: String(price.inputPico),
        outputPico: String(price.outputPico),
        cacheReadPico: String(price.cacheReadPico),
        effectiveFrom: price.effectiveFrom?.toISOString() ?? null,
      },
    });
    return id;
  });
}

function told({ name, amount, runHold, hard }: BudgetTerms): Record<string, unknown> {
  return { name, amount: String(amount), runHold: String(runHold), hard };
}

function demandTerms(unit: Budget["unit"], { name, amount, runHold }: BudgetTerms): void {
  demandName(name);
  if (amount < 0n || amount > most) throw invalidInput("amount", "0 or more, at most 2^61");
  if (unit === "runs" && runHold !== 1n) throw invalidInput("runHold", "a run holds one run; leave it out");
  if (runHold < 1n || runHold > most)
    throw invalidInput("runHold", "1 or more: what a run may use before more is asked for");
}

async function readPlace(
  tx: TenantTx,
  { scope, agentId, apiKeyId }: BudgetInput,
): Promise<{ agentId: AgentId | null; apiKeyId: CredentialId | null }> {
  if ((scope === "agent") !== (agentId !== null))
    throw invalidInput("agentId", scope === "agent" ? "names the agent" : "only with the scope AGENT");
  if ((scope === "key") !== (apiKeyId !== null))
    throw invalidInput("apiKeyId", scope === "key" ? "names the API key" : "only with the scope KEY");
  const agent = agentId !== null && isUuid(agentId) ? await findAgent(tx, agentId) : null;
  if (scope === "agent" && !agent)
    throw new DomainError("NOT_FOUND", "agentId: there is no such agent.", { field: "agentId" });
  if (scope === "key" && !(isUuid(apiKeyId) && (await knowsApiKey(tx, apiKeyId as CredentialId))))
    throw new DomainError("NOT_FOUND", "apiKeyId: there is no such API key.", { field: "apiKeyId" });
  return { agentId: agent?.id ?? null, apiKeyId: apiKeyId as CredentialId | null };
}

async function requireBudget(tx: TenantTx, text: string): Promise<Budget> {
  const id = text.toLowerCase() as BudgetId;
  const budget = isUuid(id) ? await lockBudget(tx, id) : null;
  if (!budget) throw new DomainError("NOT_FOUND", "id: there is no such budget.", { field: "id" });
  return budget;
}
