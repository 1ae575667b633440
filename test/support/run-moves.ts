import { randomUUID } from "node:crypto";
import { pino } from "pino";
import {
  type AgentId,
  operatorTenantId,
  type QueueName,
  type RunId,
  type RunnerId,
  type TenantId,
  type ThreadId,
} from "../../src/domain/ids.js";
import type { FinalRunState } from "../../src/domain/moves/run.js";
import { systemScope } from "../../src/domain/scope.js";
import { uuidv5 } from "../../src/platform/random.js";
import { attemptFrame, endFrames } from "../../src/runs/control-frames.js";
import { announceAgents } from "../../src/store/agents.js";
import { openStores, type Stores } from "../../src/store/client.js";
import { type Appended, appendEvents } from "../../src/store/run-path/append.js";
import { type Claimed, claimRuns } from "../../src/store/run-path/claim.js";
import { type CreateItem, createRuns } from "../../src/store/run-path/create.js";
import { type Extras, noExtras } from "../../src/store/run-path/extras.js";
import { type Finished, finishRuns } from "../../src/store/run-path/finish.js";
import { cancelRunRow, type RunMoved, type TakeBackCause, takeBackRun } from "../../src/store/run-path/moves.js";
import { withTenantTx } from "../../src/store/tx.js";
import type { TestDatabase } from "./postgres.js";
import { segmentOf } from "./raw-runner.js";
import { makeTenants } from "./tenants.js";

// The moves of runs as plain calls on a database, without planes and runners: for races and random scripts by the hundred.

const graphId = "scripted";
const maxAttempts = 3;
const now = 1_700_000_000_000;
const endOf = (status: FinalRunState) => endFrames(status, null, now);

export interface RunMoves {
  readonly stores: Stores;
  readonly tenantId: TenantId;
  readonly queue: QueueName;
  create(more?: Partial<CreateItem>): Promise<{ runId: RunId; threadId: ThreadId }>;
  claim(runId: RunId): Promise<Claimed | null>;
  append(runId: RunId, fence: number, first: number, count: number): Promise<Appended>;
  finish(
    run: { runId: RunId; threadId: ThreadId },
    fence: number,
    status: FinalRunState,
    total: number,
    /** Usages of model calls by the model's name, as JSON. */
    usages?: readonly (readonly [model: string, usage: string])[],
  ): Promise<Finished>;
  cancel(runId: RunId, forceFence?: number): Promise<RunMoved>;
  takeBack(runId: RunId, fence: number, cause: TakeBackCause): Promise<RunMoved>;
  /** The lease is over at once. */
  expire(runId: RunId): Promise<void>;
  row(runId: RunId): Promise<{ status: string; fence: number; attempt: number; cancelled: boolean; source: number }>;
  close(): Promise<void>;
}

