-- Appends and ends of runs, second form. What travels with events is written for a whole batch at once: the first form went run by run and parsed the
-- extras of all runs for each, so that a graph run in a batch of 64 cost four milliseconds. Items are parsed once. All bytes come in one parameter,
-- which is sent as it is, and are cut out of it by position (from 1) and length; arrays of bytea travel as text, twice as long.
--
-- Rows are locked `for no key update`: nobody changes a key, and a checkpoint's reference to its thread must not wait for whoever ends or cancels the run.

-- p_open[n]: may item n write? The other arrays say for which run.
create function run_extras_v2(p_open boolean[], p_tenant uuid[], p_run uuid[], p_thread uuid[], p_attempt int[], p_checkpoints json, p_writes json, p_blobs json,
  p_steps json, p_data bytea)
returns void language plpgsql as $$
begin
  if p_blobs is not null then
    -- In one order over the whole batch: two batches with equal blobs wait for each other in a line, not in a circle.
    insert into checkpoint_blob (tenant_id, digest, part, parts, data)
    select p_tenant[b.item], decode(b.digest, 'hex'), b.part, b.parts, substring(p_data from b.at for b.bytes)
    from json_to_recordset(p_blobs) as b (item int, digest text, part int, parts int, at int, bytes int)
    where p_open[b.item]
    order by p_tenant[b.item], b.digest collate "C", b.part
    on conflict do nothing;
  end if;
  if p_checkpoints is not null then
    insert into checkpoint (tenant_id, thread_id, namespace, id, run_id, parent_id, lineage, schema_version, step, head, metadata, channels, view)
    select p_tenant[c.item], p_thread[c.item], c.namespace, c.id, p_run[c.item], nullif(c.parent_id, ''), c.lineage, c.schema_version, c.step,
      substring(p_data from c.at for c.head), substring(p_data from c.at + c.head for c.metadata), c.channels,
      case when c.view is not null then substring(p_data from c.at + c.head + c.metadata for c.view) end
    from rows from (json_to_recordset(p_checkpoints) as (item int, namespace text, id text, parent_id text, lineage text, schema_version int, step int, channels json,
      at int, head int, metadata int, view int)) with ordinality as c
    where p_open[c.item]
    order by c.ordinality
    on conflict (tenant_id, thread_id, namespace, id) do update set
      head = excluded.head, metadata = excluded.metadata, channels = excluded.channels, view = coalesce(excluded.view, checkpoint.view), run_id = excluded.run_id;
  end if;
  if p_writes is not null then
    insert into checkpoint_write (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx, run_id, channel, type, data)
    select p_tenant[w.item], p_thread[w.item], w.namespace, w.checkpoint_id, w.task_id, w.idx, p_run[w.item], w.channel, w.type, substring(p_data from w.at for w.bytes)
    from json_to_recordset(p_writes) as w (item int, namespace text, checkpoint_id text, task_id text, idx int, channel text, type text, at int, bytes int)
    where p_open[w.item]
    on conflict (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx) do update set
      channel = excluded.channel, type = excluded.type, data = excluded.data, run_id = excluded.run_id
    -- A task's output stays as it was told first.
    where excluded.idx < 0;
  end if;
  if p_steps is not null then
    insert into step (tenant_id, run_id, id, parent_id, attempt, kind, name, status, namespace, started_at, ended_at, usage, error)
    select p_tenant[s.item], p_run[s.item], s.id, nullif(s.parent_id, ''), p_attempt[s.item], s.kind, s.name, s.status, s.namespace,
      to_timestamp(s.started_ms / 1000.0), case when s.ended_ms > 0 then to_timestamp(s.ended_ms / 1000.0) end, s.usage, nullif(s.error, '')
    from json_to_recordset(p_steps) as s (item int, id text, parent_id text, kind text, name text, status text, namespace text[], started_ms bigint, ended_ms bigint,
      usage json, error text)
    where p_open[s.item]
    on conflict (tenant_id, run_id, id) do update set
      status = excluded.status, ended_at = excluded.ended_at, usage = coalesce(excluded.usage, step.usage), error = excluded.error, name = excluded.name;
  end if;
