import type { TenantId } from "../domain/ids.js";
import type { OperationReads } from "./graphql-reads.js";

// Pages of ids by keyset: the cursor is a row's id, and the comparison takes the sort key from that row, so that no precision is lost on the way
// through a client and a page costs the same at any depth.

/** Exactly one of the two directions. */
export interface PageRequest {
  readonly limit: number;
  /** From the end towards the start. */
  readonly backward: boolean;
  readonly after: string | null;
  readonly before: string | null;
}

export interface PageOfIds {
  readonly ids: string[];
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
  /** A cursor that names no row of the tenant. */
  readonly unknownCursor: "after" | "before" | null;
}

/** A part of a where clause; `$` stands for its value. */
export interface Condition {
  readonly sql: string;
  readonly value?: unknown;
}

interface Sorted {
  readonly table: string;
  readonly key: string;
  readonly idType: "uuid" | "text";
  readonly ascending: boolean;
  readonly fixed: readonly Condition[];
}

const newestFirst = (table: string, key = "created_at", fixed: readonly Condition[] = []): Sorted => ({
  table,
  key,
  idType: "uuid",
  ascending: false,
  fixed,
});

const sorts = {
  run: newestFirst("run", "created_at", [{ sql: "deleted_at is null and purpose = 'run'" }]),
  thread: newestFirst("thread", "created_at", [{ sql: "deleted_at is null and not temporary" }]),
  agent: newestFirst("agent"),
  apiKey: newestFirst("api_key"),
  member: newestFirst("member"),
  serviceAccount: newestFirst("service_account"),
  runnerToken: newestFirst("runner_token"),
  runner: newestFirst("runner", "connected_at"),
  halt: newestFirst("halt"),
  toolPolicyVersion: newestFirst("tool_policy_version"),
  tool: newestFirst("tool"),
  toolDecision: newestFirst("tool_decision"),
  budget: newestFirst("budget"),
  modelPrice: newestFirst("model_price"),
  secret: newestFirst("secret"),
  auditEvent: newestFirst("audit_event", "seq"),
  step: { table: "step", key: "started_at", idType: "text", ascending: true, fixed: [] } satisfies Sorted,
} as const satisfies Record<string, Sorted>;

export type PagedTable = keyof typeof sorts;

export async function readPage(
  reads: OperationReads,
  tenantId: TenantId,
  name: PagedTable,
  conditions: readonly Condition[],
  page: PageRequest,
): Promise<PageOfIds> {
  const sort: Sorted = sorts[name];
  const values: unknown[] = [tenantId];
  const bind = (value: unknown): string => `$${values.push(value)}`;
  const where = ["tenant_id = $1::uuid"];
  for (const { sql, value } of [...sort.fixed, ...conditions])
    where.push(value === undefined ? sql : sql.replace("$", () => bind(value)));
  const scope = where.join(" and ");
  const key = (cursor: string): string => {
    const id = `${bind(cursor)}::${sort.idType}`;
    return `((select k.${sort.key} from ${sort.table} k where k.tenant_id = $1::uuid and k.id = ${id}${sort.idType === "text" ? ` and ${conditionsOn("k", conditions, bind)}` : ""}), ${id})`;
  };
  const bounds: string[] = [];
  if (page.after !== null) bounds.push(`(${sort.key}, id) ${sort.ascending ? ">" : "<"} ${key(page.after)}`);
  if (page.before !== null) bounds.push(`(${sort.key}, id) ${sort.ascending ? "<" : ">"} ${key(page.before)}`);
  const direction = sort.ascending === page.backward ? "desc" : "asc";
  const rows = await reads.query<{ id: string }>(
    `select id::text as id from ${sort.table} where ${[scope, ...bounds].join(" and ")}
     order by ${sort.key} ${direction}, id ${direction} limit ${bind(page.limit + 1)}::int`,
    values,
  );
  const hasMore = rows.length > page.limit;
  const ids = rows.slice(0, page.limit).map((row) => row.id);
  if (page.backward) ids.reverse();
  return {
    ids,
    hasNextPage: page.backward ? page.before !== null : hasMore,
    hasPreviousPage: page.backward ? hasMore : page.after !== null,
    unknownCursor: ids.length === 0 ? await unknownCursor(reads, tenantId, sort, page) : null,
  };
}

/** Ids that are not UUIDs are unique below their parent only, which is among the conditions. */
function conditionsOn(alias: string, conditions: readonly Condition[], bind: (value: unknown) => string): string {
  return conditions.map(({ sql, value }) => `${alias}.${sql.replace("$", () => bind(value))}`).join(" and ");
}

/** An empty page may be the end of the list, or a cursor that is wrong. */
async function unknownCursor(
  reads: OperationReads,
  tenantId: TenantId,
  sort: Sorted,
  page: PageRequest,
): Promise<PageOfIds["unknownCursor"]> {
  for (const name of ["after", "before"] as const) {
    const cursor = page[name];
    if (cursor === null) continue;
    const rows = await reads.query(
      `select 1 as found from ${sort.table} where tenant_id = $1::uuid and id = $2::${sort.idType} limit 1`,
      [tenantId, cursor],
    );
    if (rows.length === 0) return name;
  }
  return null;
}
