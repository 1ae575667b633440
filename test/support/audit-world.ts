import { createHash } from "node:crypto";
import type pg from "pg";
import { pino } from "pino";
import { createTenant } from "../../src/catalog/edit-tenants.js";
import { writeRecord } from "../../src/domain/audit-record.js";
import type { TenantId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { bundleFiles } from "../../src/governance/audit/bundle.js";
import { exportAudit } from "../../src/governance/audit/export-audit.js";
import { type AuditSigner, signHead } from "../../src/governance/audit/sign-heads.js";
import { auditKeysOf } from "../../src/governance/audit/signing-key.js";
import { recordAuditIn } from "../../src/governance/record-audit.js";
import { systemClock } from "../../src/platform/clock.js";
import { openStores, type Stores } from "../../src/store/client.js";
import { withTenantTx } from "../../src/store/tx.js";
import { type TestDatabase, testDatabase } from "./postgres.js";
import { withAdmin } from "./template-database.js";
import { testRootKey } from "./world.js";

// Chains of twelve records, signed at six and at ten, and somebody who holds the database.

export interface Bundle {
  manifest: string;
  records: string[];
  checkpoints: string[];
}

export interface AuditWorld {
  readonly database: TestDatabase;
  readonly stores: Stores;
  readonly signer: AuditSigner;
  chain(): Promise<TenantId>;
  write(tenant: TenantId, records: number): Promise<void>;
  exportOf(tenant: TenantId, from?: number, to?: number | null): Promise<Bundle>;
  /** As superuser, past triggers, rights and keys; $1 is the tenant. */
  attack(tenant: TenantId, ...statements: string[]): Promise<void>;
  /** Writes the hashes of records of a range anew, so that they fit each other, as who knows the form would. */
  rechain(tenant: TenantId, from: number, to?: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startAuditWorld(): Promise<AuditWorld> {
  const database = await testDatabase();
  const stores = openStores(database.appUrl, database.sweeperUrl, pino({ level: "silent" }));
  const signer = { stores, clock: systemClock, ...auditKeysOf({ rootKey: testRootKey }) };
  let made = 0;
  await withAdmin(database.adminUrl, (admin) =>
    admin.query(
      "alter table audit_event drop constraint audit_event_by_seq, drop constraint audit_event_seq; alter table audit_event disable trigger all",
    ),
  );
  const write = (tenant: TenantId, records: number): Promise<void> =>
    withTenantTx(stores, systemScope(tenant), async (tx) => {
      for (let at = 1; at <= records; at++)
        await recordAuditIn(tx, { action: `act-${at}`, targetKind: "thing", targetId: String(at), detail: { at } });
    });
  return {
    database,
    stores,
    signer,
    write,
    chain: async () => {
      const { id } = await createTenant(stores, { slug: `chain-${++made}`, name: "Chain" });
      await write(id, 5);
      await signHead(signer, id);
      await write(id, 4);
      await signHead(signer, id);
      await write(id, 2);
      return id;
    },
    exportOf: async (tenant, from = 1, to = null) => {
      const files = new Map<string, string>();
      await exportAudit(signer, systemScope(tenant), { from, to }, (name, lines) => {
        files.set(name, (files.get(name) ?? "") + lines);
        return Promise.resolve();
      });
      const lines = (name: string) => (files.get(name) as string).split("\n").filter((line) => line !== "");
      return {
        manifest: files.get(bundleFiles.manifest) as string,
        records: lines(bundleFiles.records),
        checkpoints: lines(bundleFiles.checkpoints),
      };
    },
    attack: (tenant, ...statements) =>
      withAdmin(database.adminUrl, async (admin) => {
        for (const statement of statements) await admin.query(statement, statement.includes("$1") ? [tenant] : []);
      }),
    rechain: (tenant, from, to = 1_000_000) =>
      withAdmin(database.adminUrl, (admin) => rechain(admin, tenant, from, to)),
    stop: async () => {
      await stores.close();
      await database.drop();
    },
  };
}

async function rechain(admin: pg.Client, tenantId: TenantId, from: number, to: number): Promise<void> {
  const { rows } = await admin.query(
    `select seq::int, id, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at, actor_kind as "actorKind", actor_id as "actorId", action,
       target_kind as "targetKind", target_id as "targetId", outcome, detail::text, encode(prev_hash, 'hex') as prev, encode(hash, 'hex') as hash
     from audit_event where tenant_id = $1 and seq between $2 and $3 order by seq`,
    [tenantId, from, to],
  );
  let prev = rows[0].prev as string;
  for (const row of rows) {
    const hash = sha256(writeRecord({ ...row, tenantId, prev }));
    await admin.query(
      "update audit_event set prev_hash = decode($3, 'hex'), hash = decode($4, 'hex') where tenant_id = $1 and id = $2",
      [tenantId, row.id, prev, hash],
    );
    prev = hash;
  }
  await admin.query("update audit_head set hash = decode($2, 'hex') where tenant_id = $1 and seq <= $3", [
    tenantId,
    prev,
    to,
  ]);
}

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
