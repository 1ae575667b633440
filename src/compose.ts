import type { FastifyInstance } from "fastify";
import { createSseStreams } from "./agent-protocol/sse.js";
import { auditKeysOf } from "./governance/audit/signing-key.js";
import { type Authenticator, createAuthenticator } from "./governance/authenticate.js";
import type { CredentialOffice } from "./governance/change-credentials.js";
import { createDenials } from "./governance/record-denials.js";
import { createKeyring } from "./governance/secrets/envelope.js";
import type { Site } from "./governance/session-cookie.js";
import { createToolGate } from "./governance/tool-policy/ask.js";
import { startHttp } from "./http.js";
import { systemClock } from "./platform/clock.js";
import type { Config, DispatchPath } from "./platform/config.js";
import { createJobQueues, type JobQueues } from "./platform/job-queue.js";
import type { Service } from "./platform/lifecycle.js";
import { stopAll } from "./platform/lifecycle.js";
import { type Live, noLive } from "./platform/live.js";
import { startLiveRedis } from "./platform/live-redis.js";
import type { Log } from "./platform/log.js";
import { dispatchTotal } from "./platform/metrics.js";
import { uuidv7 } from "./platform/random.js";
import { startRunnerNotes } from "./runner-bridge/note-runners.js";
import { type Bridge, startBridge } from "./runner-bridge/server.js";
import { createBudgetedTenants } from "./runs/budgeted-tenants.js";
import { createFeeds, type Feeds } from "./runs/feeds.js";
import { createParked, type Parked } from "./runs/parked.js";
import { createStops, type Plane } from "./runs/plane.js";
import { createAgentResolver } from "./runs/resolve-agent.js";
import { createSignals } from "./runs/signals.js";
import { takeBack } from "./runs/take-back-run.js";
import { createCredentialWatch } from "./schema/watch-credentials.js";
import { openStores } from "./store/client.js";
import { openGraphqlReads } from "./store/graphql-reads.js";
import { startLivePostgres } from "./store/live-postgres.js";
import { createRunPath } from "./store/run-path/path.js";
import { readChunks, readHeads } from "./store/run-path/read.js";
import { createToolDecisions } from "./store/tool-decisions.js";
import { enqueueRun, startJobFetching } from "./workers/fetch-jobs.js";
import { startFeedPoll } from "./workers/poll-feeds.js";
import { startPurge } from "./workers/purge.js";
import { startRelay } from "./workers/relay-runs.js";
import { startAuditSigning } from "./workers/sign-audit.js";
import { startSweep } from "./workers/sweep-runs.js";

export interface RunningPlane {
  readonly plane: Plane;
  readonly authenticator: Authenticator;
  readonly http: { readonly url: string; readonly app: FastifyInstance } | null;
  readonly bridge: Bridge | null;
  /** Drains and stops everything, in reverse order. */
  stop(): Promise<void>;
}

