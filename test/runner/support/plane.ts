import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import {
  type AgentOffer,
  type Assignment,
  BatchVerdict,
  type Control,
  type GetJobRequest,
  type GetJobResponse,
  type HeartbeatRequest,
  type HeartbeatResponse,
  type Report,
  type ReportStatusRequest,
  type ReportStatusResponse,
  ReportVerdict,
  type RunnerServiceServer,
  RunnerServiceService,
  type StreamEventsRequest,
  type StreamEventsResponse,
  type WatchCancelsRequest,
  type WatchCancelsResponse,
} from "../../../src/generated/proto/fairlead/runner/v1/runner.js";
import { assignmentOf, createPlaneStore, type PlaneStore, type StoredRun } from "./plane-store.js";
import { until } from "./until.js";

// The far side of the wire: a real gRPC server that speaks the Runner Protocol from memory, and can be told to misbehave.

export type Method = "getJob" | "streamEvents" | "reportStatus" | "heartbeat" | "watchCancels";

export interface Switches {
  /** Store batches without a word. */
  dropAcks: boolean;
  /** Do not even store them. */
  dropBatches: boolean;
  /** Answer heartbeats late, or never. */
  holdHeartbeats: boolean;
  /** Keep reports unanswered as long as this promise is, as a plane does that waits for its store. */
  reportsWait: Promise<void> | undefined;
  /** These calls are answered UNAVAILABLE. */
  readonly unavailable: Set<Method>;
  /** The answers of the next reports. */
  readonly reportVerdicts: ReportVerdict[];
  /** Judge the next report as if the last event were not stored yet, and acknowledge that event before the answer goes out. */
  overtaken: boolean;
  token: string;
  kind: string;
  /** Forget announcements, as another replica would. */
  knowsAnnouncements: boolean;
  /** How long a renewal may be trusted; 0 means the lease of the assignment. */
  trustedMs: number;
}

export interface Plane {
  readonly address: string;
  readonly store: PlaneStore;
  readonly switches: Switches;
  readonly calls: Call[];
  readonly announced: AgentOffer[][];
  /** Hands out a run as soon as a runner asks; answers with what is stored about it. */
  assign(fields?: Parameters<typeof assignmentOf>[0]): StoredRun;
  /** The same run for the next one who asks, under a higher generation, with the checkpoints that are stored. */
  reassign(run: StoredRun, fields?: Partial<Assignment>): StoredRun;
  ended(run: StoredRun, withinMs?: number): Promise<StoredRun>;
  /** Down the event stream. */
  control(control: Control): void;
  cancelByWatch(run: StoredRun): void;
  breakStreams(): void;
  stop(): Promise<void>;
  /** Comes back on the same port with the same memory. */
  start(): Promise<void>;
}

export interface Call {
  readonly method: Method;
  readonly at: number;
  readonly request: unknown;
}

