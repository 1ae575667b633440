import type { TenantId } from "../domain/ids.js";

export const usageDimensions = ["agent", "key", "model", "day"] as const;
export type UsageDimension = (typeof usageDimensions)[number];

/** Sums over the facts of a stretch of time, of one value of each dimension that was asked for. */
export interface UsageRow {
  readonly agentId: string | null;
  /** The key that started the runs; null too for runs that no key started. */
  readonly credentialId: string | null;
  readonly model: string | null;
  readonly day: Date | null;
  readonly runs: bigint;
  readonly inputTokens: bigint;
  readonly outputTokens: bigint;
  readonly cacheReadTokens: bigint;
  /** Of what has a price, in nanodollars. */
  readonly nanoUsd: bigint;
  /** Some of it has no price, or is no usage. */
  readonly isPartial: boolean;
}

export interface UsageQuestion {
  readonly from: Date;
  /** Not included. */
  readonly to: Date;
  readonly by: readonly UsageDimension[];
  /** IANA name, of the days. */
  readonly zone: string;
  readonly limit: number;
}

interface Asks {
  query<Row>(sql: string, values: readonly unknown[]): Promise<Row[]>;
}

const columns: Record<UsageDimension, string> = {
  agent: 'u.agent_id as "agentId"',
  key: 'u.credential_id as "credentialId"',
  model: "u.model",
  day: "date_trunc('day', u.at, $4) as day",
};

/** The rows, the dearest first, and when they were read. */
export async function readUsage(reads: Asks, tenantId: TenantId, question: UsageQuestion): Promise<UsageRow[]> {
  const by = [...new Set(question.by)];
  const rows = await reads.query<Partial<UsageRow>>(
    `select ${by.map((dimension) => `${columns[dimension]}, `).join("")} count(distinct u.run_id) as runs,
       coalesce(sum(u.input_tokens), 0)::bigint as "inputTokens", coalesce(sum(u.output_tokens), 0)::bigint as "outputTokens",
       coalesce(sum(u.cache_read_tokens), 0)::bigint as "cacheReadTokens",
       coalesce(sum(round(((u.input_tokens - u.cache_read_tokens)::numeric * p.input_pico + u.cache_read_tokens::numeric * p.cache_read_pico
         + u.output_tokens::numeric * p.output_pico) / 1000)), 0)::bigint as "nanoUsd",
       coalesce(bool_or(u.is_bad or (p.model is null and u.input_tokens + u.output_tokens > 0)), false) as "isPartial"
     from usage_event u left join lateral (select m.model, m.input_pico, m.output_pico, m.cache_read_pico from model_price m
       where m.tenant_id = u.tenant_id and m.model = u.model and m.effective_from <= u.at order by m.effective_from desc limit 1) p on true
     where u.tenant_id = $1::uuid and u.at >= $2 and u.at < $3 and $4::text is not null
     ${by.length > 0 ? `group by ${by.map((_, n) => n + 1).join(", ")}` : ""}
     order by "nanoUsd" desc, "inputTokens" desc${by.map((_, n) => `, ${n + 1}`).join("")} limit $5::int`,
    [tenantId, question.from, question.to, question.zone, question.limit],
  );
  const none = { agentId: null, credentialId: null, model: null, day: null };
  return rows.map((row) => ({ ...none, ...row }) as UsageRow);
}
