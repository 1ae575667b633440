import { createHash } from "node:crypto";
import {
  type Acknowledgement,
  type Assignment,
  BatchVerdict,
  type Blob,
  type Checkpoint,
  type Event,
  type EventBatch,
  EventList,
  Outcome,
  type PendingWrite,
  Purpose,
  type Report,
  ReportVerdict,
  Retention,
  type RunRef,
  type Step,
  type Verdict,
} from "../../../src/generated/proto/fairlead/runner/v1/runner.js";

// What a plane remembers, in memory, with the rules of the protocol. Whatever a runner does against them is kept as a violation.

// Bodies of any shape are read here by tests that know theirs.
// oxlint-disable-next-line typescript/no-explicit-any
type Json = any;

export interface StoredEvent extends Event {
  readonly number: number;
  readonly retention: Retention;
  /** Parsed bodies. */
  readonly json: Json;
  readonly legacy: Json;
}

export interface StoredRun {
  readonly assignment: Assignment;
  generation: number;
  /** Of the current generation. */
  stored: number;
  readonly events: StoredEvent[];
  readonly checkpoints: Checkpoint[];
  readonly writes: PendingWrite[];
  readonly steps: Step[];
  outcome: Outcome;
  report: Report | undefined;
  /** Every report that was received, recorded or not. */
  readonly reports: Report[];
  cancel: boolean;
  /** Verdicts of batches, in order. */
  readonly verdicts: BatchVerdict[];
  /** Digests of the blobs that came with the assignment or from the run. */
  readonly blobs: Set<string>;
}

export type PlaneStore = ReturnType<typeof createPlaneStore>;

