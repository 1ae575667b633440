import { randomInt } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { auditDatabase, type RunName } from "../support/audit.js";
import { pace } from "../support/pace.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import {
  type PlanePorts,
  type PlaneProcess,
  planePorts,
  startPlane,
  startRunner,
  type TestProcess,
} from "../support/processes.js";
import { type ProtocolClient, protocolClient, type SseFrame } from "../support/protocol-client.js";
import { makeTenants, type TestTenant, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

// The plane is killed again and again, at moments that a seed chooses, while clients create, stream, wait and cancel. The runners stay. What a client
// was told must hold afterwards.

const kills = Number(process.env["FAIRLEAD_TEST_KILLS"] ?? 40);
const seed = Number(process.env["FAIRLEAD_TEST_SEED"] ?? randomInt(1, 2 ** 31));
const clients = 16;
const inFlight = 20;
/** Runs that are acknowledged between two kills, at least: the plane must get to work in each round. */
const perRound = 12;

/** Mulberry32: the same numbers for the same seed. */
function randomOf(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

let database: TestDatabase;
let admin: pg.Client;
let world: TestTenants;
let ports: PlanePorts;
let plane: PlaneProcess;
const runners: TestProcess[] = [];
const acknowledged: RunName[] = [];
const broken: string[] = [];
let onAcknowledged = (): void => {};
let stopping = false;

beforeAll(async () => {
  database = await testDatabase();
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  world = await makeTenants(database.appUrl, ["acme", "globex"]);
  ports = await planePorts();
  plane = await startPlane({ database, ports });
  for (let n = 0; n < 2; n++)
    runners.push(await startRunner({ address: plane.grpcAddress, token: world.sharedToken, capacity: 30 }));
}, 120_000);

afterAll(async () => {
  await Promise.all([...runners, plane].map((process) => process?.end()));
  await admin?.end();
  await database?.drop();
});

/** One client: does one thing after another, and remembers what it was told. */
async function work(tenant: TestTenant, random: () => number): Promise<void> {
  const client = protocolClient(`http://127.0.0.1:${ports.port}`, tenant.apiKey);
  const remember = (runId: string): void => {
    acknowledged.push({ tenantId: tenant.id, runId });
    onAcknowledged();
  };
  while (!stopping) {
    const body = {
      assistant_id: "patient",
      input: { events: 1 + Math.floor(random() * 8), everyMs: Math.floor(random() * 60) },
      stream_mode: ["custom"],
      on_completion: "keep",
    };
    const choice = random();
    try {
      if (choice < 0.4) await streamToTheEnd(client, body, remember);
      else if (choice < 0.55) {
        const { status } = await client.json("POST", "/runs/wait", body);
        if (status >= 500 && status !== 503) broken.push(`wait answered ${status}`);
      } else {
        const { status, body: run } = await client.json<{ run_id: string }>("POST", "/runs", body);
        if (status < 300) remember(run.run_id);
        else if (status !== 503) broken.push(`create answered ${status}: ${JSON.stringify(run)}`);
        if (status < 300 && choice > 0.85) await client.json("POST", `/runs/${run.run_id}/cancel?wait=1`);
      }
    } catch {
      // Nobody answered, or not to the end: nothing was promised. The plane is on its way up.
      await pace(20);
    }
  }
}

/** Streams a run over any number of dead planes, each time from the last id that was seen. */
async function streamToTheEnd(client: ProtocolClient, body: unknown, remember: (runId: string) => void): Promise<void> {
  const first = await client.stream("POST", "/runs/stream", body);
  remember(first.runId);
  const seen: SseFrame[] = first.frames;
  let isWhole = await first.whole;
  while (!isWhole && !stopping) {
    const last = seen.at(-1)?.id;
    try {
      const again = await client.stream("GET", `/runs/${first.runId}/stream`, undefined, last ?? "0");
      isWhole = await again.whole;
      seen.push(...again.frames);
    } catch {
      await pace(20);
    }
  }
  const ids = seen.map((frame) => Number(frame.id));
  if (ids.some((id, at) => at > 0 && id <= (ids[at - 1] as number)))
    broken.push(`run ${first.runId} was streamed as ${ids.join(" ")}`);
  if (isWhole && seen.filter((frame) => frame.event === "end").length !== 1)
    broken.push(`run ${first.runId} ended with ${seen.map((frame) => frame.event).join(" ")}`);
}

async function countActive(): Promise<number> {
  const { rows } = await admin.query("select count(*)::int as n from run where status in ('pending', 'running')");
  return rows[0].n as number;
}

test(`what was acknowledged survives ${kills} kills of the plane`, { timeout: 60_000 + kills * 20_000 }, async () => {
  const random = randomOf(seed);
  const busy = Array.from({ length: clients }, (_, n) =>
    work(world.tenants[n % 2] as TestTenant, randomOf(seed + n + 1)),
  );
  for (let kill = 1; kill <= kills; kill++) {
    const goal = acknowledged.length + perRound;
    await until(
      "clients are heard again and enough runs are in flight",
      async () => acknowledged.length >= goal && (await countActive()) >= inFlight,
      60_000,
    );
    if (kill % 3 === 0) {
      // The moment in which a client learns that its run exists.
      await new Promise<void>((resolve) => {
        onAcknowledged = () => {
          onAcknowledged = () => {};
          plane.kill("SIGKILL");
          resolve();
        };
      });
    } else {
      await pace(random() * 400);
      plane.kill("SIGKILL");
    }
    await plane.end();
    plane = await startPlane({ database, ports });
  }
  stopping = true;
  await Promise.all(busy);
  await until("every run is final", async () => (await countActive()) === 0, 120_000);

  const audit = await auditDatabase(database.adminUrl, acknowledged);
  const { counts } = audit;
  process.stdout.write(
    `seed ${seed}, kills ${kills}, acknowledged ${counts.acknowledged}, final ${counts.final}, lost ${counts.lost}, doubled ${counts.doubled}, gaps ${counts.gaps}\n`,
  );
  expect(broken).toEqual([]);
  expect(audit.complaints).toEqual([]);
  expect(counts.acknowledged).toBeGreaterThanOrEqual(kills * perRound);
});
