declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

export type TenantId = Id<"tenant">;
export type RunId = Id<"run">;
export type ThreadId = Id<"thread">;
export type AgentId = Id<"agent">;
export type RunnerId = Id<"runner">;
export type CredentialId = Id<"credential">;
export type MemberId = Id<"member">;
export type ServiceAccountId = Id<"serviceAccount">;
export type SessionId = Id<"session">;
export type HaltId = Id<"halt">;
export type SecretId = Id<"secret">;
export type DataKeyId = Id<"dataKey">;
export type BudgetId = Id<"budget">;

/** The tenant that owns the shared pool of runners. */
export const operatorTenantId = "00000000-0000-7000-8000-000000000000" as TenantId;

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(text: unknown): text is string {
  return typeof text === "string" && uuidPattern.test(text);
}

/** Equal run ids may exist in two tenants, so in memory and on channels a run is named by both. */
export type RunKey = string & { readonly [brand]: "runKey" };

export function runKey(tenantId: TenantId, runId: RunId): RunKey {
  return `${tenantId}:${runId}` as RunKey;
}

export function parseRunKey(key: RunKey): { tenantId: TenantId; runId: RunId } {
  const [tenantId, runId] = key.split(":");
  return { tenantId: tenantId as TenantId, runId: runId as RunId };
}

/** A queue: the runs of one kind that one pool's runners may take. */
export interface QueueName {
  readonly poolId: TenantId;
  readonly kind: string;
}

/** Whose runs go to runners that offer one graph: what a run waits in. */
export interface AgentQueue extends QueueName {
  readonly graphId: string;
}

export function queueKey(queue: QueueName): string {
  return `${queue.poolId}:${queue.kind}`;
}
