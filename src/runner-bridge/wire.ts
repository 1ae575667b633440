import { hash } from "node:crypto";
import type { QueueName, RunId, TenantId } from "../domain/ids.js";
import { isUuid } from "../domain/ids.js";
import { findBadText } from "../domain/text.js";
import {
  type Assignment,
  type EventBatch,
  Outcome,
  Purpose,
  Recovery,
  type Report,
  Retention,
  type RunRef,
  type AgentOffer as WireAgentOffer,
} from "../generated/proto/fairlead/runner/v1/runner.js";
import type { Limits } from "../platform/config.js";
import { uuidv5 } from "../platform/random.js";
import { complainAboutEvents } from "../runs/control-frames.js";
import type { AgentOffer } from "../store/agents.js";
import type { StoredBlob, StoredCheckpoint } from "../store/checkpoints.js";
import type { AppendItem, HeldRun, Segment } from "../store/run-path/append.js";
import type { Claimed } from "../store/run-path/claim.js";
import { type Extras, noExtras } from "../store/run-path/extras.js";

// proto ↔ domain. From the wire, everything is checked here; what comes out is sound. A complaint is a sentence for the runner's author.

export type Checked<T> = { readonly ok: T } | { readonly complaint: string };

const empty = Buffer.alloc(0);
const maxPartBytes = 1024 * 1024;

export function fromWireRun(run: RunRef | undefined, queue: QueueName): Checked<HeldRun> {
  if (!run) return { complaint: "run: missing" };
  if (!isUuid(run.tenantId)) return { complaint: "run.tenant_id: not a UUID" };
  if (!isUuid(run.runId)) return { complaint: "run.run_id: not a UUID" };
  if (!Number.isInteger(run.generation) || run.generation < 1 || run.generation > 2_147_483_647) {
    return { complaint: "run.generation: must be a number from 1 on, as the assignment gave it" };
  }
  return { ok: { tenantId: run.tenantId as TenantId, runId: run.runId as RunId, fence: run.generation, queue } };
}

export function toWireRun(run: Pick<HeldRun, "tenantId" | "runId" | "fence">): RunRef {
  return { tenantId: run.tenantId, runId: run.runId, generation: run.fence };
}

export function fromWireBatch(batch: EventBatch, queue: QueueName, limits: Limits): Checked<AppendItem> {
  const run = fromWireRun(batch.run, queue);
  if ("complaint" in run) return run;
  if (!Number.isInteger(batch.first) || batch.first < 1) return { complaint: "first: must be a number from 1 on" };
  if (batch.segments.length === 0) return { complaint: "segments: a batch holds at least one event" };
  const segments: Segment[] = [];
  for (const segment of batch.segments) {
    if (segment.retention !== Retention.RETENTION_DURABLE && segment.retention !== Retention.RETENTION_DELTA) {
      return { complaint: "segments.retention: must be DURABLE or DELTA" };
    }
    if (segment.count < 1) return { complaint: "segments.count: must be a number from 1 on" };
    const complaint = complainAboutEvents(segment.events, segment.count, limits.eventBytes);
    if (complaint) return { complaint: `segments.events: ${complaint}` };
    segments.push({
      delta: segment.retention === Retention.RETENTION_DELTA,
      count: segment.count,
      body: toBuffer(segment.events),
    });
  }
  const extras = fromWireExtras(batch, limits);
  if ("complaint" in extras) return extras;
  return { ok: { ...run.ok, first: batch.first, segments, extras: extras.ok } };
}

const stepKinds = new Set(["model", "tool", "agent", "node", "guardrail", "handoff", "function"]);
const stepStates = new Set(["running", "success", "error", "interrupted"]);

