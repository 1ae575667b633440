import { randomUUID } from "node:crypto";
import { type ClientDuplexStream, type ClientReadableStream, credentials, Metadata } from "@grpc/grpc-js";
import {
  type Acknowledgement,
  type Assignment,
  type EventBatch,
  EventList,
  Family,
  type GetJobRequest,
  type GetJobResponse,
  type HeartbeatResponse,
  Outcome,
  type PolicyAsk,
  type PolicyDecision,
  type Pulse,
  Recovery,
  type Report,
  type ReportStatusResponse,
  Retention,
  RunnerServiceClient,
  type RunRef,
  type StreamEventsRequest,
  type StreamEventsResponse,
  type Verdict,
  type WatchCancelsResponse,
} from "../../src/generated/proto/fairlead/runner/v1/runner.js";

// A runner without manners: it says exactly what a test wants to hear the answer to.

const callDeadlineMs = 60_000;
const empty = Buffer.alloc(0);

export interface RawRunner {
  readonly runnerId: string;
  readonly client: RunnerServiceClient;
  getJob(request?: Partial<GetJobRequest>, signal?: AbortSignal): Promise<GetJobResponse>;
  /** Polls until an assignment comes. */
  take(): Promise<Assignment>;
  heartbeat(...runs: RunRef[]): Promise<Pulse[]>;
  /** Beats for a run until the returned function is called; resolves once the first beat was answered. Failures are a runner's daily bread. */
  keepAlive(run: RunRef): Promise<() => void>;
  report(...reports: Partial<Report>[]): Promise<Verdict[]>;
  events(): RawStream;
  watchCancels(): RawCancels;
  close(): void;
}

export interface RawStream {
  readonly call: ClientDuplexStream<StreamEventsRequest, StreamEventsResponse>;
  /** Sends batches and resolves with the answers to them, in the order in which they come. */
  send(...batches: EventBatch[]): Promise<Acknowledgement[]>;
  /** Asks for tools and resolves with the answer to each, by its ask id; rejects when the stream ends first. */
  ask(...asks: PolicyAsk[]): Promise<PolicyDecision[]>;
  readonly controls: StreamEventsResponse[];
  /** The status with which the stream ended. */
  readonly ended: Promise<{ code: number; details: string }>;
}

export interface RawCancels {
  readonly call: ClientReadableStream<WatchCancelsResponse>;
  readonly told: RunRef[];
  readonly ended: Promise<{ code: number; details: string }>;
}

export interface RawRunnerOptions {
  readonly address: string;
  readonly token: string;
  readonly kind?: string;
  readonly graphs?: readonly string[];
  readonly maxAttempts?: number;
  readonly runnerId?: string;
  /** How often it pings, calls or no calls. */
  readonly pingEveryMs?: number;
}

export function rawRunner(options: RawRunnerOptions): RawRunner {
  const { address, token, kind = "typescript", graphs = ["raw"], maxAttempts = 3 } = options;
  const runnerId = options.runnerId ?? randomUUID();
  const client = new RunnerServiceClient(address, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 500,
    ...(options.pingEveryMs === undefined
      ? {}
      : { "grpc.keepalive_time_ms": options.pingEveryMs, "grpc.keepalive_permit_without_calls": 1 }),
  });
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  const deadline = () => ({ deadline: Date.now() + callDeadlineMs });
  const digest = `raw-${graphs.join(",")}-${maxAttempts}`;
  const agents = graphs.map((graphId) => offerOf(graphId, maxAttempts));

  const getJob = (request: Partial<GetJobRequest> = {}, signal?: AbortSignal): Promise<GetJobResponse> =>
    new Promise((resolve, reject) => {
      const whole: GetJobRequest = {
        runnerId,
        kind,
        version: "raw",
        freeSlots: 1,
        capacity: 100,
        waitMs: 5_000,
        announcementDigest: digest,
        agents,
        ...request,
      };
      const call = client.getJob(whole, metadata, deadline(), (error, response) =>
        error ? reject(error) : resolve(response),
      );
      signal?.addEventListener("abort", () => call.cancel(), { once: true });
    });

  const heartbeat = (...runs: RunRef[]): Promise<Pulse[]> =>
    new Promise((resolve, reject) => {
      client.heartbeat({ runnerId, runs }, metadata, deadline(), (error, response: HeartbeatResponse) =>
        error ? reject(error) : resolve(response.pulses),
      );
    });

  return {
    runnerId,
    client,
    getJob,
    take: async () => {
      const until = performance.now() + callDeadlineMs;
      while (performance.now() < until) {
        const { assignments } = await getJob({ waitMs: 2_000 });
        if (assignments[0]) return assignments[0];
      }
      throw new Error(`no assignment came within ${callDeadlineMs} ms`);
    },
    heartbeat,
    keepAlive: async (run) => {
      await heartbeat(run);
      const timer = setInterval(() => void heartbeat(run).catch(() => {}), 200);
      return () => clearInterval(timer);
    },
    report: (...reports) =>
      new Promise((resolve, reject) => {
        const request = { runnerId, reports: reports.map((report) => ({ ...emptyReport, ...report })) };
        client.reportStatus(request, metadata, deadline(), (error, response: ReportStatusResponse) =>
          error ? reject(error) : resolve(response.verdicts),
        );
      }),
    events: () => openEvents(client, metadata, runnerId, kind),
    watchCancels: () => {
      const call = client.watchCancels({ runnerId, kind }, metadata);
      const told: RunRef[] = [];
      call.on("data", (news: WatchCancelsResponse) => told.push(...news.runs));
      return { call, told, ended: endOf(call) };
    },
    close: () => client.close(),
  };
}

