import pg from "pg";
import { controlFamily, walkEvents } from "../../src/domain/event-list.js";

// One oracle for all fault tests: what must be true of the tables, whatever was killed, stalled or sent twice.

export interface RunName {
  readonly tenantId: string;
  readonly runId: string;
}

export interface Audit {
  /** Empty when all is well. */
  readonly complaints: string[];
  readonly counts: {
    readonly runs: number;
    readonly final: number;
    readonly acknowledged: number;
    readonly lost: number;
    readonly doubled: number;
    readonly gaps: number;
    readonly events: number;
  };
}

interface RunRow {
  tenant_id: string;
  id: string;
  thread_id: string;
  status: string;
  fence: number;
  attempt: number;
  last_seq: string;
  thread_head: boolean;
  thread_base: string | null;
  is_leased: boolean;
}

interface ChunkRow {
  tenant_id: string;
  run_id: string;
  first_seq: string;
  count: number;
  body: Buffer;
}

const finalStates = new Set(["success", "waiting", "error", "timeout", "cancelled"]);

/** Reads the whole database as its owner. `acknowledged` are the runs whose creation was answered with 2xx: each must be final by now. */
export async function auditDatabase(adminUrl: string, acknowledged: readonly RunName[]): Promise<Audit> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query("begin isolation level repeatable read read only");
    const runs = await client.query<RunRow>(
      `select tenant_id, id, thread_id, status, fence, attempt, last_seq, thread_head, thread_base,
         coalesce(lease_until > clock_timestamp(), false) as is_leased from run`,
    );
    const chunks = await client.query<ChunkRow>(
      `select tenant_id, run_id, first_seq, count, body from run_event
       union all select tenant_id, run_id, first_seq, count, body from run_delta order by 1, 2, 3`,
    );
    const complaints: string[] = [];
    const logs = complainAboutLogs(runs.rows, chunks.rows, complaints);
    const promised = complainAboutPromises(runs.rows, acknowledged, complaints);
    complainAboutRuns(runs.rows, complaints);
    complainAboutThreadNumbers(runs.rows, complaints);
    await complainAboutThreads(client, complaints);
    return {
      complaints,
      counts: {
        runs: runs.rows.length,
        final: runs.rows.filter((run) => finalStates.has(run.status)).length,
        acknowledged: acknowledged.length,
        ...promised,
        ...logs,
      },
    };
  } finally {
    await client.end();
  }
}

/** Numbers are gapless from 2 on (1 is derived), counts are true, and the one `end` stands last. */
function complainAboutLogs(
  runs: readonly RunRow[],
  chunks: readonly ChunkRow[],
  complaints: string[],
): { gaps: number; doubled: number; events: number } {
  const logs = new Map<string, { next: number; ends: number; last: string; events: number }>();
  let gaps = 0;
  let doubled = 0;
  for (const chunk of chunks) {
    const key = `${chunk.tenant_id}:${chunk.run_id}`;
    const log = logs.get(key) ?? { next: 2, ends: 0, last: "", events: 0 };
    logs.set(key, log);
    const first = Number(chunk.first_seq);
    if (first !== log.next) {
      if (first > log.next) gaps++;
      else doubled++;
      complaints.push(`run ${chunk.run_id}: number ${log.next} is owed, a chunk starts with ${first}`);
    }
    const found = walkEvents(chunk.body, (event) => {
      log.last = event.family === controlFamily ? event.name : "event";
      if (log.last === "end") log.ends++;
    });
    if (found !== chunk.count)
      complaints.push(`run ${chunk.run_id}: a chunk says ${chunk.count} events, it holds ${found}`);
    log.events += found;
    log.next = first + chunk.count;
  }
  let events = 0;
  for (const run of runs) {
    const log = logs.get(`${run.tenant_id}:${run.id}`) ?? { next: 2, ends: 0, last: "", events: 0 };
    events += log.events;
    if (log.next - 1 !== Number(run.last_seq)) {
      gaps++;
      complaints.push(`run ${run.id}: the row says ${run.last_seq} events, the log ends with ${log.next - 1}`);
    }
    const isFinal = finalStates.has(run.status);
    if (isFinal && log.ends > 1) doubled++;
    if (isFinal && (log.ends !== 1 || log.last !== "end"))
      complaints.push(`run ${run.id} is ${run.status}: ${log.ends} ends, the last event is "${log.last}"`);
    if (!isFinal && log.ends > 0) complaints.push(`run ${run.id} is ${run.status} and has an end`);
  }
  return { gaps, doubled, events };
}

