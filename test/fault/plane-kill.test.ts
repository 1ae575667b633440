import { randomInt } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { auditDatabase } from "../support/audit.js";
import { randomOf, startClients } from "../support/client-load.js";
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
import { makeTenants, type TestTenants } from "../support/tenants.js";
import { until } from "../support/until.js";

// The plane is killed again and again, at moments that a seed chooses, while clients create, stream, wait and cancel. The runners stay. What a client
// was told must hold afterwards.

const kills = Number(process.env["FAIRLEAD_TEST_KILLS"] ?? 40);
const seed = Number(process.env["FAIRLEAD_TEST_SEED"] ?? randomInt(1, 2 ** 31));
const clients = 16;
const inFlight = 20;
/** Runs that are acknowledged between two kills, at least: the plane must get to work in each round. */
const perRound = 12;

let database: TestDatabase;
let admin: pg.Client;
let world: TestTenants;
let ports: PlanePorts;
let plane: PlaneProcess;
const runners: TestProcess[] = [];

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

async function countActive(): Promise<number> {
  const { rows } = await admin.query("select count(*)::int as n from run where status in ('pending', 'running')");
  return rows[0].n as number;
}

test(`what was acknowledged survives ${kills} kills of the plane`, { timeout: 60_000 + kills * 20_000 }, async () => {
  const random = randomOf(seed);
  const load = startClients({ urls: [plane.url], tenants: world.tenants, clients, seed });
  const { acknowledged, broken } = load;
  for (let kill = 1; kill <= kills; kill++) {
    const goal = acknowledged.length + perRound;
    await until(
      "clients are heard again and enough runs are in flight",
      async () => acknowledged.length >= goal && (await countActive()) >= inFlight,
      60_000,
    );
    if (kill % 3 === 0) {
      // The moment in which a client learns that its run exists.
      await load.atNextAcknowledged(() => plane.kill("SIGKILL"));
    } else {
      await pace(random() * 400);
      plane.kill("SIGKILL");
    }
    await plane.end();
    plane = await startPlane({ database, ports });
  }
  await load.stop();
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