/** Starts a plane. When it cannot start, for example because a port is taken, what had already started is stopped again. */
export async function compose(config: Config, log: Log): Promise<RunningPlane> {
  const services: Service[] = [];
  const stop = (): Promise<void> =>
    stopAll(services, (name, error) =>
      log.warn({ service: name, err: (error as Error).message }, "did not stop cleanly"),
    );
  try {
    return { ...(await assemble(config, log, services)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Where objects meet: top to bottom, in the order in which they start. */
async function assemble(config: Config, log: Log, services: Service[]): Promise<Omit<RunningPlane, "stop">> {
  const clock = systemClock;
  const { limits } = config;
  const stores = openStores(config.databaseUrl, config.sweeperDatabaseUrl, log);
  services.push({ name: "stores", stop: stores.close });

  const live: Live = config.redisUrl
    ? startLiveRedis(config.redisUrl, log)
    : config.databaseUrl
      ? startLivePostgres(config.databaseUrl, log)
      : noLive();
  services.push({ name: "live", stop: live.stop });
  const ways = new Set<DispatchPath>(config.dispatch);
  const queueStore = config.redisUrl
    ? ({ kind: "redis", url: config.redisUrl } as const)
    : config.queueDatabaseUrl
      ? ({ kind: "postgres", url: config.queueDatabaseUrl } as const)
      : null;
  const queues: JobQueues | null =
    queueStore && ways.has("queue") ? createJobQueues(queueStore, log, limits.jobLockMs) : null;
  if (queues) services.push({ name: "job queues", stop: queues.stop });

  const path = createRunPath(stores, limits, {
    room: () => parked.room(),
    reserve: (queue) => parked.reserve(queue),
  });
  const stops = createStops();
  const signals = createSignals({
    live,
    processId: uuidv7(),
    feeds: () => feeds,
    parked: () => parked,
    stops,
    monotonic: clock.monotonic,
    enqueue: (queue, tenantId, runId, dispatchNo) => {
      if (queues) enqueueRun(queues, queue, tenantId, runId, dispatchNo);
    },
  });
  services.push({ name: "signals", stop: signals.close });
  const feeds: Feeds = createFeeds(
    {
      readChunks: (key, after) => readChunks(stores.path, key, after),
      readHeads: (keys) => readHeads(stores.path, keys),
    },
    limits,
    signals.interest,
  );
  const parked: Parked = createParked({
    path,
    ways,
    count: (way, runs) => dispatchTotal.inc({ path: way }, runs),
    onError: (error) => log.warn({ err: (error as Error).message }, "a claim failed"),
    handBack: (claimed) => {
      takeBack(plane, claimed, "undelivered").catch((error: unknown) =>
        log.warn({ err: (error as Error).message }, "a run could not be handed back"),
      );
    },
  });
  const denials = createDenials(stores, log);
  services.push({ name: "denials", stop: denials.stop });
  const decisions = createToolDecisions(stores);
  const plane: Plane = {
    stores,
    path,
    feeds,
    parked,
    agents: createAgentResolver(stores, clock),
    stops,
    signals,
    limits,
    denials,
    tools: createToolGate(stores, decisions, clock),
    budgeted: createBudgetedTenants(stores, systemClock),
    clock,
    log,
  };
  const authenticator = createAuthenticator(stores, config.rootKey, clock, limits);
  services.push({ name: "credential notes", stop: authenticator.stop });
  live.on("credential", (publicId) => authenticator.forget(publicId.toString()));
  const office: CredentialOffice = {
    stores,
    rootKey: config.rootKey,
    clock,
    changed: (publicId) => {
      authenticator.forget(publicId);
      live.publish("credential", Buffer.from(publicId));
    },
  };

  const signer = { stores, clock, ...auditKeysOf(config) };

  services.push({ name: "path", stop: path.drained }, { name: "tool decisions", stop: decisions.drained });
  services.push(startFeedPoll(plane));
  if (config.roles.includes("worker")) {
    const signing = { records: limits.auditCheckpointRecords, everyMs: limits.auditCheckpointMs };
    services.push(startSweep(plane), startPurge(plane), startAuditSigning(signer, log, signing));
  }
  let bridge: Bridge | null = null;
  if (config.roles.includes("bridge")) {
    if (ways.has("relay") || ways.has("queue")) services.push(startRelay(plane, ways.has("relay")));
    if (queues) services.push(startJobFetching(queues, parked));
    bridge = await startBridge(plane, authenticator, {
      host: config.grpcHost,
      port: config.grpcPort,
      tlsCert: config.grpcTlsCert,
      tlsKey: config.grpcTlsKey,
    });
    services.push(bridge, startRunnerNotes(plane, bridge.sessions));
  }
  let http: RunningPlane["http"] = null;
  if (config.roles.includes("api")) {
    const streams = createSseStreams(limits.keepAliveMs);
    const reads = openGraphqlReads(config.databaseUrl, log);
    const watch = createCredentialWatch(authenticator);
    services.push(
      { name: "graphql reads", stop: reads.close },
      { name: "credential watch", stop: async () => watch.stop() },
    );
    const site: Site = { origin: config.publicUrl ? new URL(config.publicUrl).origin : "" };
    const keyring = createKeyring(config.secretsKeys ?? [config.rootKey]);
    const graphql = { plane, office, signer, keyring, reads, watch, site };
    const server = await startHttp(config, plane, authenticator, streams, queues, graphql);
    http = server;
    services.push({ name: "streams", stop: streams.stop }, server);
  }
  return {
    plane,
    authenticator,
    http,
    bridge,
  };
}