function fromWireExtras(batch: EventBatch, limits: Limits): Checked<Extras> {
  if (batch.checkpoints.length + batch.writes.length + batch.blobs.length + batch.steps.length === 0)
    return { ok: noExtras };
  let bytes = 0;
  for (const checkpoint of batch.checkpoints) {
    if (!checkpoint.id || checkpoint.id.length > 128) return { complaint: "checkpoints.id: 1 to 128 characters" };
    if (checkpoint.channels.some((channel) => channel.digest.length !== 32))
      return { complaint: "checkpoints.channels.digest: 32 bytes" };
    if (!isJson(checkpoint.metadata)) return { complaint: "checkpoints.metadata: not JSON" };
    if (checkpoint.view.length > 0 && !isJson(checkpoint.view)) return { complaint: "checkpoints.view: not JSON" };
    bytes += checkpoint.head.length + checkpoint.view.length;
  }
  for (const blob of batch.blobs) {
    if (blob.digest.length !== 32) return { complaint: "blobs.digest: 32 bytes" };
    if (blob.data.length > maxPartBytes) return { complaint: "blobs.data: a part has at most 1 MiB" };
    if (blob.parts < 1 || blob.part >= blob.parts) return { complaint: "blobs.part: from 0 to parts - 1" };
    if (blob.parts === 1 && hash("sha256", blob.data) !== toBuffer(blob.digest).toString("hex")) {
      return { complaint: "blobs.digest: is not the SHA-256 of the data" };
    }
    bytes += blob.data.length;
  }
  for (const write of batch.writes) {
    if (!write.checkpointId || !write.taskId) return { complaint: "writes: checkpoint_id and task_id are needed" };
    bytes += write.data.length;
  }
  const { checkpoints, writes, steps } = batch;
  const text = complainAboutText({ checkpoints, writes, steps });
  if (text) return { complaint: text };
  if (bytes > limits.checkpointBytes) return { complaint: `checkpoints: larger than ${limits.checkpointBytes} bytes` };
  for (const step of batch.steps) {
    if (!step.id || step.id.length > 200) return { complaint: "steps.id: 1 to 200 characters" };
    if (!stepKinds.has(step.kind)) return { complaint: `steps.kind: must be one of ${[...stepKinds].join(", ")}` };
    if (!stepStates.has(step.status))
      return { complaint: `steps.status: must be one of ${[...stepStates].join(", ")}` };
    const usage = step.usage.length > 0 ? complainAboutJson(step.usage) : null;
    if (usage) return { complaint: `steps.usage: ${usage}` };
  }
  return {
    ok: {
      checkpoints: batch.checkpoints.map((c) => ({
        namespace: c.namespace,
        id: c.id,
        parentId: c.parentId,
        lineage: c.lineage,
        schemaVersion: c.schemaVersion,
        step: c.step,
        head: toBuffer(c.head),
        metadata: toBuffer(c.metadata),
        channels: c.channels.map((channel) => ({
          name: channel.name,
          digest: toBuffer(channel.digest).toString("hex"),
          type: channel.type,
        })),
        view: c.view.length > 0 ? toBuffer(c.view) : null,
      })),
      writes: batch.writes.map((w) => ({ ...w, data: toBuffer(w.data) })),
      blobs: batch.blobs.map((b) => ({
        digest: toBuffer(b.digest).toString("hex"),
        part: b.part,
        parts: b.parts,
        data: toBuffer(b.data),
      })),
      steps: batch.steps.map((s) => ({
        id: s.id,
        parentId: s.parentId,
        kind: s.kind,
        name: s.name,
        status: s.status,
        namespace: s.namespace,
        startedMs: s.startedMs,
        endedMs: s.endedMs,
        usage: s.usage.length > 0 ? toBuffer(s.usage).toString() : null,
        error: s.error,
      })),
    },
  };
}

export const statusOfOutcome = {
  [Outcome.OUTCOME_SUCCESS]: "success",
  [Outcome.OUTCOME_WAITING]: "waiting",
  [Outcome.OUTCOME_ERROR]: "error",
  [Outcome.OUTCOME_CANCELLED]: "cancelled",
} as const;

export const outcomeOfStatus = {
  pending: Outcome.OUTCOME_UNSPECIFIED,
  running: Outcome.OUTCOME_UNSPECIFIED,
  success: Outcome.OUTCOME_SUCCESS,
  waiting: Outcome.OUTCOME_WAITING,
  error: Outcome.OUTCOME_ERROR,
  timeout: Outcome.OUTCOME_ERROR,
  cancelled: Outcome.OUTCOME_CANCELLED,
} as const;

/** What is wrong with a report's own fields, or null. */
export function complainAboutReport(report: Report): string | null {
  if (report.values.length > 0 && !isJson(report.values)) return "values: not JSON";
  if (!Number.isInteger(report.events) || report.events < 0) return "events: must be a number from 0 on";
  if (report.outcome === Outcome.OUTCOME_WAITING && report.interrupts.length === 0 && report.next.length === 0) {
    return "interrupts: a waiting run names what it waits for";
  }
  const { interrupts, next } = report;
  const text = complainAboutText({ interrupts, next });
  if (text) return text;
  for (const interrupt of interrupts) {
    if (!interrupt.id || interrupt.id.length > 128) return "interrupts.id: 1 to 128 characters";
    if (!isJson(interrupt.value)) return "interrupts.value: not JSON";
  }
  return null;
}