const emptyReport: Report = {
  run: undefined,
  outcome: Outcome.OUTCOME_SUCCESS,
  events: 0,
  tail: undefined,
  values: empty,
  failure: undefined,
  interrupts: [],
  next: [],
};

function offerOf(graphId: string, maxAttempts: number) {
  return {
    graphId,
    name: graphId,
    description: "",
    inputSchema: empty,
    outputSchema: empty,
    stateSchema: empty,
    configSchema: empty,
    contextSchema: empty,
    recovery: Recovery.RECOVERY_RESTART,
    maxAttempts,
    queueTimeoutMs: 0,
    runTimeoutMs: 0,
  };
}

function openEvents(client: RunnerServiceClient, metadata: Metadata, runnerId: string, kind: string): RawStream {
  const call = client.streamEvents(metadata);
  const controls: StreamEventsResponse[] = [];
  const answers: Acknowledgement[] = [];
  const waiting: { count: number; resolve: (answers: Acknowledgement[]) => void; reject: (error: Error) => void }[] =
    [];
  const asked = new Map<string, { resolve: (decision: PolicyDecision) => void; reject: (error: Error) => void }[]>();
  const serve = (): void => {
    for (let first = waiting[0]; first && answers.length >= first.count; first = waiting[0]) {
      waiting.shift();
      first.resolve(answers.splice(0, first.count));
    }
  };
  call.on("data", (response: StreamEventsResponse) => {
    if (response.message?.$case === "acknowledgements") {
      answers.push(...response.message.value.acknowledgements);
      serve();
    } else if (response.message?.$case === "decision") {
      const { value } = response.message;
      asked.get(value.askId)?.shift()?.resolve(value);
    } else controls.push(response);
  });
  const ended = endOf(call);
  void ended.then(({ code, details }) => {
    const error = new Error(`the stream ended: ${code} ${details}`);
    for (const waiter of waiting.splice(0)) waiter.reject(error);
    for (const waiters of asked.values()) for (const waiter of waiters.splice(0)) waiter.reject(error);
  });
  call.write({ hello: { runnerId, kind }, batches: [], asks: [] });
  return {
    call,
    controls,
    ended,
    ask: (...asks) => {
      const answered = asks.map(
        ({ askId }) =>
          new Promise<PolicyDecision>((resolve, reject) => {
            const waiters = asked.get(askId) ?? [];
            asked.set(askId, waiters);
            waiters.push({ resolve, reject });
          }),
      );
      call.write({ hello: undefined, batches: [], asks });
      return Promise.all(answered);
    },
    send: (...batches) =>
      new Promise((resolve, reject) => {
        waiting.push({ count: batches.length, resolve, reject });
        call.write({ hello: undefined, batches, asks: [] });
      }),
  };
}

function endOf(
  call: ClientReadableStream<WatchCancelsResponse> | ClientDuplexStream<StreamEventsRequest, StreamEventsResponse>,
): Promise<{ code: number; details: string }> {
  return new Promise((resolve) => {
    call.on("status", (status: { code: number; details: string }) => resolve(status));
    call.on("error", () => {});
  });
}

/** A batch of custom events, numbered from `first` in the runner's sequence; each body names its number. */
export function batchOf(
  run: RunRef | undefined,
  first: number,
  count: number,
  more: Partial<EventBatch> = {},
): EventBatch {
  return {
    run,
    first,
    segments: [segmentOf(count, (at) => ({ n: first + at }))],
    checkpoints: [],
    writes: [],
    blobs: [],
    steps: [],
    ...more,
  };
}

export function segmentOf(count: number, body: (at: number) => unknown, family: number = Family.FAMILY_CUSTOM) {
  return {
    retention: Retention.RETENTION_DURABLE,
    count,
    events: listOf(Array.from({ length: count }, (_, at) => ({ family, body: Buffer.from(JSON.stringify(body(at))) }))),
  };
}

/** A serialized EventList. */
export function listOf(events: readonly { family: number; body: Buffer; mode?: string; name?: string }[]): Buffer {
  return Buffer.from(
    EventList.encode({
      events: events.map(({ family, body, mode = "custom", name = "" }) => ({
        family: family as Family,
        mode,
        name,
        namespace: [],
        node: "",
        body,
        legacyBody: empty,
        timeMs: 1_700_000_000_000,
      })),
    }).finish(),
  );
}