export async function startPlane(overrides: Partial<Switches> = {}): Promise<Plane> {
  const store = createPlaneStore();
  const switches: Switches = {
    dropAcks: false,
    dropBatches: false,
    holdHeartbeats: false,
    reportsWait: undefined,
    unavailable: new Set(),
    reportVerdicts: [],
    overtaken: false,
    token: "flr_test",
    kind: "typescript",
    knowsAnnouncements: true,
    trustedMs: 0,
    ...overrides,
  };
  const calls: Call[] = [];
  const announced: AgentOffer[][] = [];
  const digests = new Set<string>();
  const waiting: Assignment[] = [];
  const parked = new Set<() => void>();
  const streams = new Set<ServerDuplexStream<StreamEventsRequest, StreamEventsResponse>>();
  const watches = new Set<ServerWritableStream<WatchCancelsRequest, WatchCancelsResponse>>();
  let server: Server | undefined;
  let port = 0;

  function refused(
    method: Method,
    metadata: Metadata,
    request: unknown,
  ): { code: status; details: string } | undefined {
    calls.push({ method, at: performance.now(), request });
    if (switches.unavailable.has(method)) return { code: status.UNAVAILABLE, details: "the test switched it off" };
    if (metadata.get("authorization")[0] !== `Bearer ${switches.token}`) {
      return { code: status.UNAUTHENTICATED, details: "unknown token" };
    }
    return undefined;
  }

  function getJob(call: ServerUnaryCall<GetJobRequest, GetJobResponse>, answer: sendUnaryData<GetJobResponse>): void {
    const { request } = call;
    const refusal = refused("getJob", call.metadata, request);
    if (refusal) {
      answer(refusal);
      return;
    }
    if (request.kind !== switches.kind) {
      answer({ code: status.PERMISSION_DENIED, details: `the token is for kind ${switches.kind}` });
      return;
    }
    if (request.agents.length > 0) {
      announced.push(request.agents);
      digests.add(request.announcementDigest);
    }
    if (!switches.knowsAnnouncements || !digests.has(request.announcementDigest)) {
      switches.knowsAnnouncements = true;
      digests.clear();
      answer(null, { assignments: [], announce: true, draining: false });
      return;
    }
    const hand = (): void => {
      parked.delete(hand);
      clearTimeout(timer);
      const assignments = call.cancelled ? [] : waiting.splice(0, request.freeSlots);
      answer(null, { assignments, announce: false, draining: false });
    };
    const timer = setTimeout(hand, request.waitMs);
    call.on("cancelled", () => {
      parked.delete(hand);
      clearTimeout(timer);
    });
    parked.add(hand);
    if (waiting.length > 0 || request.waitMs === 0) hand();
  }

  function streamEvents(call: ServerDuplexStream<StreamEventsRequest, StreamEventsResponse>): void {
    const refusal = refused("streamEvents", call.metadata, undefined);
    if (refusal) {
      call.emit("error", refusal);
      return;
    }
    let greeted = false;
    streams.add(call);
    call.on("data", ({ hello, batches }: StreamEventsRequest) => {
      if (!greeted && hello === undefined) store.violated("a stream without a hello");
      greeted = true;
      calls.push({ method: "streamEvents", at: performance.now(), request: { hello, batches } });
      if (switches.dropBatches) return;
      const acknowledgements = batches.map((batch) => store.append(batch));
      if (switches.dropAcks || acknowledgements.length === 0) return;
      call.write({ message: { $case: "acknowledgements", value: { acknowledgements } } });
    });
    const gone = (): void => {
      streams.delete(call);
    };
    call.on("end", () => {
      gone();
      call.end();
    });
    call.on("error", gone);
    call.on("cancelled", gone);
  }

  function reportStatus(
    call: ServerUnaryCall<ReportStatusRequest, ReportStatusResponse>,
    answer: sendUnaryData<ReportStatusResponse>,
  ): void {
    const refusal = refused("reportStatus", call.metadata, call.request);
    if (refusal) {
      answer(refusal);
      return;
    }
    if (switches.reportsWait !== undefined) {
      const over = switches.reportsWait;
      switches.reportsWait = undefined;
      void over.then(() => judgeReports(call, answer));
      return;
    }
    judgeReports(call, answer);
  }

  function judgeReports(
    call: ServerUnaryCall<ReportStatusRequest, ReportStatusResponse>,
    answer: sendUnaryData<ReportStatusResponse>,
  ): void {
    if (switches.overtaken) {
      switches.overtaken = false;
      answerOvertaken(call.request.reports, answer);
      return;
    }
    const verdicts = call.request.reports.map((report) => {
      const forced = switches.reportVerdicts.shift();
      if (forced === undefined) return store.finish(report);
      store.current(report.run)?.reports.push(report);
      return { run: report.run, verdict: forced, missingFrom: 1, stored: 0 as const, message: "the test said so" };
    });
    answer(null, { verdicts });
  }

  function answerOvertaken(reports: Report[], answer: sendUnaryData<ReportStatusResponse>): void {
    const known = reports.map((report) => ({ run: report.run, stored: store.current(report.run)?.stored ?? 0 }));
    const acknowledgements = known.map((one) => ({ ...one, verdict: BatchVerdict.BATCH_VERDICT_STORED, message: "" }));
    for (const stream of streams) {
      stream.write({ message: { $case: "acknowledgements", value: { acknowledgements } } });
    }
    const verdict = ReportVerdict.REPORT_VERDICT_MISSING;
    const verdicts = known.map(({ run, stored }) => ({
      run,
      verdict,
      missingFrom: stored,
      stored: 0 as const,
      message: "",
    }));
    setTimeout(() => answer(null, { verdicts }), 50);
  }

  function heartbeat(
    call: ServerUnaryCall<HeartbeatRequest, HeartbeatResponse>,
    answer: sendUnaryData<HeartbeatResponse>,
  ): void {
    const refusal = refused("heartbeat", call.metadata, call.request);
    if (refusal) {
      answer(refusal);
      return;
    }
    if (switches.holdHeartbeats) return;
    const pulses = call.request.runs.map((ref) => {
      const run = store.current(ref);
      const trustedMs = switches.trustedMs || (run?.assignment.leaseMs ?? 0);
      return { run: ref, superseded: run === undefined, cancel: run?.cancel ?? false, trustedMs };
    });
    answer(null, { pulses });
  }

  function watchCancels(call: ServerWritableStream<WatchCancelsRequest, WatchCancelsResponse>): void {
    const refusal = refused("watchCancels", call.metadata, call.request);
    if (refusal) {
      call.emit("error", refusal);
      return;
    }
    watches.add(call);
    call.on("cancelled", () => watches.delete(call));
    const open = [...store.runs.values()].filter((run) => run.cancel);
    if (open.length > 0)
      call.write({ runs: open.map((run) => ({ ...run.assignment.run!, generation: run.generation })) });
  }

  async function start(): Promise<void> {
    server = new Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
    const service: RunnerServiceServer = { getJob, streamEvents, reportStatus, heartbeat, watchCancels };
    server.addService(RunnerServiceService, service);
    port = await new Promise<number>((resolve, reject) => {
      server!.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
  }

  async function stop(): Promise<void> {
    const stopping = server;
    server = undefined;
    stopping?.forceShutdown();
    streams.clear();
    watches.clear();
    for (const hand of parked) parked.delete(hand);
  }

  function assign(fields: Parameters<typeof assignmentOf>[0] = {}): StoredRun {
    const assignment = assignmentOf(fields);
    const run = store.create(assignment);
    offer(assignment);
    return run;
  }

  function reassign(run: StoredRun, fields: Partial<Assignment> = {}): StoredRun {
    run.generation += 1;
    run.stored = 0;
    const ref = { ...run.assignment.run!, generation: run.generation };
    const attempt = run.assignment.attempt + 1;
    const lineage = store.lineage(run.assignment.threadId);
    for (const { digest } of lineage.blobs) run.blobs.add(digest.toString("hex"));
    offer({ ...run.assignment, ...lineage, attempt, ...fields, run: ref });
    return run;
  }

  function offer(assignment: Assignment): void {
    waiting.push(assignment);
    for (const hand of [...parked].slice(0, 1)) hand();
  }

  await start();
  return {
    get address() {
      return `127.0.0.1:${port}`;
    },
    store,
    switches,
    calls,
    announced,
    assign,
    reassign,
    ended: (run, withinMs) =>
      until(`run ${run.assignment.run!.runId} ends`, () => (run.outcome !== 0 ? run : undefined), withinMs),
    control: (control) => {
      for (const call of streams) call.write({ message: { $case: "control", value: control } });
    },
    cancelByWatch: (run) => {
      for (const call of watches) call.write({ runs: [{ ...run.assignment.run!, generation: run.generation }] });
    },
    breakStreams: () => {
      for (const call of streams) call.emit("error", { code: status.UNAVAILABLE, details: "the test broke it" });
    },
    stop,
    start,
  };
}