export async function openRunMoves(database: TestDatabase, slug: string): Promise<RunMoves> {
  const stores = openStores(database.appUrl, database.sweeperUrl, pino({ level: "silent" }));
  const { tenants } = await makeTenants(database.appUrl, [slug]);
  const tenantId = tenants[0]!.id;
  const queue = { poolId: operatorTenantId, kind: "scripted" };
  const agentId = uuidv5(graphId) as AgentId;
  await announceAgents(stores.app, operatorTenantId, queue.kind, [
    {
      id: agentId,
      graphId,
      digest: "00".repeat(32),
      name: graphId,
      description: "",
      schemas: { input: null, output: null, state: null, config: null, context: null },
      recovery: "restart",
      maxAttempts,
      queueTimeoutMs: 3_600_000,
      runTimeoutMs: null,
    },
  ]);
  const scope = systemScope(tenantId);
  const alone = <Row>(rows: readonly Row[]): Row => rows[0] as Row;

  return {
    stores,
    tenantId,
    queue,
    create: async (more = {}) => {
      const item: CreateItem = {
        tenantId,
        runId: randomUUID() as RunId,
        runIdChosen: false,
        threadId: randomUUID() as ThreadId,
        threadMode: "create",
        threadMetadata: "{}",
        agentId,
        graphId,
        poolId: queue.poolId,
        kind: queue.kind,
        purpose: "run",
        strategy: "enqueue",
        resume: null,
        resumeIds: [],
        maxAttempts,
        recovery: "restart",
        queueTimeoutMs: 3_600_000,
        runTimeoutMs: null,
        dueMs: null,
        input: "{}",
        command: null,
        config: null,
        context: null,
        metadata: "{}",
        stateUpdate: null,
        streamModes: ["values"],
        streamSubgraphs: false,
        streamResumable: false,
        interruptBefore: [],
        interruptAfter: [],
        onDisconnect: "continue",
        deleteThread: false,
        fromCheckpointId: null,
        credentialId: null,
        requestHash: "00".repeat(32),
        idempotencyKey: null,
        traceparent: null,
        ...more,
      };
      const created = alone(await createRuns(stores.path, [item], [null], false, { window: 1_000, offerMs: 10_000 }));
      if (created.verdict !== "created") throw new Error(`a run was not created: ${created.verdict}`);
      return { runId: created.runId, threadId: item.threadId };
    },
    claim: async (runId) =>
      alone(await claimRuns(stores.path, [{ tenantId, runId, queue, runnerId: randomUUID() as RunnerId }], 60_000)),
    append: async (runId, fence, first, count) => {
      const { events } = segmentOf(count, (at) => ({ n: first + at }));
      const segments = [{ delta: false, count, body: events }];
      const item = { tenantId, runId, fence, queue, first, segments, extras: noExtras };
      return alone(await appendEvents(stores.path, [item], false, 60_000));
    },
    finish: async ({ runId, threadId }, fence, status, total, usages = []) => {
      const end = endOf(status);
      const item = {
        ...{ tenantId, runId, threadId, fence, queue, purpose: "run" as const, total, tailFirst: total + 1, tail: [] },
        ...{
          extras: { ...noExtras, steps: usages.map(stepOf) },
          end: end.bytes,
          endCount: end.count,
          status,
          reason: "",
          error: null,
          next: ["a"],
        },
        ...{ values: Buffer.from("{}"), interrupts: [], threadInterrupts: null },
      };
      return alone(await finishRuns(stores.path, [item], false));
    },
    cancel: (runId, forceFence) =>
      withTenantTx(stores, scope, (tx) => cancelRunRow(tx, runId, "interrupt", forceFence ?? null, endOf("cancelled"))),
    takeBack: (runId, fence, cause) =>
      takeBackRun(stores.app, {
        ...{
          tenantId,
          runId,
          fence,
          cause,
          queue: null,
          maxHandbacks: 1_000,
          again: attemptFrame(runId, randomUUID(), 2, now),
        },
        ...{ end: endOf("error"), endReason: "attempts_exhausted", endError: "{}", cancelEnd: endOf("cancelled") },
      }),
    expire: (runId) =>
      withTenantTx(stores, scope, async (tx) => {
        await tx.query(
          "update run set lease_until = clock_timestamp() - interval '1 s' where tenant_id = $1 and id = $2",
          [tenantId, runId],
        );
      }),
    row: (runId) =>
      withTenantTx(stores, scope, async (tx) =>
        alone(
          await tx.query<Awaited<ReturnType<RunMoves["row"]>>>(
            `select status, fence, attempt, cancel_requested_at is not null as cancelled, source_seq as source from run where tenant_id = $1 and id = $2`,
            [tenantId, runId],
          ),
        ),
      ),
    close: stores.close,
  };
}

/** A model call that has ended. */
export function stepOf([model, usage]: readonly [model: string, usage: string], n: number): Extras["steps"][number] {
  return {
    ...{ id: `call-${n}`, parentId: "", kind: "model", name: model, status: "success", namespace: [] },
    ...{ startedMs: now, endedMs: now + 1, usage, error: "" },
  };
}