function complainAboutPromises(
  runs: readonly RunRow[],
  acknowledged: readonly RunName[],
  complaints: string[],
): { lost: number } {
  const byKey = new Map(runs.map((run) => [`${run.tenant_id}:${run.id}`, run]));
  let lost = 0;
  for (const { tenantId, runId } of acknowledged) {
    const run = byKey.get(`${tenantId}:${runId}`);
    if (run && finalStates.has(run.status)) continue;
    lost++;
    complaints.push(`run ${runId} was acknowledged and ${run ? `is still ${run.status}` : "does not exist"}`);
  }
  return { lost };
}

function complainAboutRuns(runs: readonly RunRow[], complaints: string[]): void {
  for (const run of runs) {
    const isFinal = finalStates.has(run.status);
    if (run.status === "running" && !run.is_leased) complaints.push(`run ${run.id} is running without a live lease`);
    if (run.status === "running" && !run.thread_head)
      complaints.push(`run ${run.id} is running behind its thread's head`);
    if (isFinal && run.thread_head) complaints.push(`run ${run.id} is ${run.status} and still its thread's head`);
    const claims = run.attempt - (run.status === "running" ? 0 : 1);
    if (run.fence < claims) complaints.push(`run ${run.id}: fence ${run.fence} at attempt ${run.attempt}`);
    if (run.thread_head !== (run.thread_base !== null) && !isFinal)
      complaints.push(`run ${run.id}: head ${run.thread_head}, thread base ${run.thread_base}`);
  }
}

/** A run's events are numbered thread_base + 1 … thread_base + last_seq in its thread: stretches of two runs never overlap. */
function complainAboutThreadNumbers(runs: readonly RunRow[], complaints: string[]): void {
  const byThread = new Map<string, RunRow[]>();
  for (const run of runs) {
    if (run.thread_base === null) continue;
    const key = `${run.tenant_id}:${run.thread_id}`;
    byThread.set(key, [...(byThread.get(key) ?? []), run]);
  }
  for (const list of byThread.values()) {
    list.sort((a, b) => Number(a.thread_base) - Number(b.thread_base));
    list.forEach((run, at) => {
      const next = list[at + 1];
      if (next && Number(run.thread_base) + Number(run.last_seq) > Number(next.thread_base))
        complaints.push(`runs ${run.id} and ${next.id} share numbers in thread ${run.thread_id}`);
    });
  }
}

async function complainAboutThreads(client: pg.Client, complaints: string[]): Promise<void> {
  const found = await client.query<{ what: string }>(`
    with active as (
      select tenant_id, thread_id, count(*) filter (where thread_head) as heads, count(*) as runs
      from run where status in ('pending', 'running') group by 1, 2
    )
    select format('thread %s is %s with %s active runs, %s of them heads', t.id, t.status, coalesce(a.runs, 0), coalesce(a.heads, 0)) as what
      from thread t left join active a on a.tenant_id = t.tenant_id and a.thread_id = t.id
      where (t.status = 'busy') <> (coalesce(a.heads, 0) = 1) or coalesce(a.heads, 0) > 1 or (coalesce(a.runs, 0) > 0 and coalesce(a.heads, 0) = 0)
    union all
    select format('thread %s is %s with an open interrupt', t.id, t.status)
      from interrupt n join thread t on t.tenant_id = n.tenant_id and t.id = n.thread_id
      where n.status = 'open' and t.status not in ('interrupted', 'busy')
    union all
    select format('interrupt %s of run %s is open although the run was removed', n.id, n.run_id)
      from interrupt n join run r on r.tenant_id = n.tenant_id and r.id = n.run_id where n.status = 'open' and r.deleted_at is not null
    union all
    select format('thread %s ends with number %s, its runs with %s', t.id, t.last_seq, x.last)
      from thread t join (select tenant_id, thread_id, max(thread_base + last_seq) as last from run
        where thread_base is not null and status not in ('pending', 'running') group by 1, 2) x
        on x.tenant_id = t.tenant_id and x.thread_id = t.id where x.last <> t.last_seq`);
  complaints.push(...found.rows.map((row) => row.what));
}

/** For the output of a test: one line of numbers. */
export function describeAudit(audit: Audit): string {
  return Object.entries(audit.counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}
