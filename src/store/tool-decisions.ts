import type { AgentId } from "../domain/ids.js";
import type { Stores } from "./client.js";
import { type Coalescer, createCoalescer } from "./coalescer.js";
import type { HeldRun } from "./run-path/append.js";
import { tenantSet } from "./run-path/tenant-set.js";

/** What the store knows about an ask before it is decided. */
export interface AskFacts {
  readonly agentId: AgentId;
  readonly graphId: string;
  readonly user: string;
  /** The digest of the schema that the tool is known by, in hex; null when it is not known. */
  readonly pinned: string | null;
  /** What the run belongs to is halted, with what is open of it. */
  readonly halted: boolean;
  /** The policy in force, if there is one. */
  readonly policy: { readonly number: number; readonly versionId: string } | null;
}

export interface AskItem extends HeldRun {
  readonly tool: string;
}

export interface DecisionItem extends HeldRun {
  readonly id: string;
  readonly askId: string;
  readonly tool: string;
  readonly user: string;
  /** Digests in hex. */
  readonly schemaDigest: string;
  readonly argumentsDigest: string;
  readonly allowed: boolean;
  readonly reason: string;
  readonly rules: readonly string[];
  readonly explanation: string;
  readonly policyNumber: number | null;
  readonly pinned: string | null;
  readonly micros: number;
}

export interface Recorded {
  /** recorded and replayed answer the ask; reused: its name stands for another ask; stale: decide again. */
  readonly outcome: "recorded" | "replayed" | "reused" | "stale" | "superseded";
  readonly id: string | null;
  readonly allowed: boolean;
  readonly reason: string | null;
}

export interface ToolDecisions {
  /** Null when the runner does not hold the run. */
  ask(item: AskItem): Promise<AskFacts | null>;
  record(item: DecisionItem): Promise<Recorded>;
  drained(): Promise<void>;
}

const held = ({ tenantId, runId, fence, queue }: HeldRun) => ({
  ...{ tenant_id: tenantId, run_id: runId, fence },
  ...{ pool_id: queue.poolId, kind: queue.kind },
});

export function createToolDecisions(stores: Stores): ToolDecisions {
  const pool = stores.path;
  const shape = { maxBatch: 64, maxWaiting: 10_000, parallel: 1, tenant: (item: HeldRun) => item.tenantId };
  const ask: Coalescer<AskItem, AskFacts | null> = createCoalescer<AskItem, AskFacts | null>({
    ...{ ...shape, name: "tool ask", keys: () => [], retryForMs: 3_000 },
    flush: async (items) => {
      const { rows } = await pool.query<{
        ord: number;
        agent_id: AgentId;
        graph_id: string;
        user: string;
        pinned: Buffer | null;
        policy_number: number | null;
        version_id: string;
        halted: boolean;
      }>({
        name: "tool_ask_v1",
        text: `select ord, agent_id, graph_id, "user", pinned, policy_number, version_id, halted from tool_ask_v1($1, $2)`,
        values: [tenantSet(items), JSON.stringify(items.map((item) => ({ ...held(item), tool: item.tool })))],
      });
      const found: (AskFacts | null)[] = items.map(() => null);
      for (const row of rows) {
        found[row.ord - 1] = {
          ...{
            agentId: row.agent_id,
            graphId: row.graph_id,
            user: row.user,
            pinned: row.pinned?.toString("hex") ?? null,
          },
          halted: row.halted,
          policy: row.policy_number === null ? null : { number: row.policy_number, versionId: row.version_id },
        };
      }
      return found;
    },
  });
  const record: Coalescer<DecisionItem, Recorded> = createCoalescer<DecisionItem, Recorded>({
    ...{ ...shape, name: "tool decision", retryForMs: 3_000 },
    // Equal asks wait for each other, so that the second finds what was decided for the first.
    keys: (item) => [`${item.tenantId}:${item.runId}:${item.fence}:${item.askId}`],
    flush: async (items) => {
      const { rows } = await pool.query<Recorded & { ord: number }>({
        name: "tool_decide_v1",
        text: "select ord, outcome, id, allowed, reason from tool_decide_v1($1, $2)",
        values: [
          tenantSet(items),
          JSON.stringify(
            items.map((item) => ({
              ...held(item),
              ...{ id: item.id, ask_id: item.askId, tool: item.tool, user: item.user, pinned: item.pinned },
              ...{ schema_digest: item.schemaDigest, arguments_digest: item.argumentsDigest, allowed: item.allowed },
              ...{ reason: item.reason, rules: item.rules, explanation: item.explanation, micros: item.micros },
              policy_number: item.policyNumber,
            })),
          ),
        ],
      });
      const gone: Recorded = { outcome: "superseded", id: null, allowed: false, reason: null };
      const recorded = items.map(() => gone);
      for (const { ord, outcome, id, allowed, reason } of rows) recorded[ord - 1] = { outcome, id, allowed, reason };
      return recorded;
    },
  });
  return {
    ask: ask.add,
    record: record.add,
    drained: async () => {
      await Promise.all([ask.drained(), record.drained()]);
    },
  };
}