end $$;

-- ---- append ----

create function run_append_items_v2(p_items json) returns table (ord int, tenant_id uuid, run_id uuid, fence int, pool_id uuid, kind text, first bigint, count int)
language plpgsql immutable rows 1 as $$
#variable_conflict use_column
begin
  return query select (x.ordinality)::int, x.tenant_id, x.run_id, x.fence, x.pool_id, x.kind, x.first, x.count
  from rows from (json_to_recordset(p_items) as (tenant_id uuid, run_id uuid, fence int, pool_id uuid, kind text, first bigint, count int)) with ordinality as x;
end $$;

-- An item without a row in the answer names no run.
create function run_append_v2(p_tenants text, p_items json, p_seg_item int[], p_seg_count int[], p_seg_delta boolean[], p_seg_at int[], p_seg_bytes int[], p_lease_ms int,
  p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea)
returns table (ord int, verdict text, stored bigint, first_seq bigint, base_seq bigint, cancel text)
language plpgsql as $$
#variable_conflict use_column
declare
  v_extras boolean := p_checkpoints is not null or p_writes is not null or p_blobs is not null or p_steps is not null;
  v_open boolean[]; v_tenant uuid[]; v_run uuid[]; v_thread uuid[]; v_attempt int[]; o record;
begin
  perform set_config('app.tenants', p_tenants, true);
  for o in
    with held as materialized (
      select i.ord, i.tenant_id, i.run_id, i.fence, i.pool_id, i.kind, i.first, i.count, r.fence as run_fence, r.status, r.pool_id as run_pool, r.kind as run_kind,
        r.source_seq, r.last_seq, r.thread_base, r.thread_id, r.attempt, case when r.cancel_requested_at is not null then r.cancel_action end as cancel
      from run_append_items_v2(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
      order by r.tenant_id, r.id for no key update of r
    ), judged as materialized (
      select h.*,
        case
          when h.run_fence <> h.fence or h.status <> 'running' or h.run_pool <> h.pool_id or h.run_kind <> h.kind then 'superseded'
          when h.first <> h.source_seq + 1 then 'out_of_order'
          else 'stored'
        end as verdict
      from held h
    ), grown as (
      update run r set source_seq = r.source_seq + j.count, last_seq = r.last_seq + j.count, confirmed = true, started_at = coalesce(r.started_at, clock_timestamp()),
        lease_until = greatest(r.lease_until, clock_timestamp() + p_lease_ms * interval '1 ms')
      from judged j where j.verdict = 'stored' and r.tenant_id = j.tenant_id and r.id = j.run_id
    ), seg as materialized (
      select j.tenant_id, j.run_id, j.last_seq + 1 + sum(s.count) over (partition by s.item order by s.n) - s.count as first_seq, s.count, s.delta,
        substring(p_data from s.at for s.bytes) as body
      from unnest(p_seg_item, p_seg_count, p_seg_delta, p_seg_at, p_seg_bytes) with ordinality as s (item, count, delta, at, bytes, n)
      join judged j on j.ord = s.item and j.verdict = 'stored'
    ), durable as (
      insert into run_event (tenant_id, run_id, first_seq, count, body) select g.tenant_id, g.run_id, g.first_seq, g.count, g.body from seg g where not g.delta
    ), deltas as (
      insert into run_delta (tenant_id, run_id, first_seq, count, body) select g.tenant_id, g.run_id, g.first_seq, g.count, g.body from seg g where g.delta
    )
    select * from judged
  loop
    ord := o.ord; verdict := o.verdict; first_seq := o.last_seq + 1; base_seq := o.thread_base; cancel := o.cancel;
    stored := case o.verdict when 'stored' then o.source_seq + o.count when 'superseded' then 0 else o.source_seq end;
    return next;
    if v_extras and o.verdict = 'stored' then
      v_open[o.ord] := true; v_tenant[o.ord] := o.tenant_id; v_run[o.ord] := o.run_id; v_thread[o.ord] := o.thread_id; v_attempt[o.ord] := o.attempt;
    end if;
  end loop;
  if v_open is not null then
    perform run_extras_v2(v_open, v_tenant, v_run, v_thread, v_attempt, p_checkpoints, p_writes, p_blobs, p_steps, p_data);
  end if;
end $$;

-- ---- finish ----

-- `at`: where an item's bytes begin: tail, end, values, the thread's interrupts, one behind the other. A length that is null: there are none.
create type run_finish_item as (ord int, tenant_id uuid, run_id uuid, thread_id uuid, fence int, pool_id uuid, kind text, purpose text, total bigint, tail_first bigint,
  tail_count int, end_count int, status text, reason text, error json, next text[], interrupts json, at int, tail_bytes int, end_bytes int, values_bytes int, asked_bytes int);

create function run_finish_items_v2(p_items json) returns setof run_finish_item language plpgsql immutable rows 1 as $$
begin
  return query select (x.ordinality)::int, x.tenant_id, x.run_id, x.thread_id, x.fence, x.pool_id, x.kind, x.purpose, x.total, x.tail_first, x.tail_count, x.end_count,
    x.status, x.reason, x.error, x.next, x.interrupts, x.at, x.tail_bytes, x.end_bytes, x.values_bytes, x.asked_bytes
  from rows from (json_to_recordset(p_items) as (tenant_id uuid, run_id uuid, thread_id uuid, fence int, pool_id uuid, kind text, purpose text, total bigint,
    tail_first bigint, tail_count int, end_count int, status text, reason text, error json, next text[], interrupts json, at int, tail_bytes int, end_bytes int,
    values_bytes int, asked_bytes int)) with ordinality as x;
end $$;

-- Items that are parsed already, for statements that must believe in one row.
create function run_finish_rows_v2(p_items run_finish_item[]) returns setof run_finish_item language plpgsql immutable rows 1 as $$
begin
  return query select * from unnest(p_items);
end $$;

create function run_finish_v2(p_tenants text, p_items json, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea)
returns table (ord int, verdict text, stored_status text, stored_reason text, source bigint, first_seq bigint, base_seq bigint, next_run uuid, next_pool uuid, next_kind text, next_graph text, next_admitted boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_extras boolean := p_checkpoints is not null or p_writes is not null or p_blobs is not null or p_steps is not null;
  v_items run_finish_item[]; v_asks boolean; v_waits boolean; v_undo boolean := false; k record;
  v_open boolean[]; v_tenant uuid[]; v_run uuid[]; v_thread uuid[]; v_attempt int[];
begin
  perform set_config('app.tenants', p_tenants, true);
  select array_agg(i), bool_or(i.status = 'waiting') into v_items, v_waits from run_finish_items_v2(p_items) i;
  select bool_or(l.asks) into v_asks from (
    select t.interrupts is not null as asks from run_finish_rows_v2(v_items) i join thread t on t.tenant_id = i.tenant_id and t.id = i.thread_id
    order by t.tenant_id, t.id for no key update of t) l;

  if v_extras or v_asks or v_waits then
    -- What a question or an extra needs is written first.
    for k in
      select i.ord, i.tenant_id, i.run_id, i.thread_id, i.status, i.purpose, i.interrupts, r.attempt, coalesce(r.cancel_action = 'rollback', false) as undo,
        r.fence = i.fence and r.status = 'running' and r.pool_id = i.pool_id and r.kind = i.kind and r.thread_id = i.thread_id
          and r.source_seq + i.tail_count = i.total and (i.tail_count = 0 or i.tail_first = r.source_seq + 1) as is_due
      from run_finish_rows_v2(v_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
      order by r.tenant_id, r.id for no key update of r
    loop
      v_undo := v_undo or k.undo;
      if k.is_due then
        v_open[k.ord] := true; v_tenant[k.ord] := k.tenant_id; v_run[k.ord] := k.run_id; v_thread[k.ord] := k.thread_id; v_attempt[k.ord] := k.attempt;
      end if;
      -- What was asked before is not asked any more once a run of the thread went through or asks anew.
      if k.is_due and v_asks and k.purpose = 'run' and k.status in ('success', 'waiting') then
        update interrupt n set status = 'superseded' where n.tenant_id = k.tenant_id and n.thread_id = k.thread_id and n.status = 'open';
      end if;
      if k.is_due and k.status = 'waiting' then
        insert into interrupt as n (tenant_id, thread_id, id, run_id, status, namespace, task_id, value)
          select k.tenant_id, k.thread_id, w.id, k.run_id, 'open', w.namespace, w.task_id, substring(p_data from w.at for w.bytes)
          from json_to_recordset(coalesce(k.interrupts, '[]')) as w (id text, namespace text[], task_id text, at int, bytes int)
          on conflict (tenant_id, thread_id, id, run_id) do update set status = 'open', value = excluded.value;
      end if;
    end loop;
    if v_extras and v_open is not null then
      perform run_extras_v2(v_open, v_tenant, v_run, v_thread, v_attempt, p_checkpoints, p_writes, p_blobs, p_steps, p_data);
    end if;
  else
    select coalesce(bool_or(l.undo), false) into v_undo from (
      select r.cancel_action = 'rollback' as undo from run_finish_rows_v2(v_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
      order by r.tenant_id, r.id for no key update of r) l;
  end if;

  return query
  with looked as materialized (
    select i.*, r.id as id, r.pool_id as run_pool, r.kind as run_kind, r.thread_id as run_thread, r.status as run_status, r.status_reason as run_reason, r.fence as run_fence,
      r.ended_fence, r.source_seq, r.last_seq, r.thread_base, r.delete_thread, t.temporary, t.interrupts is not null as asked
    from run_finish_rows_v2(v_items) i
    left join lateral (select * from run r where r.tenant_id = i.tenant_id and r.id = i.run_id offset 0) r on true
    left join lateral (select * from thread t where t.tenant_id = i.tenant_id and t.id = i.thread_id offset 0) t on true
  ), judged as materialized (
    select l.*, l.last_seq + l.tail_count + l.end_count as last,
      case
        when l.id is null or l.run_pool <> l.pool_id or l.run_kind <> l.kind or l.run_thread <> l.thread_id then 'superseded'
        when l.ended_fence = l.fence then 'replayed'
        when l.run_fence <> l.fence or l.run_status <> 'running' then 'superseded'
        when l.tail_count > 0 and l.tail_first <> l.source_seq + 1 then 'missing'
        when l.source_seq + l.tail_count <> l.total then 'missing'
        else 'recorded'
      end as verdict
    from looked l
  ), ready as materialized (
    select j.*,
      -- The next run of the thread becomes its head. A thread that goes with its run has none.
      case when not j.temporary then (select q from run q where q.tenant_id = j.tenant_id and q.thread_id = j.thread_id and q.status = 'pending'
        and not q.thread_head and q.deleted_at is null order by q.created_at, q.id limit 1) end as q,
      (j.asked or j.status = 'waiting') and exists (select 1 from interrupt n where n.tenant_id = j.tenant_id and n.thread_id = j.thread_id
        and n.status = 'open') as asks
    from judged j where j.verdict = 'recorded'
  ), ended as (
    update run r set status = j.status, status_reason = nullif(j.reason, ''), error = j.error, ended_fence = j.fence, next = j.next,
      values = case when j.values_bytes is not null then substring(p_data from j.at + j.tail_bytes + j.end_bytes for j.values_bytes) end,
      source_seq = r.source_seq + j.tail_count, last_seq = j.last, thread_head = false, confirmed = true,
      started_at = coalesce(r.started_at, v_now), ended_at = v_now, updated_at = v_now, lease_until = null
    from ready j where r.tenant_id = j.tenant_id and r.id = j.run_id
    returning j.ord
  ), logged as (
    insert into run_event (tenant_id, run_id, first_seq, count, body)
    select j.tenant_id, j.run_id, j.last_seq + 1, j.tail_count + j.end_count, substring(p_data from j.at for j.tail_bytes + j.end_bytes) from ready j
  ), promoted as (
    -- Only after the old head gave up its place: the unique index of heads is checked row by row.
    -- What it waited behind its thread's head does not count as time in the queue.
    update run q set thread_head = true, thread_base = j.thread_base + j.last, updated_at = v_now,
      queue_deadline = greatest(q.queue_deadline, v_now + (q.queue_deadline - coalesce(q.due_at, q.created_at))),
      admitted_at = case when q.due_at is null or q.due_at <= v_now then v_now end, hinted_at = case when q.due_at is null or q.due_at <= v_now then v_now end
    from ready j join ended e on e.ord = j.ord
    where (j.q).id is not null and q.tenant_id = j.tenant_id and q.id = (j.q).id
    returning j.ord, q.admitted_at is not null as is_admitted
  ), settled as (
    update thread t set
      last_seq = j.thread_base + j.last,
      status = case when (j.q).id is not null then 'busy' when j.status = 'waiting' then 'interrupted'
        -- An edit that failed says nothing about the thread.
        when j.status in ('error', 'timeout') and j.purpose = 'run' then 'error'
        when j.asks then 'interrupted' else 'idle' end,
      values = case when j.values_bytes is null then t.values end,
      values_run_id = case when j.values_bytes is null then t.values_run_id else j.run_id end,
      interrupts = case when j.status = 'waiting' then substring(p_data from j.at + j.tail_bytes + j.end_bytes + coalesce(j.values_bytes, 0) for j.asked_bytes)
        when j.asks then t.interrupts end,
      state_updated_at = case when j.values_bytes is null then t.state_updated_at else v_now end,
      updated_at = v_now,
      deleted_at = case when j.delete_thread then v_now else t.deleted_at end
    from ready j where t.tenant_id = j.tenant_id and t.id = j.thread_id
  )
  select j.ord, j.verdict, j.run_status, j.run_reason, coalesce(j.source_seq, 0), j.last_seq + 1, j.thread_base,
    (y.q).id, (y.q).pool_id, (y.q).kind, (y.q).graph_id, p.is_admitted
  from judged j left join ready y on y.ord = j.ord left join promoted p on p.ord = j.ord order by j.ord;

  -- A rollback that was asked for undoes the run however it ended.
  if v_undo then
    for k in
      select i.tenant_id, i.run_id from run_finish_rows_v2(v_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
      where r.cancel_action = 'rollback' and r.ended_fence = i.fence and r.deleted_at is null
    loop
      perform run_undo(k.tenant_id, k.run_id);
    end loop;
  end if;
end $$;

do $$
declare f regprocedure;
begin
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'public' and p.proname ~ '^run_(extras|append|append_items|finish|finish_items|finish_rows)_v2$' loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_app, fairlead_sweeper', f);
    execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
  end loop;
end $$;

-- The other moves lock thread and run the same way. `for update` would make a checkpoint's reference to its thread wait for a move that itself waits for
-- the checkpoint's run: a deadlock, and a second lost.
do $$
declare f record;
begin
  for f in select pg_get_functiondef(p.oid) as text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'public' and p.proname ~ '^run_' and p.prosrc ~ '\mfor update\M' loop
    execute regexp_replace(f.text, '\mfor update\M', 'for no key update', 'g');
  end loop;
end $$;
