import type { TenantTx } from "./tx.js";

export interface AuditRow {
  readonly id: string;
  readonly action: string;
  readonly targetKind: string;
  readonly targetId: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export async function insertAuditEvent(tx: TenantTx, row: AuditRow): Promise<void> {
  await tx.query(
    `insert into audit_event (tenant_id, id, actor_kind, actor_id, action, target_kind, target_id, detail)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      tx.scope.tenantId,
      row.id,
      tx.scope.actor.kind,
      tx.scope.actor.id,
      row.action,
      row.targetKind,
      row.targetId,
      JSON.stringify(row.detail),
    ],
  );
}
