// The whole plane on one machine, from nothing to a first run: stores, migrations, a demo tenant, the plane, a sample runner. What was started is
// stopped in reverse order, whether by Ctrl-C, by a failure, or in the middle of the start.
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { compose, type RunningPlane } from "../compose.js";
import { operatorTenantId } from "../domain/ids.js";
import { readConfig, readGivenStores } from "../platform/config.js";
import { type Service, stopAll } from "../platform/lifecycle.js";
import { createLog } from "../platform/log.js";
import { SetupError } from "../platform/setup-error.js";
import { waitFor } from "../platform/wait-for.js";
import {
  keepSampleToken,
  keptGrpcPort,
  keptRootKey,
  keptSampleToken,
  openDataDirectory,
  requireDiskSpace,
} from "./data-directory.js";
import { demonstrate, type ListedAgent, listAgents } from "./demonstration.js";
import { type DevFile, readDevFile, writeDevFile } from "./dev-file.js";
import { greeting } from "./greeting.js";
import type { DevOptions } from "./options.js";
import { SAMPLE_CONFIG, type SampleRunner, startSampleRunner } from "./sample-runner.js";
import { seedDemoTenant, seedSampleToken } from "./seed.js";
import { isStopping, listenForStop } from "./stop-signal.js";
import { prepareDatabase, type Say, startDatabase, startQueueStore } from "./stores.js";

const HOST = "127.0.0.1";
const RUNNER_TIMEOUT_MS = 30_000;

/** Runs until somebody wants it to stop. */
export async function runDev(options: DevOptions, say: Say): Promise<void> {
  const services: Service[] = [];
  const stop = listenForStop(() => say("Stopping …"));
  try {
    await start(options, services, stop.signal, say);
    await stop.wanted;
  } catch (error) {
    if (!(await isStopping(stop))) throw error;
  } finally {
    await stopAll(services, (name, error) => say(`${name} did not stop cleanly: ${(error as Error).message}`));
    stop.release();
  }
  say("Stopped.");
}

async function start(options: DevOptions, services: Service[], stop: AbortSignal, say: Say): Promise<void> {
  const directory = openDataDirectory(options.dataDir);
  services.push({ name: "data directory", stop: directory.release });
  await requirePort(options.port);
  const given = readGivenStores();
  if (given.databaseUrl === undefined) requireDiskSpace(directory.path);
  const rootKey = keptRootKey(directory.path);
  const known = readDevFile(directory.path, say);

  const adminUrl = await startDatabase(directory.path, given, services, say);
  stop.throwIfAborted();
  const redisUrl = await startQueueStore(directory.path, given, options.redis, services, say);
  stop.throwIfAborted();
  const urls = await prepareDatabase(adminUrl, rootKey, redisUrl !== undefined, say);
  stop.throwIfAborted();

  say("Starting the plane …");
  const config = readConfig(undefined, {
    databaseUrl: urls.appUrl,
    sweeperDatabaseUrl: urls.sweeperUrl,
    queueDatabaseUrl: redisUrl === undefined ? urls.queueUrl : undefined,
    redisUrl,
    rootKey,
    roles: ["api", "bridge", "worker"],
    host: HOST,
    port: options.port,
    grpcHost: HOST,
    grpcPort: await keptGrpcPort(directory.path, say),
    grpcTlsCert: undefined,
    grpcTlsKey: undefined,
  });
  const running = await compose(config, createLog(config.logLevel)).catch(explainListener(options.port));
  services.push({ name: "plane", stop: running.stop });
  stop.throwIfAborted();

  const { authenticator, plane } = running;
  const seed = { stores: plane.stores, authenticator, rootKey };
  const tenant = await seedDemoTenant(seed, known?.tenants[0]);
  const url = `http://${HOST}:${options.port}`;
  const dev = { url, graphqlUrl: `${url}/graphql`, grpcAddress: `${HOST}:${config.grpcPort}`, tenants: [tenant] };
  writeDevFile(directory.path, dev);
  const sampleToken = await seedSampleToken(seed, keptSampleToken(directory.path));
  keepSampleToken(directory.path, sampleToken);
  stop.throwIfAborted();

  say("Starting the sample runner …");
  const runner = startSampleRunner({ address: dev.grpcAddress, token: sampleToken }, say);
  services.push(runner);
  const agents = await sampleAgents(running, dev, runner, stop);
  if (options.demo) await demonstrate(dev, agents, stop, say);
  stop.throwIfAborted();
  say(`Fairlead is ready: ${url}`);
  say(
    greeting(
      dev,
      directory.path,
      agents.map((agent) => agent.graph_id),
    ),
  );
}

/** Waits until the sample runner is here and its agents are what a client sees; those of an earlier start are listed before it comes. */
async function sampleAgents(
  { bridge }: RunningPlane,
  dev: DevFile,
  runner: SampleRunner,
  stop: AbortSignal,
): Promise<ListedAgent[]> {
  const { agents: expected } = JSON.parse(readFileSync(SAMPLE_CONFIG, "utf8")) as { agents: Record<string, string> };
  const call = { url: dev.url, key: dev.tenants[0]?.apiKey ?? "", signal: stop };
  let listed: ListedAgent[] = [];
  const here = waitFor(async () => {
    stop.throwIfAborted();
    const announced = [...(bridge?.sessions.all() ?? [])].some(
      (session) => session.queue.poolId === operatorTenantId && session.announcedDigest !== "",
    );
    if (!announced) return false;
    listed = await listAgents(call);
    return Object.keys(expected).every((name) => listed.some((agent) => agent.graph_id === name));
  }, RUNNER_TIMEOUT_MS);
  if (!(await Promise.race([here, runner.hopeless]))) {
    throw new SetupError(
      `The sample runner did not announce its agents within ${RUNNER_TIMEOUT_MS / 1_000} s.`,
      "What it said is above; start again, or look at runners/sample.",
    );
  }
  runner.trust();
  return listed;
}

/** Asked before anything is started, so that the answer comes at once. */
function requirePort(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error) => reject(portProblem(port, error)));
    probe.listen({ port, host: HOST, exclusive: true }, () => probe.close(() => resolve()));
  });
}

/** Somebody may have taken the port while the stores started. */
function explainListener(port: number): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    throw error.code === "EADDRINUSE" ? portProblem(port, error) : error;
  };
}

function portProblem(port: number, cause: NodeJS.ErrnoException): SetupError {
  const why = cause.code === "EADDRINUSE" ? "is in use by another program" : `cannot be used (${cause.code})`;
  return new SetupError(
    `Port ${port} on ${HOST} ${why}.`,
    `Stop that program, or choose another port: npm start -- --port ${port < 65_000 ? port + 100 : port - 100}`,
    { cause },
  );
}