export function toAssignment(
  claimed: Claimed,
  continued: { checkpoints: readonly StoredCheckpoint[]; blobs: readonly StoredBlob[] },
  limits: Limits,
): Assignment {
  return {
    run: toWireRun(claimed),
    threadId: claimed.threadId,
    agentId: claimed.agentId,
    graphId: claimed.graphId,
    attempt: claimed.attempt,
    purpose: claimed.purpose === "run" ? Purpose.PURPOSE_RUN : Purpose.PURPOSE_UPDATE_STATE,
    input: claimed.input ?? empty,
    command: claimed.command ?? empty,
    config: claimed.config ?? empty,
    context: claimed.context ?? empty,
    metadata: Buffer.from(claimed.metadata),
    agentConfig: Buffer.from(claimed.agentConfig),
    streamModes: [...claimed.streamModes],
    streamSubgraphs: claimed.streamSubgraphs,
    interruptBefore: [...claimed.interruptBefore],
    interruptAfter: [...claimed.interruptAfter],
    checkpoints: continued.checkpoints.map((c) => ({
      namespace: c.namespace,
      id: c.id,
      parentId: c.parentId ?? "",
      lineage: c.lineage,
      schemaVersion: c.schemaVersion,
      step: c.step,
      head: c.head,
      metadata: c.metadata,
      channels: c.channels.map((channel) => ({
        name: channel.name,
        digest: Buffer.from(channel.digest, "hex"),
        type: channel.type,
      })),
      view: empty,
      writes: c.writes.map((w) => ({ ...w })),
    })),
    blobs: continued.blobs.map((blob) => ({
      digest: Buffer.from(blob.digest, "hex"),
      part: blob.part,
      parts: blob.parts,
      data: blob.data,
    })),
    threadValues: claimed.threadValues ?? empty,
    heartbeatMs: limits.heartbeatMs,
    leaseMs: limits.leaseMs,
    deadlineMs: claimed.deadline?.getTime() ?? 0,
    traceparent: claimed.traceparent ?? "",
    stateUpdate: claimed.stateUpdate ?? empty,
    ephemeral: claimed.ephemeral,
  };
}

const recoveries: Partial<Record<Recovery, AgentOffer["recovery"]>> = {
  [Recovery.RECOVERY_UNSPECIFIED]: "restart",
  [Recovery.RECOVERY_RESTART]: "restart",
  [Recovery.RECOVERY_CHECKPOINT]: "checkpoint",
  [Recovery.RECOVERY_FAIL]: "fail",
};

export function fromWireOffer(offer: WireAgentOffer, limits: Limits): Checked<AgentOffer> {
  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(offer.graphId))
    return { complaint: "agents.graph_id: 1 to 128 characters of A-Z a-z 0-9 _ . -" };
  const text = complainAboutText({ agents: { name: offer.name, description: offer.description } });
  if (text) return { complaint: text };
  if (offer.name.length > 200) return { complaint: "agents.name: at most 200 characters" };
  const recovery = recoveries[offer.recovery];
  if (!recovery) return { complaint: "agents.recovery: unknown" };
  if (offer.maxAttempts > 100) return { complaint: "agents.max_attempts: at most 100" };
  const schemas: Record<keyof AgentOffer["schemas"], string | null> = {
    input: null,
    output: null,
    state: null,
    config: null,
    context: null,
  };
  for (const name of Object.keys(schemas) as (keyof typeof schemas)[]) {
    const bytes = offer[`${name}Schema`];
    if (bytes.length === 0) continue;
    const complaint = complainAboutJson(bytes);
    if (complaint) return { complaint: `agents.${name}_schema: ${complaint}` };
    schemas[name] = toBuffer(bytes).toString();
  }
  const parts = {
    name: offer.name,
    description: offer.description,
    schemas,
    recovery,
    maxAttempts: offer.maxAttempts || limits.maxAttempts,
    queueTimeoutMs: offer.queueTimeoutMs || limits.queueTimeoutMs,
    runTimeoutMs: offer.runTimeoutMs || null,
  };
  const digest = hash("sha256", JSON.stringify(parts));
  return { ok: { id: uuidv5(offer.graphId), graphId: offer.graphId, digest, ...parts } };
}

/** The first string of a message that cannot be stored, by the field's name in the contract. */
export function complainAboutText(message: object): string | null {
  const bad = findBadText(message, "");
  return bad && `${bad.path.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}: ${bad.reason}`;
}

/** JSON that the database reads. */
function complainAboutJson(bytes: Uint8Array): string | null {
  const parsed = parseJson(bytes);
  return parsed ? (findBadText(parsed.value, "")?.reason ?? null) : "not JSON";
}

export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function isJson(bytes: Uint8Array): boolean {
  return parseJson(bytes) !== null;
}

function parseJson(bytes: Uint8Array): { readonly value: unknown } | null {
  try {
    return { value: JSON.parse(toBuffer(bytes).toString()) };
  } catch {
    return null;
  }
}