export function createPlaneStore() {
  const runs = new Map<string, StoredRun>();
  const blobs = new Map<string, Buffer>();
  const parts = new Map<string, Buffer[]>();
  const violations: string[] = [];
  const nameOf = (ref: RunRef): string => `${ref.tenantId}/${ref.runId}`;

  function violated(what: string): void {
    violations.push(what);
  }

  function create(assignment: Assignment): StoredRun {
    const run: StoredRun = {
      assignment,
      generation: assignment.run!.generation,
      stored: 0,
      events: [],
      checkpoints: [],
      writes: [],
      steps: [],
      outcome: Outcome.OUTCOME_UNSPECIFIED,
      report: undefined,
      reports: [],
      cancel: false,
      verdicts: [],
      blobs: new Set(assignment.blobs.map(({ digest }) => digest.toString("hex"))),
    };
    runs.set(nameOf(assignment.run!), run);
    return run;
  }

  /** The run, when this generation is its current one and it has not ended. */
  function current(ref: RunRef | undefined): StoredRun | undefined {
    if (ref === undefined || ref.generation < 1) {
      violated("a message without a run, or with generation 0");
      return undefined;
    }
    const run = runs.get(nameOf(ref));
    if (run === undefined) violated(`a message about a run that was never assigned: ${nameOf(ref)}`);
    return run?.generation === ref.generation && run.outcome === Outcome.OUTCOME_UNSPECIFIED ? run : undefined;
  }

  function append(batch: EventBatch): Acknowledgement {
    const run = current(batch.run);
    const answer = (verdict: BatchVerdict): Acknowledgement => {
      runs.get(nameOf(batch.run!))?.verdicts.push(verdict);
      return { run: batch.run, verdict, stored: run?.stored ?? 0, message: "" };
    };
    if (run === undefined) return answer(BatchVerdict.BATCH_VERDICT_SUPERSEDED);
    if (batch.first !== run.stored + 1) return answer(BatchVerdict.BATCH_VERDICT_OUT_OF_ORDER);
    store(run, batch);
    return answer(BatchVerdict.BATCH_VERDICT_STORED);
  }

  function store(run: StoredRun, batch: EventBatch): void {
    const events = batch.segments.flatMap(({ retention, count, events: bytes }) => {
      const list = EventList.decode(bytes).events;
      if (list.length !== count) violated(`a segment counts ${count} and holds ${list.length}`);
      if (retention !== Retention.RETENTION_DURABLE && retention !== Retention.RETENTION_DELTA) {
        violated(`a segment with retention ${retention}`);
      }
      return list.map((event) => ({ event, retention }));
    });
    if (events.length === 0) violated("a batch without events");
    for (const { event, retention } of events) {
      run.stored += 1;
      for (const body of [event.body, event.legacyBody]) {
        if (body.includes("\n")) violated("a body of several lines");
      }
      const parse = (bytes: Buffer): unknown => (bytes.length === 0 ? undefined : JSON.parse(bytes.toString("utf8")));
      const [json, legacy] = [parse(event.body), parse(event.legacyBody)];
      run.events.push({ ...event, number: run.stored, retention, json, legacy });
    }
    for (const blob of batch.blobs) {
      if (blob.data.length > 1024 * 1024) violated("a part above 1 MiB");
      const key = blob.digest.toString("hex");
      const list = parts.get(key) ?? [];
      if (list.length !== blob.part) violated(`part ${blob.part} of a blob came as number ${list.length}`);
      list.push(blob.data);
      parts.set(key, list);
      if (list.length < blob.parts) continue;
      parts.delete(key);
      const data = Buffer.concat(list);
      if (createHash("sha256").update(data).digest("hex") !== key) violated("a blob whose digest is wrong");
      if (run.blobs.has(key)) violated("a blob that the run had sent, or was given, before");
      run.blobs.add(key);
      blobs.set(key, data);
    }
    for (const checkpoint of batch.checkpoints) {
      for (const channel of checkpoint.channels) {
        if (!blobs.has(channel.digest.toString("hex")))
          violated(`channel ${channel.name} names a blob that never came`);
      }
      const known = run.checkpoints.findIndex(
        (one) => one.id === checkpoint.id && one.namespace === checkpoint.namespace,
      );
      if (known >= 0) run.checkpoints[known] = checkpoint;
      else run.checkpoints.push(checkpoint);
    }
    for (const write of batch.writes) keepWrite(run, write);
    for (const step of batch.steps) {
      const known = run.steps.findIndex((one) => one.id === step.id);
      if (known >= 0) run.steps[known] = step;
      else run.steps.push(step);
    }
  }

  function keepWrite(run: StoredRun, write: PendingWrite): void {
    const same = (one: PendingWrite): boolean =>
      one.namespace === write.namespace &&
      one.checkpointId === write.checkpointId &&
      one.taskId === write.taskId &&
      one.index === write.index;
    const known = run.writes.findIndex(same);
    if (known < 0) run.writes.push(write);
    else if (write.index < 0) run.writes[known] = write;
  }

  function finish(report: Report): Verdict {
    const ref = report.run!;
    const known = runs.get(nameOf(ref));
    known?.reports.push(report);
    const answer = (verdict: ReportVerdict, missingFrom = 0): Verdict => {
      return { run: ref, verdict, missingFrom, stored: known?.outcome ?? Outcome.OUTCOME_UNSPECIFIED, message: "" };
    };
    if (known?.generation === ref.generation && known.outcome !== Outcome.OUTCOME_UNSPECIFIED) {
      return answer(ReportVerdict.REPORT_VERDICT_REPLAYED);
    }
    const run = current(ref);
    if (run === undefined) return answer(ReportVerdict.REPORT_VERDICT_SUPERSEDED);
    const reach = report.tail === undefined ? run.stored : report.tail.first - 1;
    if (reach !== run.stored) return answer(ReportVerdict.REPORT_VERDICT_MISSING, run.stored + 1);
    const tailEvents = report.tail?.segments.reduce((sum, segment) => sum + segment.count, 0) ?? 0;
    if (run.stored + tailEvents !== report.events) return answer(ReportVerdict.REPORT_VERDICT_MISSING, run.stored + 1);
    if (report.tail !== undefined) store(run, report.tail);
    if (report.outcome === Outcome.OUTCOME_RELEASED) run.generation += 1;
    else run.outcome = report.outcome;
    run.report = report;
    return answer(ReportVerdict.REPORT_VERDICT_RECORDED);
  }

  /** What a next attempt gets: the newest checkpoint of each namespace that any run of the thread wrote, with its pending writes. */
  function lineage(threadId: string): Pick<Assignment, "checkpoints" | "blobs"> {
    const newest = new Map<string, Checkpoint>();
    const ofThread = [...runs.values()].filter((run) => run.assignment.threadId === threadId);
    for (const checkpoint of ofThread.flatMap((run) => run.checkpoints)) {
      const before = newest.get(checkpoint.namespace);
      if (before === undefined || before.id <= checkpoint.id) newest.set(checkpoint.namespace, checkpoint);
    }
    const writes = ofThread.flatMap((run) => run.writes);
    const checkpoints = [...newest.values()].map((checkpoint) => ({
      ...checkpoint,
      writes: dedupe(writes.filter((w) => w.namespace === checkpoint.namespace && w.checkpointId === checkpoint.id)),
    }));
    const digests = new Set(
      checkpoints.flatMap(({ channels }) => channels.map(({ digest }) => digest.toString("hex"))),
    );
    const sent = [...digests].map((key) => {
      const digest = Buffer.from(key, "hex");
      return { digest, part: 0, parts: 1, data: blobs.get(key)! };
    });
    return { checkpoints, blobs: sent };
  }

  function blob(digest: Buffer): Blob {
    return { digest, part: 0, parts: 1, data: blobs.get(digest.toString("hex"))! };
  }

  return { blob, runs, violations, violated, create, current, append, finish, lineage, nameOf };
}

/** Special writes of a later run replace those of an earlier one. */
function dedupe(writes: PendingWrite[]): PendingWrite[] {
  const kept = new Map<string, PendingWrite>();
  for (const write of writes) {
    const key = `${write.taskId}/${write.index}`;
    if (write.index < 0 || !kept.has(key)) kept.set(key, write);
  }
  return [...kept.values()];
}

export function assignmentOf(fields: Partial<Assignment> & { json?: Record<string, unknown> } = {}): Assignment {
  const { json = {}, ...rest } = fields;
  const bytes = (value: unknown): Buffer =>
    value === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(value));
  return {
    run: { tenantId: "tenant-1", runId: crypto.randomUUID(), generation: 1 },
    threadId: crypto.randomUUID(),
    agentId: "agent-1",
    graphId: "echo",
    attempt: 1,
    purpose: Purpose.PURPOSE_RUN,
    input: bytes(json["input"]),
    command: bytes(json["command"]),
    config: bytes(json["config"]),
    context: bytes(json["context"]),
    metadata: bytes(json["metadata"]),
    agentConfig: bytes(json["agentConfig"]),
    streamModes: ["values"],
    streamSubgraphs: false,
    interruptBefore: [],
    interruptAfter: [],
    checkpoints: [],
    blobs: [],
    threadValues: bytes(json["threadValues"]),
    heartbeatMs: 3_000,
    leaseMs: 10_000,
    deadlineMs: 0,
    traceparent: "",
    stateUpdate: bytes(json["stateUpdate"]),
    ephemeral: false,
    ...rest,
  };
}
