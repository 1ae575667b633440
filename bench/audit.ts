import { randomUUID } from "node:crypto";
import pg from "pg";
import type { BenchOptions } from "./options.js";
import { built } from "./place.js";
import { type Circumstances, printTable, saveLine } from "./report.js";
import { query, type Stores } from "./stores.js";

// What recording costs: records of 16 connections over 8 tenants, alone and in batches, on a PostgreSQL that keeps its promises. Afterwards every chain is
// walked, so a rate of records that do not verify is never printed.

const tenantCount = 8;
const connections = 16;
const pool = "fairlead_bench_audit";

interface AuditModules {
  migrate(request: object): Promise<unknown>;
  openStores(app: string, sweeper: string, log: object): { close(): Promise<void> };
  createTenant(stores: object, input: { slug: string; name: string }): Promise<{ id: string }>;
  verifyAudit(
    stores: object,
    scope: object,
    keys: ReadonlyMap<string, unknown>,
    how: { after: number },
  ): Promise<{ verdict: string; checkedTo: { seq: number } }>;
  systemScope(id: string): object;
  roleUrls(adminUrl: string, secret: Buffer): { appUrl: string; sweeperUrl: string };
}

async function modules(): Promise<AuditModules> {
  const files = [
    "store/migrate.js",
    "store/client.js",
    "catalog/edit-tenants.js",
    "governance/audit/verify-audit.js",
    "domain/scope.js",
    "store/roles.js",
  ];
  return Object.assign({}, ...(await Promise.all(files.map((file) => built<object>(file))))) as AuditModules;
}

export async function measureAudit(stores: Stores, options: BenchOptions, about: Circumstances): Promise<void> {
  const plane = await modules();
  const adminUrl = await stores.emptyDatabase();
  const { appUrl, sweeperUrl } = plane.roleUrls(adminUrl, Buffer.from(pool));
  await plane.migrate({ adminUrl, appUrl, sweeperUrl });
  const opened = plane.openStores(appUrl, sweeperUrl, { warn: () => {} });
  const rows: (string | number)[][] = [];
  try {
    for (const batch of [1, 16, 128]) {
      const tenants: string[] = [];
      for (let n = 0; n < tenantCount; n++)
        tenants.push((await plane.createTenant(opened, { slug: `b${batch}-${n}`, name: "Bench" })).id);
      const written = await append(appUrl, tenants, batch, options.seconds * 1_000);
      const walk = await verifyAll(plane, opened, tenants, written.records);
      rows.push([
        `${batch} a statement`,
        written.perSecond,
        written.p50,
        written.p99,
        walk.perSecondVerified,
        walk.peakMb,
      ]);
      if (options.save) saveLine({ ...about, workload: "audit", row: batch, ...written, ...walk });
    }
    const [deadlocks] = await query<{ deadlocks: number }>(
      adminUrl,
      "select deadlocks::int from pg_stat_database where datname = current_database()",
    );
    process.stdout.write(
      `\nAudit: ${connections} connections, ${tenantCount} tenants; every chain verified; ${deadlocks?.deadlocks} deadlocks\n`,
    );
    printTable(["records", "per s", "p50 ms", "p99 ms", "verified per s", "heap MB more"], rows);
  } finally {
    await opened.close();
    await query(stores.adminUrl, `drop database ${new URL(adminUrl).pathname.slice(1)} with (force)`);
  }
}

async function append(appUrl: string, tenants: readonly string[], batch: number, forMs: number) {
  const latencies: number[] = [];
  let records = 0;
  const until = performance.now() + forMs;
  const write = async (writer: number): Promise<void> => {
    const client = new pg.Client({ connectionString: appUrl });
    await client.connect();
    try {
      for (let turn = writer; performance.now() < until; turn++) {
        const chosen = Array.from({ length: batch }, (_, at) => tenants[(turn + at * 3) % tenants.length] as string);
        const column = (text: string): string[] => chosen.map(() => text);
        const began = performance.now();
        await client.query(`begin; select set_config('app.tenants', '{${[...new Set(chosen)].join(",")}}', true)`);
        await client.query("select audit_append_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)", [
          chosen,
          chosen.map(() => randomUUID()),
          column("api_key"),
          column("01990000-0000-7000-8000-000000000000"),
          column("run.cancel"),
          column("run"),
          column("01990000-0000-7000-8000-000000000001"),
          column("success"),
          column('{"action":"interrupt","verdict":"moved"}'),
        ]);
        await client.query("commit");
        latencies.push(performance.now() - began);
        records += batch;
      }
    } finally {
      await client.end();
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: connections }, (_, writer) => write(writer)));
  const seconds = (performance.now() - began) / 1_000;
  latencies.sort((a, b) => a - b);
  const quantile = (share: number): number => latencies[Math.floor((latencies.length - 1) * share)] ?? Number.NaN;
  return { records, perSecond: records / seconds, p50: quantile(0.5), p99: quantile(0.99) };
}

async function verifyAll(plane: AuditModules, stores: object, tenants: readonly string[], expected: number) {
  const before = process.memoryUsage().heapUsed;
  let peak = before;
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().heapUsed)), 20);
  const began = performance.now();
  let found = 0;
  for (const tenant of tenants) {
    const { verdict, checkedTo } = await plane.verifyAudit(stores, plane.systemScope(tenant), new Map(), { after: 0 });
    if (verdict !== "ok") throw new Error(`the chain of ${tenant} is ${verdict}`);
    found += checkedTo.seq;
  }
  clearInterval(watch);
  // Each tenant's first record is that of its creation.
  if (found !== expected + tenants.length)
    throw new Error(`${expected} records were acknowledged, ${found - tenants.length} are there`);
  return { perSecondVerified: found / ((performance.now() - began) / 1_000), peakMb: (peak - before) / 1_048_576 };
}
