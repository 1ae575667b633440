import type pg from "pg";
import type { AgentId, QueueName, RunId, RunnerId, TenantId, ThreadId } from "../../domain/ids.js";
import { tenantSet } from "./tenant-set.js";

export interface ClaimItem {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly queue: QueueName;
  readonly runnerId: RunnerId;
}

/** A run that was offered to a runner, with all that its assignment needs. Payloads are JSON text in bytes. */
export interface Claimed {
  readonly tenantId: TenantId;
  readonly runId: RunId;
  readonly threadId: ThreadId;
  readonly agentId: AgentId;
  readonly graphId: string;
  readonly agentConfig: string;
  readonly purpose: "run" | "update_state";
  readonly fence: number;
  readonly attempt: number;
  readonly input: Buffer | null;
  readonly command: Buffer | null;
  readonly config: Buffer | null;
  readonly context: Buffer | null;
  readonly metadata: string;
  readonly stateUpdate: Buffer | null;
  readonly streamModes: readonly string[];
  readonly streamSubgraphs: boolean;
  readonly interruptBefore: readonly string[];
  readonly interruptAfter: readonly string[];
  readonly fromCheckpointId: string | null;
  readonly hasCheckpoints: boolean;
  readonly threadValues: Buffer | null;
  readonly deadline: Date | null;
  readonly traceparent: string | null;
  readonly recovery: string;
  /** The thread goes with the run. */
  readonly ephemeral: boolean;
}

export interface ClaimedRow {
  ord: number;
  tenant_id: TenantId;
  run_id: RunId;
  thread_id: ThreadId;
  agent_id: AgentId;
  graph_id: string;
  agent_config: string;
  purpose: "run" | "update_state";
  fence: number;
  attempt: number;
  input: Buffer | null;
  command: Buffer | null;
  config: Buffer | null;
  context: Buffer | null;
  metadata: string;
  state_update: Buffer | null;
  stream_modes: string[];
  stream_subgraphs: boolean;
  interrupt_before: string[];
  interrupt_after: string[];
  from_checkpoint_id: string | null;
  has_checkpoints: boolean;
  thread_values: Buffer | null;
  deadline: Date | null;
  traceparent: string | null;
  recovery: string;
  ephemeral: boolean;
}

const columnNames =
  `ord tenant_id run_id thread_id agent_id graph_id agent_config purpose fence attempt input command config context metadata state_update
  stream_modes stream_subgraphs interrupt_before interrupt_after from_checkpoint_id has_checkpoints thread_values deadline traceparent recovery ephemeral`.split(
    /\s+/,
  );
const columns = columnNames.join(", ");

/** The columns of a composite `run_claimed`. */
export const claimedColumnsOf = (composite: string): string =>
  columnNames.map((column) => `(${composite}).${column}`).join(", ");

export const toClaimed = (row: ClaimedRow): Claimed => ({
  tenantId: row.tenant_id,
  runId: row.run_id,
  threadId: row.thread_id,
  agentId: row.agent_id,
  graphId: row.graph_id,
  agentConfig: row.agent_config,
  purpose: row.purpose,
  fence: row.fence,
  attempt: row.attempt,
  input: row.input,
  command: row.command,
  config: row.config,
  context: row.context,
  metadata: row.metadata,
  stateUpdate: row.state_update,
  streamModes: row.stream_modes,
  streamSubgraphs: row.stream_subgraphs,
  interruptBefore: row.interrupt_before,
  interruptAfter: row.interrupt_after,
  fromCheckpointId: row.from_checkpoint_id,
  hasCheckpoints: row.has_checkpoints,
  threadValues: row.thread_values,
  deadline: row.deadline,
  traceparent: row.traceparent,
  recovery: row.recovery,
  ephemeral: row.ephemeral,
});

/** An item as the claim function reads it. */
export const claimItemOf = ({ tenantId, runId, queue, runnerId }: ClaimItem) => ({
  tenant_id: tenantId,
  run_id: runId,
  pool_id: queue.poolId,
  kind: queue.kind,
  runner_id: runnerId,
});

/** Claims named runs; null where another was faster or the run may not start now. A batch whose commit is unknown is not claimed again: the runs'
 *  offers lapse and they return to the queue. */
export async function claimRuns(
  pool: pg.Pool,
  items: readonly ClaimItem[],
  offerMs: number,
): Promise<(Claimed | null)[]> {
  const result = await pool.query<ClaimedRow>({
    name: "run_claim_v2",
    text: `select ${columns} from run_claim_v2($1, $2, $3)`,
    values: [tenantSet(items), JSON.stringify(items.map(claimItemOf)), offerMs],
  });
  const claimed: (Claimed | null)[] = items.map(() => null);
  for (const row of result.rows) claimed[row.ord - 1] = toClaimed(row);
  return claimed;
}

/** Claims what is next for a runner that offers these graphs, at most `limit` runs, fairly over tenants. */
export async function claimNextRuns(
  pool: pg.Pool,
  queue: QueueName,
  graphIds: readonly string[],
  runnerId: RunnerId,
  limit: number,
  window: number,
  offerMs: number,
): Promise<Claimed[]> {
  const result = await pool.query<ClaimedRow>({
    name: "run_claim_next_v2",
    text: `select ${columns} from run_claim_next_v2($1, $2, $3, $4, $5, $6, $7)`,
    values: [queue.poolId, queue.kind, graphIds, runnerId, limit, window, offerMs],
  });
  return result.rows.map(toClaimed);
}
