-- The path of a run: every function takes many items, sets the tenants of its batch, locks rows in one global order (thread, then run; by tenant,
-- then id), decides under the locks and answers item by item. A batch holds at most one item per key (create: thread; others: run).
--
-- These statements must enter by primary key, in tables of any size and with statistics of any age. Four things see to that, each found by losing it:
-- items come from functions that claim to return one row; the policies are no index conditions; no index but the primary key holds (tenant, id); and
-- plans are generic, with hash, merge and sequential scans out of the way. (Loops with a few look-ups an item were tried: certain plans, twice the CPU,
-- because row security costs once a statement. Plain joins with young statistics: 1.7 ms a claimed run instead of 50 µs.)

create function set_tenants(p_tenants uuid[]) returns void language sql
  as $$ select set_config('app.tenants', (select array_agg(distinct t)::text from unnest(p_tenants) t), true) $$;

-- ---- create ----

create function run_create_items_v1(p_items json) returns table (ord int, tenant_id uuid, run_id uuid, run_id_chosen boolean, thread_id uuid, thread_mode text,
  thread_metadata json, agent_id uuid, graph_id text, pool_id uuid, kind text, purpose text, strategy text, resume text, resume_ids text[], max_attempts int, recovery text,
  queue_timeout_ms bigint, run_timeout_ms bigint, due_ms bigint, metadata json, stream_modes text[], stream_subgraphs boolean, stream_resumable boolean,
  interrupt_before text[], interrupt_after text[], on_disconnect text, delete_thread boolean, from_checkpoint_id text, credential_id uuid, request_hash bytea,
  idempotency_key text, traceparent text)
language plpgsql immutable rows 1 as $$
#variable_conflict use_column
begin
  return query select (x.ordinality)::int, x.tenant_id, x.run_id, x.run_id_chosen, x.thread_id, x.thread_mode, x.thread_metadata, x.agent_id, x.graph_id, x.pool_id, x.kind,
    x.purpose, x.strategy, x.resume, x.resume_ids, x.max_attempts, x.recovery, x.queue_timeout_ms, x.run_timeout_ms, x.due_ms, x.metadata, x.stream_modes,
    x.stream_subgraphs, x.stream_resumable, x.interrupt_before, x.interrupt_after, x.on_disconnect, x.delete_thread, x.from_checkpoint_id, x.credential_id,
    decode(x.request_hash, 'hex'), x.idempotency_key, x.traceparent
  from rows from (json_to_recordset(p_items) as (
    tenant_id uuid, run_id uuid, run_id_chosen boolean, thread_id uuid, thread_mode text, thread_metadata json, agent_id uuid, graph_id text, pool_id uuid, kind text,
    purpose text, strategy text, resume text, resume_ids text[], max_attempts int, recovery text, queue_timeout_ms bigint, run_timeout_ms bigint, due_ms bigint,
    metadata json, stream_modes text[], stream_subgraphs boolean, stream_resumable boolean, interrupt_before text[], interrupt_after text[], on_disconnect text,
    delete_thread boolean, from_checkpoint_id text, credential_id uuid, request_hash text, idempotency_key text, traceparent text
  )) with ordinality as x;
end $$;

create function run_create_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window int)
returns table (ord int, verdict text, run_id uuid, is_head boolean, is_admitted boolean, base_seq bigint, created timestamptz, open_interrupts text[], blocking_run uuid)
language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz := clock_timestamp();
begin
  perform set_config('app.tenants', p_tenants, true);

  -- In one order, so that two batches that make the same threads wait for each other in a line, not in a circle.
  insert into thread as t (tenant_id, id, status, metadata)
    select i.tenant_id, i.thread_id, 'idle', i.thread_metadata from run_create_items_v1(p_items) i where i.thread_mode = 'create'
    order by i.tenant_id, i.thread_id
    on conflict do nothing;
  perform 1 from run_create_items_v1(p_items) i join thread t on t.tenant_id = i.tenant_id and t.id = i.thread_id
    where i.thread_mode <> 'temporary' order by i.tenant_id, i.thread_id for update of t;

  return query
  with item as materialized (
    select * from run_create_items_v1(p_items)
  ), looked as materialized (
    select i.ord,
      -- A repeated request gets the run of before.
      coalesce(
        case when i.idempotency_key is not null then (select array[k.run_id::text, (k.request_hash = i.request_hash)::text] from idempotency_key k
          where k.tenant_id = i.tenant_id and k.credential_id = i.credential_id and k.key = i.idempotency_key) end,
        case when i.run_id_chosen then (select array[r.id::text, (r.request_hash = i.request_hash)::text] from run r
          where r.tenant_id = i.tenant_id and r.id = i.run_id) end) as prior,
      -- A temporary thread is made below, for this run; nobody else can know it.
      case when i.thread_mode = 'temporary' then 0 else (select t.last_seq from thread t
        where t.tenant_id = i.tenant_id and t.id = i.thread_id and t.deleted_at is null) end as thread_last,
      case when i.thread_mode <> 'temporary' then (select h.id from run h where h.tenant_id = i.tenant_id and h.thread_id = i.thread_id and h.thread_head) end as head_run,
      case when i.thread_mode <> 'temporary' then (select array_agg(n.id order by n.created_at, n.id) from interrupt n
        where n.tenant_id = i.tenant_id and n.thread_id = i.thread_id and n.status = 'open') end as open_ids,
      i.from_checkpoint_id is null or exists (select 1 from checkpoint c where c.tenant_id = i.tenant_id and c.thread_id = i.thread_id and c.namespace = ''
        and c.id = i.from_checkpoint_id) as has_checkpoint
    from item i
  ), room as materialized (
    -- A window for each agent: runs that wait for one that is away do not hold up another's.
    select d.tenant_id, d.agent_id, (select p_window * n.weight - (select count(*) from (select 1 from run q where q.tenant_id = d.tenant_id
      and q.agent_id = d.agent_id and q.status = 'pending' and q.admitted_at is not null limit p_window * n.weight) c) from tenant n where n.id = d.tenant_id) as free
    from (select distinct i.tenant_id, i.agent_id from item i) d
  ), judged as materialized (
    select i.*, (l.prior)[1]::uuid as prior_run, l.head_run, l.thread_last, l.open_ids, l.head_run is null as goes_first, room.free,
      case
        when l.prior is not null then case when (l.prior)[2]::boolean then 'replayed' else 'mismatch' end
        when l.thread_last is null then 'thread_not_found'
        when l.head_run is not null and i.strategy = 'reject' then 'thread_busy'
        when not l.has_checkpoint then 'checkpoint_not_found'
        when i.resume = 'one' and cardinality(l.open_ids) > 1 then 'ambiguous_resume'
        when i.resume = 'one' and l.open_ids is null then 'no_such_interrupt'
        when i.resume = 'map' and not (i.resume_ids <@ coalesce(l.open_ids, '{}')) then 'no_such_interrupt'
        else 'created'
      end as verdict
    from item i join looked l on l.ord = i.ord join room on room.tenant_id = i.tenant_id and room.agent_id = i.agent_id
  ), placed as materialized (
    select j.*, j.goes_first and j.due_ms is null
      and j.free >= count(*) filter (where j.verdict = 'created' and j.goes_first) over (partition by j.tenant_id, j.agent_id order by j.ord) as is_admitted
    from judged j
  ), threads as (
    -- Written once, as the run will have it.
    insert into thread (tenant_id, id, status, metadata, graph_id, agent_id, temporary, created_at, updated_at)
    select p.tenant_id, p.thread_id, 'busy', (p.thread_metadata::jsonb || jsonb_build_object('graph_id', p.graph_id, 'assistant_id', p.agent_id))::json,
      p.graph_id, p.agent_id, true, v_now, v_now
    from placed p where p.verdict = 'created' and p.thread_mode = 'temporary'
  ), made as (
    insert into run (tenant_id, id, thread_id, agent_id, pool_id, kind, graph_id, purpose, status, max_attempts, recovery, thread_head, thread_base, admitted_at, hinted_at,
      due_at, queue_deadline, run_timeout_ms, input, command, config, context, metadata, state_update, stream_modes, stream_subgraphs, stream_resumable,
      interrupt_before, interrupt_after, multitask_strategy, on_disconnect, delete_thread, from_checkpoint_id, credential_id, request_hash, traceparent,
      created_at, updated_at)
    select p.tenant_id, p.run_id, p.thread_id, p.agent_id, p.pool_id, p.kind, p.graph_id, p.purpose, 'pending', p.max_attempts, p.recovery, p.goes_first,
      case when p.goes_first then p.thread_last end, case when p.is_admitted then v_now end, case when p.is_admitted then v_now end,
      v_now + p.due_ms * interval '1 ms', v_now + (coalesce(p.due_ms, 0) + p.queue_timeout_ms) * interval '1 ms', p.run_timeout_ms,
      p_input[p.ord], p_command[p.ord], p_config[p.ord], p_context[p.ord], p.metadata, p_state_update[p.ord], p.stream_modes, p.stream_subgraphs, p.stream_resumable,
      p.interrupt_before, p.interrupt_after, p.strategy, p.on_disconnect, p.delete_thread, p.from_checkpoint_id, p.credential_id,
      p.request_hash, p.traceparent, v_now, v_now
    from placed p where p.verdict = 'created'
  ), keyed as (
    insert into idempotency_key (tenant_id, credential_id, key, request_hash, run_id)
    select p.tenant_id, p.credential_id, p.idempotency_key, p.request_hash, p.run_id
    from placed p where p.verdict = 'created' and p.idempotency_key is not null
  ), settled as (
    -- Questions that are open: answered by a resume, superseded by plain input.
    update interrupt n set
      status = case when p.resume is null then 'superseded' else 'answered' end,
      answered_by_run_id = case when p.resume is null then null else p.run_id end
    from placed p
    where p.verdict = 'created' and p.open_ids is not null and p.purpose = 'run' and n.tenant_id = p.tenant_id and n.thread_id = p.thread_id and n.status = 'open'
      and case p.resume when 'one' then true when 'map' then n.id = any (p.resume_ids) else p_input[p.ord] is not null end
  ), touched as (
    update thread t set
      status = 'busy',
      updated_at = v_now,
      graph_id = coalesce(t.graph_id, p.graph_id),
      agent_id = coalesce(t.agent_id, p.agent_id),
      interrupts = case
        when p.open_ids is null or p.purpose <> 'run' then t.interrupts
        when p.resume = 'map' and not (p.open_ids <@ p.resume_ids) then t.interrupts
        when p.resume is not null or p_input[p.ord] is not null then null
        else t.interrupts end,
      metadata = case when t.agent_id is null and p.purpose = 'run'
        then (t.metadata::jsonb || jsonb_build_object('graph_id', p.graph_id, 'assistant_id', p.agent_id))::json else t.metadata end
    from placed p
    where p.verdict = 'created' and p.thread_mode <> 'temporary' and t.tenant_id = p.tenant_id and t.id = p.thread_id
  )
  select p.ord, p.verdict, coalesce(p.prior_run, p.run_id), p.goes_first, p.is_admitted, p.thread_last, v_now, p.open_ids, p.head_run
  from placed p order by p.ord;
end $$;

-- ---- claim ----

-- Candidates of one queue, oldest admission first, after topping the admitted ones up tenant by tenant. Owned by the sweeper: it sees every tenant
-- and returns nothing but names.
create function run_candidates_v1(p_pool uuid, p_kind text, p_graphs text[], p_limit int, p_window int)
returns table (tenant_id uuid, run_id uuid, graph_id text)
language plpgsql security definer set search_path = public, pg_temp as $$
#variable_conflict use_column
declare v_missing int;
begin
  select p_limit - count(*) into v_missing from (select 1 from run r where r.pool_id = p_pool and r.kind = p_kind and r.status = 'pending'
    and r.admitted_at is not null and r.graph_id = any (p_graphs) limit p_limit) a;
  if v_missing > 0 then
    -- A loose index scan visits each tenant with a backlog of a graph once, however long the backlog is.
    with recursive backlog as (
      select g.graph_id, (select r.tenant_id from run r where r.pool_id = p_pool and r.kind = p_kind and r.graph_id = g.graph_id and r.status = 'pending'
        and r.thread_head and r.admitted_at is null order by r.tenant_id limit 1) as tenant_id from unnest(p_graphs) as g (graph_id)
      union all
      select b.graph_id, (select r.tenant_id from run r where r.pool_id = p_pool and r.kind = p_kind and r.graph_id = b.graph_id and r.status = 'pending'
        and r.thread_head and r.admitted_at is null and r.tenant_id > b.tenant_id order by r.tenant_id limit 1) from backlog b where b.tenant_id is not null
    ), chosen as (
      select c.tenant_id, c.id from backlog b
      join tenant t on t.id = b.tenant_id
      cross join lateral (
        select r.tenant_id, r.id, row_number() over (order by r.created_at) as place from run r
        where r.pool_id = p_pool and r.kind = p_kind and r.graph_id = b.graph_id and r.tenant_id = b.tenant_id and r.status = 'pending' and r.thread_head
          and r.admitted_at is null and (r.due_at is null or r.due_at <= clock_timestamp())
        order by r.created_at limit greatest(v_missing, p_window * t.weight)
      ) c
      order by c.place, c.tenant_id limit v_missing
    ), locked as (
      select r.tenant_id, r.id from run r join chosen c on r.tenant_id = c.tenant_id and r.id = c.id
      where r.status = 'pending' and r.admitted_at is null order by r.tenant_id, r.id for update of r skip locked
    )
    update run r set admitted_at = clock_timestamp(), hinted_at = clock_timestamp() from locked l where r.tenant_id = l.tenant_id and r.id = l.id;
  end if;
  -- Locked here, so that several claimers of one queue each get runs of their own, instead of all the same ones and then nothing.
  return query select r.tenant_id, r.id, r.graph_id from run r
    where r.pool_id = p_pool and r.kind = p_kind and r.status = 'pending' and r.admitted_at is not null and r.graph_id = any (p_graphs)
    order by r.admitted_at limit p_limit for update of r skip locked;
end $$;

create type run_claimed as (
  ord int, tenant_id uuid, run_id uuid, thread_id uuid, agent_id uuid, graph_id text, agent_config json, purpose text, fence int, attempt int,
  input bytea, command bytea, config bytea, context bytea, metadata json, state_update bytea, stream_modes text[], stream_subgraphs boolean,
  interrupt_before text[], interrupt_after text[], from_checkpoint_id text, has_checkpoints boolean, thread_values bytea, deadline timestamptz,
  traceparent text, base_seq bigint, last_seq bigint, recovery text, ephemeral boolean
);

create function run_held_items_v1(p_items json) returns table (ord int, tenant_id uuid, run_id uuid, thread_id uuid, fence int, pool_id uuid, kind text, runner_id uuid,
  purpose text, first bigint, count int, total bigint, tail_first bigint, tail_count int, end_count int, status text, reason text, error json, next text[], interrupts json)
language plpgsql immutable rows 1 as $$
#variable_conflict use_column
begin
  return query select (x.ordinality)::int, x.tenant_id, x.run_id, x.thread_id, x.fence, x.pool_id, x.kind, x.runner_id, x.purpose, x.first, x.count, x.total, x.tail_first,
    x.tail_count, x.end_count, x.status, x.reason, x.error, x.next, x.interrupts
  from rows from (json_to_recordset(p_items) as (tenant_id uuid, run_id uuid, thread_id uuid, fence int, pool_id uuid, kind text, runner_id uuid, purpose text,
    first bigint, count int, total bigint, tail_first bigint, tail_count int, end_count int, status text, reason text, error json, next text[], interrupts json))
    with ordinality as x;
end $$;

-- The hard gate: whatever woke a runner, this statement decides whether it gets the run.
create function run_claim_v1(p_tenants text, p_items json, p_offer_ms int) returns setof run_claimed
language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz := clock_timestamp();
begin
  perform set_config('app.tenants', p_tenants, true);
  return query
  with held as materialized (
    select i.ord, i.runner_id as taker, i.pool_id as taker_pool, i.kind as taker_kind, r.tenant_id, r.id, r.agent_id, r.thread_id, r.pool_id, r.kind, r.status,
      r.thread_head, r.cancel_requested_at, r.due_at, r.queue_deadline, r.deleted_at
    from run_held_items_v1(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
    order by r.tenant_id, r.id for update of r skip locked
  ), chosen as materialized (
    select h.ord, h.taker, h.tenant_id, h.id,
      (select a from agent a where a.tenant_id = h.tenant_id and a.id = h.agent_id) as agent,
      (select t from thread t where t.tenant_id = h.tenant_id and t.id = h.thread_id) as thread
    from held h
    where h.pool_id = h.taker_pool and h.kind = h.taker_kind and h.status = 'pending' and h.thread_head and h.cancel_requested_at is null
      and (h.due_at is null or h.due_at <= v_now) and h.queue_deadline > v_now and h.deleted_at is null
  ), taken as (
    update run r set status = 'running', fence = r.fence + 1, runner_id = l.taker, confirmed = false, lease_until = v_now + p_offer_ms * interval '1 ms',
      source_seq = 0, agent_version = coalesce(r.agent_version, (l.agent).version), admitted_at = coalesce(r.admitted_at, v_now), updated_at = v_now,
      deadline = coalesce(r.deadline, v_now + r.run_timeout_ms * interval '1 ms'),
      base_seen = true, base_values_run_id = case when r.base_seen then r.base_values_run_id else (l.thread).values_run_id end
    from chosen l
    where r.tenant_id = l.tenant_id and r.id = l.id
    returning l.ord, r.tenant_id, r.id, r.thread_id, r.agent_id, (l.agent).graph_id, (l.agent).config as agent_config, r.purpose, r.fence, r.attempt, r.input, r.command,
      r.config, r.context, r.metadata, r.state_update, r.stream_modes, r.stream_subgraphs, r.interrupt_before, r.interrupt_after, r.from_checkpoint_id,
      (l.thread).temporary as thread_temporary, (l.thread).values as thread_own_values, (l.thread).values_run_id, r.deadline, r.traceparent, r.thread_base, r.last_seq,
      r.recovery, r.delete_thread
  )
  select k.ord, k.tenant_id, k.id, k.thread_id, k.agent_id, k.graph_id, k.agent_config, k.purpose, k.fence, k.attempt, k.input, k.command, k.config, k.context,
    k.metadata, k.state_update, k.stream_modes, k.stream_subgraphs, k.interrupt_before, k.interrupt_after, k.from_checkpoint_id,
    -- A thread that was made for this run has checkpoints only if an earlier attempt wrote them.
    case when k.thread_temporary and k.fence = 1 then false
      else exists (select 1 from checkpoint c where c.tenant_id = k.tenant_id and c.thread_id = k.thread_id and c.namespace = '') end,
    case when k.thread_own_values is not null or k.values_run_id is null then k.thread_own_values
      else (select v.values from run v where v.tenant_id = k.tenant_id and v.id = k.values_run_id) end,
    k.deadline, k.traceparent, k.thread_base, k.last_seq, k.recovery, k.delete_thread
  from taken k;
end $$;

-- Claims what is next in a queue for one runner, in one round trip.
create function run_claim_next_v1(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit int, p_window int, p_offer_ms int) returns setof run_claimed
language plpgsql as $$
#variable_conflict use_column
declare v_items json; v_tenants text;
begin
  select json_agg(json_build_object('tenant_id', c.tenant_id, 'run_id', c.run_id, 'pool_id', p_pool, 'kind', p_kind, 'runner_id', p_runner)),
      array_agg(distinct c.tenant_id)::text
    into v_items, v_tenants from run_candidates_v1(p_pool, p_kind, p_graphs, p_limit, p_window) c;
  if v_items is not null then
    return query select * from run_claim_v1(v_tenants, v_items, p_offer_ms);
  end if;
end $$;

-- ---- renew ----

create function run_renew_v1(p_tenants text, p_items json, p_lease_ms int)
returns table (ord int, alive boolean, cancel text)
language plpgsql as $$
#variable_conflict use_column
begin
  perform set_config('app.tenants', p_tenants, true);
  return query
  with locked as materialized (
    select i.ord, i.fence as held_fence, i.pool_id as held_pool, i.kind as held_kind, r.tenant_id, r.id, r.fence, r.status, r.pool_id, r.kind
    from run_held_items_v1(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
    order by r.tenant_id, r.id for update of r
  ), renewed as (
    -- A lock that was waited for returns the row as it is now, so the fence is judged under it.
    update run r set lease_until = clock_timestamp() + p_lease_ms * interval '1 ms', confirmed = true, started_at = coalesce(r.started_at, clock_timestamp())
    from locked l where r.tenant_id = l.tenant_id and r.id = l.id and l.fence = l.held_fence and l.status = 'running' and l.pool_id = l.held_pool
      and l.kind = l.held_kind
    returning l.ord, r.cancel_requested_at is not null as asked, r.cancel_action
  )
  select i.ord, n.ord is not null, case when n.asked then n.cancel_action end
  from run_held_items_v1(p_items) i left join renewed n on n.ord = i.ord order by i.ord;
end $$;

-- ---- append ----

-- What travels with the events of one item: checkpoints, pending writes, blobs, steps. The caller holds the run row.
create function run_extras_v1(p_item int, p_tenant uuid, p_run uuid, p_thread uuid, p_attempt int, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[],
  p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json)
returns void language plpgsql as $$
begin
  if p_blobs is not null then
    insert into checkpoint_blob (tenant_id, digest, part, parts, data)
    select p_tenant, decode(b.digest, 'hex'), b.part, b.parts, p_blob_data[b.ordinality]
    from rows from (json_to_recordset(p_blobs) as (item int, digest text, part int, parts int)) with ordinality as b
    where b.item = p_item
    order by b.digest, b.part
    on conflict do nothing;
  end if;
  if p_checkpoints is not null then
    insert into checkpoint (tenant_id, thread_id, namespace, id, run_id, parent_id, lineage, schema_version, step, head, metadata, channels, view)
    select p_tenant, p_thread, c.namespace, c.id, p_run, nullif(c.parent_id, ''), c.lineage, c.schema_version, c.step,
      p_head[c.ordinality], p_meta[c.ordinality], c.channels, p_view[c.ordinality]
    from rows from (json_to_recordset(p_checkpoints) as (item int, namespace text, id text, parent_id text, lineage text, schema_version int, step int, channels json))
      with ordinality as c
    where c.item = p_item
    order by c.ordinality
    on conflict (tenant_id, thread_id, namespace, id) do update set
      head = excluded.head, metadata = excluded.metadata, channels = excluded.channels, view = coalesce(excluded.view, checkpoint.view), run_id = excluded.run_id;
  end if;
  if p_writes is not null then
    insert into checkpoint_write (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx, run_id, channel, type, data)
    select distinct on (w.namespace, w.checkpoint_id, w.task_id, w.idx)
      p_tenant, p_thread, w.namespace, w.checkpoint_id, w.task_id, w.idx, p_run, w.channel, w.type, p_write_data[w.ordinality]
    from rows from (json_to_recordset(p_writes) as (item int, namespace text, checkpoint_id text, task_id text, idx int, channel text, type text))
      with ordinality as w
    where w.item = p_item
    order by w.namespace, w.checkpoint_id, w.task_id, w.idx, w.ordinality desc
    on conflict (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx) do update set
      channel = excluded.channel, type = excluded.type, data = excluded.data, run_id = excluded.run_id;
  end if;
  if p_steps is not null then
    insert into step (tenant_id, run_id, id, parent_id, attempt, kind, name, status, namespace, started_at, ended_at, usage, error)
    select distinct on (s.id) p_tenant, p_run, s.id, nullif(s.parent_id, ''), p_attempt, s.kind, s.name, s.status, s.namespace,
      to_timestamp(s.started_ms / 1000.0), case when s.ended_ms > 0 then to_timestamp(s.ended_ms / 1000.0) end, s.usage, nullif(s.error, '')
    from rows from (json_to_recordset(p_steps) as (item int, id text, parent_id text, kind text, name text, status text, namespace text[], started_ms bigint,
      ended_ms bigint, usage json, error text)) with ordinality as s
    where s.item = p_item
    order by s.id, s.ordinality desc
    on conflict (tenant_id, run_id, id) do update set
      status = excluded.status, ended_at = excluded.ended_at, usage = coalesce(excluded.usage, step.usage), error = excluded.error, name = excluded.name;
  end if;
end $$;

create function run_append_v1(p_tenants text, p_items json, p_seg_item int[], p_seg_count int[], p_seg_delta boolean[], p_seg_body bytea[], p_lease_ms int,
  p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json)
returns table (ord int, verdict text, stored bigint, first_seq bigint, base_seq bigint, cancel text)
language plpgsql as $$
#variable_conflict use_column
declare
  v_ord int[]; v_verdict text[]; v_stored bigint[]; v_first bigint[]; v_base bigint[]; v_cancel text[]; v_thread uuid[]; v_attempt int[]; k int; o record;
begin
  perform set_config('app.tenants', p_tenants, true);
  perform 1 from run_held_items_v1(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id order by r.tenant_id, r.id for update of r;

  with looked as materialized (
    select i.*, (select r from run r where r.tenant_id = i.tenant_id and r.id = i.run_id) as r from run_held_items_v1(p_items) i
  ), judged as materialized (
    select i.ord, i.tenant_id, i.run_id, i.count, (i.r).source_seq, (i.r).last_seq, (i.r).thread_base, (i.r).thread_id, (i.r).attempt,
      case when (i.r).cancel_requested_at is not null then (i.r).cancel_action end as cancel,
      case
        when (i.r).id is null or (i.r).fence <> i.fence or (i.r).status <> 'running' or (i.r).pool_id <> i.pool_id or (i.r).kind <> i.kind then 'superseded'
        when i.first <> (i.r).source_seq + 1 then 'out_of_order'
        else 'stored'
      end as verdict
    from looked i
  ), grown as (
    update run r set source_seq = r.source_seq + j.count, last_seq = r.last_seq + j.count, confirmed = true, started_at = coalesce(r.started_at, clock_timestamp()),
      lease_until = greatest(r.lease_until, clock_timestamp() + p_lease_ms * interval '1 ms')
    from judged j where j.verdict = 'stored' and r.tenant_id = j.tenant_id and r.id = j.run_id
  ), seg as materialized (
    select j.tenant_id, j.run_id, j.last_seq + 1 + sum(s.count) over (partition by s.item order by s.n) - s.count as first_seq, s.count, s.delta, s.body
    from unnest(p_seg_item, p_seg_count, p_seg_delta, p_seg_body) with ordinality as s (item, count, delta, body, n)
    join judged j on j.ord = s.item and j.verdict = 'stored'
  ), durable as (
    insert into run_event (tenant_id, run_id, first_seq, count, body) select g.tenant_id, g.run_id, g.first_seq, g.count, g.body from seg g where not g.delta
  ), deltas as (
    insert into run_delta (tenant_id, run_id, first_seq, count, body) select g.tenant_id, g.run_id, g.first_seq, g.count, g.body from seg g where g.delta
  )
  select array_agg(j.ord), array_agg(j.verdict),
    array_agg(case when j.verdict = 'stored' then j.source_seq + j.count when j.verdict = 'superseded' then 0 else j.source_seq end),
    array_agg(j.last_seq + 1), array_agg(j.thread_base), array_agg(j.cancel), array_agg(j.thread_id), array_agg(j.attempt)
    into v_ord, v_verdict, v_stored, v_first, v_base, v_cancel, v_thread, v_attempt from judged j;

  if p_checkpoints is not null or p_writes is not null or p_blobs is not null or p_steps is not null then
    for k in 1 .. cardinality(v_ord) loop
      if v_verdict[k] = 'stored' then
        select i.tenant_id, i.run_id into o from run_held_items_v1(p_items) i where i.ord = v_ord[k];
        perform run_extras_v1(v_ord[k], o.tenant_id, o.run_id, v_thread[k], v_attempt[k], p_checkpoints, p_head, p_meta, p_view, p_writes, p_write_data, p_blobs,
          p_blob_data, p_steps);
      end if;
    end loop;
  end if;
  return query select * from unnest(v_ord, v_verdict, v_stored, v_first, v_base, v_cancel);
end $$;

-- ---- finish ----

-- Ends runs with their runners' results. p_tail is the runner's last events, p_end the frames that the plane adds (error, end); both are EventLists, and
-- EventLists concatenate.
create function run_finish_v1(p_tenants text, p_items json, p_tail bytea[], p_end bytea[], p_values bytea[], p_interrupts bytea[], p_interrupt_values bytea[],
  p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json)
returns table (ord int, verdict text, stored_status text, stored_reason text, source bigint, first_seq bigint, base_seq bigint, next_run uuid, next_pool uuid, next_kind text, next_graph text, next_admitted boolean)
language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz := clock_timestamp(); k record; v_extras boolean; v_asks boolean; v_undo boolean;
begin
  perform set_config('app.tenants', p_tenants, true);
  select bool_or(l.asks) into v_asks from (
    select t.interrupts is not null as asks from run_held_items_v1(p_items) i join thread t on t.tenant_id = i.tenant_id and t.id = i.thread_id
    order by t.tenant_id, t.id for update of t) l;
  select bool_or(l.undo) into v_undo from (
    select coalesce(r.cancel_action = 'rollback', false) as undo from run_held_items_v1(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
    order by r.tenant_id, r.id for update of r) l;
  v_extras := p_checkpoints is not null or p_writes is not null or p_blobs is not null or p_steps is not null;

  if v_extras or v_asks or cardinality(p_interrupt_values) > 0 then
    -- What a question, an extra or a rollback needs is written first, run by run: such runs are few.
    for k in
      select i.ord, i.tenant_id, i.run_id, i.thread_id, i.status, i.purpose, i.interrupts, r.attempt, t.interrupts is not null as asks
      from run_held_items_v1(p_items) i
      join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
      cross join lateral (select n.interrupts from thread n where n.tenant_id = i.tenant_id and n.id = i.thread_id offset 0) t
      where (v_extras or i.status = 'waiting' or t.interrupts is not null)
        and r.fence = i.fence and r.status = 'running' and r.pool_id = i.pool_id and r.kind = i.kind and r.thread_id = i.thread_id
        and r.source_seq + i.tail_count = i.total and (i.tail_count = 0 or i.tail_first = r.source_seq + 1)
      order by i.ord
    loop
      if v_extras then
        perform run_extras_v1(k.ord, k.tenant_id, k.run_id, k.thread_id, k.attempt, p_checkpoints, p_head, p_meta, p_view, p_writes, p_write_data, p_blobs, p_blob_data, p_steps);
      end if;
      -- What was asked before is not asked any more once a run of the thread went through or asks anew.
      if k.purpose = 'run' and k.status in ('success', 'waiting') and k.asks then
        update interrupt n set status = 'superseded' where n.tenant_id = k.tenant_id and n.thread_id = k.thread_id and n.status = 'open';
      end if;
      if k.status = 'waiting' then
        insert into interrupt as n (tenant_id, thread_id, id, run_id, status, namespace, task_id, value)
          select k.tenant_id, k.thread_id, w.id, k.run_id, 'open', w.namespace, w.task_id, p_interrupt_values[w.value]
          from json_to_recordset(coalesce(k.interrupts, '[]')) as w (id text, namespace text[], task_id text, value int)
          on conflict (tenant_id, thread_id, id, run_id) do update set status = 'open', value = excluded.value;
      end if;
    end loop;
  end if;

  return query
  with looked as materialized (
    select i.*, (select r from run r where r.tenant_id = i.tenant_id and r.id = i.run_id) as r,
      (select t from thread t where t.tenant_id = i.tenant_id and t.id = i.thread_id) as t
    from run_held_items_v1(p_items) i
  ), judged as materialized (
    select i.*, (i.r).last_seq + i.tail_count + i.end_count as last,
      case
        when (i.r).id is null or (i.r).pool_id <> i.pool_id or (i.r).kind <> i.kind or (i.r).thread_id <> i.thread_id then 'superseded'
        when (i.r).ended_fence = i.fence then 'replayed'
        when (i.r).fence <> i.fence or (i.r).status <> 'running' then 'superseded'
        when i.tail_count > 0 and i.tail_first <> (i.r).source_seq + 1 then 'missing'
        when (i.r).source_seq + i.tail_count <> i.total then 'missing'
        else 'recorded'
      end as verdict
    from looked i
  ), ready as materialized (
    select j.*,
      -- The next run of the thread becomes its head. A thread that goes with its run has none.
      case when not (j.t).temporary then (select q from run q where q.tenant_id = j.tenant_id and q.thread_id = j.thread_id and q.status = 'pending'
        and not q.thread_head and q.deleted_at is null order by q.created_at, q.id limit 1) end as q,
      ((j.t).interrupts is not null or j.status = 'waiting') and exists (select 1 from interrupt n where n.tenant_id = j.tenant_id and n.thread_id = j.thread_id
        and n.status = 'open') as asks
    from judged j where j.verdict = 'recorded'
  ), ended as (
    update run r set status = j.status, status_reason = nullif(j.reason, ''), error = j.error, ended_fence = j.fence, values = p_values[j.ord], next = j.next,
      source_seq = r.source_seq + j.tail_count, last_seq = j.last, thread_head = false, confirmed = true,
      started_at = coalesce(r.started_at, v_now), ended_at = v_now, updated_at = v_now, lease_until = null
    from ready j where r.tenant_id = j.tenant_id and r.id = j.run_id
    returning j.ord
  ), logged as (
    insert into run_event (tenant_id, run_id, first_seq, count, body)
    select j.tenant_id, j.run_id, (j.r).last_seq + 1, j.tail_count + j.end_count, coalesce(p_tail[j.ord], ''::bytea) || p_end[j.ord] from ready j
  ), promoted as (
    -- Only after the old head gave up its place: the unique index of heads is checked row by row.
    update run q set thread_head = true, thread_base = (j.r).thread_base + j.last, updated_at = v_now,
      admitted_at = case when q.due_at is null or q.due_at <= v_now then v_now end, hinted_at = case when q.due_at is null or q.due_at <= v_now then v_now end
    from ready j join ended e on e.ord = j.ord
    where (j.q).id is not null and q.tenant_id = j.tenant_id and q.id = (j.q).id
    returning j.ord, q.admitted_at is not null as is_admitted
  ), settled as (
    update thread t set
      last_seq = (j.r).thread_base + j.last,
      status = case when (j.q).id is not null then 'busy' when j.status = 'waiting' then 'interrupted'
        -- An edit that failed says nothing about the thread.
        when j.status in ('error', 'timeout') and j.purpose = 'run' then 'error'
        when j.asks then 'interrupted' else 'idle' end,
      values = case when p_values[j.ord] is null then t.values end,
      values_run_id = case when p_values[j.ord] is null then t.values_run_id else j.run_id end,
      interrupts = case when j.status = 'waiting' then p_interrupts[j.ord] when j.asks then t.interrupts end,
      state_updated_at = case when p_values[j.ord] is null then t.state_updated_at else v_now end,
      updated_at = v_now,
      deleted_at = case when (j.r).delete_thread then v_now else t.deleted_at end
    from ready j where t.tenant_id = j.tenant_id and t.id = j.thread_id
  )
  select j.ord, j.verdict, (j.r).status, (j.r).status_reason, coalesce((j.r).source_seq, 0), (j.r).last_seq + 1, (j.r).thread_base,
    (y.q).id, (y.q).pool_id, (y.q).kind, (y.q).graph_id, p.is_admitted
  from judged j left join ready y on y.ord = j.ord left join promoted p on p.ord = j.ord order by j.ord;

  -- A rollback that was asked for undoes the run however it ended.
  if v_undo then
    for k in
      select i.tenant_id, i.run_id from run_held_items_v1(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
      where r.cancel_action = 'rollback' and r.ended_fence = i.fence and r.deleted_at is null
    loop
      perform run_undo(k.tenant_id, k.run_id);
    end loop;
  end if;
end $$;

-- ---- moves of the plane, one run at a time ----

create type run_moved as (
  verdict text, run_id uuid, thread_id uuid, status text, status_reason text, fence int, attempt int, pool_id uuid, kind text, graph_id text, runner_id uuid,
  first_seq bigint, base_seq bigint, last_seq bigint, admitted boolean, next_run uuid, next_pool uuid, next_kind text, next_graph text, next_admitted boolean
);

-- Ends a run without its runner. The caller holds the thread and the run; the run is pending or running.
create function run_end(p_tenant uuid, p_run uuid, p_status text, p_reason text, p_error json, p_end bytea, p_end_count int) returns run_moved
language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz := clock_timestamp(); r run; q run; m run_moved; v_was_head boolean;
begin
  select thread_head into v_was_head from run where tenant_id = p_tenant and id = p_run;
  update run x set status = p_status, status_reason = p_reason, error = p_error, fence = x.fence + 1, thread_head = false, lease_until = null, ended_at = v_now,
    updated_at = v_now, last_seq = x.last_seq + p_end_count
    where x.tenant_id = p_tenant and x.id = p_run returning * into r;
  insert into run_event (tenant_id, run_id, first_seq, count, body) values (p_tenant, p_run, r.last_seq - p_end_count + 1, p_end_count, p_end);
  m.verdict := 'moved'; m.run_id := r.id; m.thread_id := r.thread_id; m.status := r.status; m.status_reason := r.status_reason; m.fence := r.fence; m.attempt := r.attempt;
  m.pool_id := r.pool_id; m.kind := r.kind; m.graph_id := r.graph_id; m.runner_id := r.runner_id; m.first_seq := r.last_seq - p_end_count + 1; m.base_seq := r.thread_base; m.last_seq := r.last_seq;
  if v_was_head then
    select * into q from run w where w.tenant_id = p_tenant and w.thread_id = r.thread_id and w.status = 'pending' and not w.thread_head and w.deleted_at is null
      order by w.created_at, w.id limit 1;
    if q.id is not null then
      update run w set thread_head = true, thread_base = r.thread_base + r.last_seq, updated_at = v_now,
        queue_deadline = greatest(w.queue_deadline, v_now + (w.queue_deadline - coalesce(w.due_at, w.created_at))),
        admitted_at = case when w.due_at is null or w.due_at <= v_now then v_now end, hinted_at = case when w.due_at is null or w.due_at <= v_now then v_now end
        where w.tenant_id = p_tenant and w.id = q.id returning * into q;
      m.next_run := q.id; m.next_pool := q.pool_id; m.next_kind := q.kind; m.next_graph := q.graph_id; m.next_admitted := q.admitted_at is not null;
    end if;
    update thread t set last_seq = r.thread_base + r.last_seq, updated_at = v_now,
      status = case when q.id is not null then 'busy'
        when p_status in ('error', 'timeout') and r.purpose = 'run' then 'error'
        when exists (select 1 from interrupt n where n.tenant_id = p_tenant and n.thread_id = r.thread_id and n.status = 'open') then 'interrupted' else 'idle' end,
      interrupts = case when exists (select 1 from interrupt n where n.tenant_id = p_tenant and n.thread_id = r.thread_id and n.status = 'open') then t.interrupts end,
      deleted_at = case when r.delete_thread then v_now else t.deleted_at end
      where t.tenant_id = p_tenant and t.id = r.thread_id;
  end if;
  return m;
end $$;

-- Removes what a run left behind: its checkpoints and writes, and gives the thread back the values of before.
create function run_undo(p_tenant uuid, p_run uuid) returns void language plpgsql as $$
#variable_conflict use_column
declare r run;
begin
  select * into r from run where tenant_id = p_tenant and id = p_run;
  delete from checkpoint_write w where w.tenant_id = p_tenant and w.run_id = p_run;
  delete from checkpoint c where c.tenant_id = p_tenant and c.run_id = p_run;
  if r.base_seen then
    update thread t set values_run_id = r.base_values_run_id, values = case when r.base_values_run_id is null then t.values end
      where t.tenant_id = p_tenant and t.id = r.thread_id and t.values_run_id is not distinct from p_run;
  end if;
  update interrupt n set status = 'superseded' where n.tenant_id = p_tenant and n.run_id = p_run and n.status = 'open';
  if found then
    update thread t set interrupts = null, status = case when t.status = 'interrupted' then 'idle' else t.status end
      where t.tenant_id = p_tenant and t.id = r.thread_id
        and not exists (select 1 from interrupt n where n.tenant_id = p_tenant and n.thread_id = r.thread_id and n.status = 'open');
  end if;
  update run set deleted_at = clock_timestamp() where tenant_id = p_tenant and id = p_run;
end $$;

-- Cancels: a pending run at once, a running one by a durable flag that its runner is told of. p_force ends a running one too (past the grace time).
create function run_cancel_v1(p_tenant uuid, p_run uuid, p_action text, p_force_fence int, p_end bytea, p_end_count int) returns run_moved
language plpgsql as $$
#variable_conflict use_column
declare r run; m run_moved;
begin
  perform set_tenants(array[p_tenant]);
  select * into r from run where tenant_id = p_tenant and id = p_run and deleted_at is null;
  if r.id is null then m.verdict := 'not_found'; return m; end if;
  perform 1 from thread where tenant_id = p_tenant and id = r.thread_id for update;
  select * into r from run where tenant_id = p_tenant and id = p_run and deleted_at is null for update;
  if r.id is null then m.verdict := 'not_found'; return m; end if;
  if r.status = 'pending' or (r.status = 'running' and p_force_fence is not null and r.fence = p_force_fence) then
    m := run_end(p_tenant, p_run, 'cancelled', case when p_action = 'rollback' then 'rolled_back' else 'cancelled' end, null, p_end, p_end_count);
    if p_action = 'rollback' then perform run_undo(p_tenant, p_run); end if;
    return m;
  end if;
  m.run_id := r.id; m.thread_id := r.thread_id; m.status := r.status; m.status_reason := r.status_reason; m.fence := r.fence; m.attempt := r.attempt; m.pool_id := r.pool_id;
  m.kind := r.kind; m.graph_id := r.graph_id; m.runner_id := r.runner_id; m.last_seq := r.last_seq;
  if r.status = 'running' then
    -- A rollback asked for later wins over an interrupt asked for before: it undoes more.
    update run x set cancel_requested_at = coalesce(x.cancel_requested_at, clock_timestamp()),
      cancel_action = case when x.cancel_action = 'rollback' then 'rollback' else p_action end, updated_at = clock_timestamp()
      where x.tenant_id = p_tenant and x.id = p_run;
    m.verdict := 'requested';
  else
    m.verdict := 'final';
  end if;
  return m;
end $$;

-- Takes a run away from its runner: back to the queue with a higher fence, or to its end. The caller read (fence, confirmed, attempt) before; the guard
-- holds them to it, and a runner that gives back (p_pool, p_kind) to its own queue. p_again / p_again_count: frames for a new execution, written where an
-- earlier one has shown events; p_end: frames for the end, whose status and reason p_end_* name. Causes: lost (uses an attempt), lapsed and released (use
-- a hand-back), undelivered (was claimed and never sent to a runner: nobody's fault, uses neither).
create function run_take_back_v1(p_tenant uuid, p_run uuid, p_fence int, p_pool uuid, p_kind text, p_cause text, p_max_handbacks int, p_again bytea,
  p_again_count int, p_end bytea, p_end_count int, p_end_status text, p_end_reason text, p_end_error json, p_cancel_end bytea, p_cancel_end_count int)
  returns run_moved
language plpgsql as $$
#variable_conflict use_column
declare r run; m run_moved; v_now timestamptz; v_holder uuid; v_shown boolean;
begin
  perform set_tenants(array[p_tenant]);
  select * into r from run where tenant_id = p_tenant and id = p_run;
  if r.id is null then m.verdict := 'gone'; return m; end if;
  perform 1 from thread where tenant_id = p_tenant and id = r.thread_id for update;
  select * into r from run where tenant_id = p_tenant and id = p_run for update;
  v_now := clock_timestamp();
  v_holder := r.runner_id;
  v_shown := p_cause = 'lost' or r.source_seq > 0;
  if r.status <> 'running' or r.fence <> p_fence or r.pool_id <> p_pool or r.kind <> p_kind or (p_cause in ('lapsed', 'lost') and (r.lease_until >= v_now or r.confirmed <> (p_cause = 'lost'))) then
    m.verdict := 'gone'; return m;
  end if;
  if r.cancel_requested_at is not null then
    m := run_end(p_tenant, p_run, 'cancelled', case when r.cancel_action = 'rollback' then 'rolled_back' else 'cancelled' end, null, p_cancel_end, p_cancel_end_count);
    if r.cancel_action = 'rollback' then perform run_undo(p_tenant, p_run); end if;
    return m;
  end if;
  if p_cause = 'lost' and (r.attempt >= r.max_attempts or r.recovery = 'fail') or (p_cause in ('lapsed', 'released') and r.handbacks >= p_max_handbacks) then
    return run_end(p_tenant, p_run, p_end_status, p_end_reason, p_end_error, p_end, p_end_count);
  end if;
  update run x set status = 'pending', fence = x.fence + 1, runner_id = null, confirmed = false, lease_until = null, source_seq = 0,
    attempt = x.attempt + case when p_cause = 'lost' then 1 else 0 end, handbacks = x.handbacks + case when p_cause in ('lapsed', 'released') then 1 else 0 end,
    last_seq = x.last_seq + case when v_shown then p_again_count else 0 end,
    -- A run that was given back goes to the front: its client has waited already.
    admitted_at = least(x.admitted_at, v_now), hinted_at = v_now, hint_count = 0, dispatch_no = x.dispatch_no + 1,
    queue_deadline = greatest(x.queue_deadline, v_now + interval '1 hour'), updated_at = v_now
    where x.tenant_id = p_tenant and x.id = p_run returning * into r;
  m.verdict := 'requeued'; m.run_id := r.id; m.thread_id := r.thread_id; m.status := r.status; m.fence := r.fence; m.attempt := r.attempt; m.pool_id := r.pool_id;
  m.kind := r.kind; m.graph_id := r.graph_id; m.base_seq := r.thread_base; m.last_seq := r.last_seq; m.admitted := true; m.runner_id := v_holder;
  if v_shown then
    insert into run_event (tenant_id, run_id, first_seq, count, body) values (p_tenant, p_run, r.last_seq - p_again_count + 1, p_again_count, p_again);
    m.first_seq := r.last_seq - p_again_count + 1;
  end if;
  return m;
end $$;

-- Ends a run whose time is up: in the queue (pending past queue_deadline) or running (past deadline).
create function run_expire_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count int, p_status text, p_reason text, p_error json) returns run_moved
language plpgsql as $$
#variable_conflict use_column
declare r run; m run_moved;
begin
  perform set_tenants(array[p_tenant]);
  select * into r from run where tenant_id = p_tenant and id = p_run;
  if r.id is null then m.verdict := 'gone'; return m; end if;
  perform 1 from thread where tenant_id = p_tenant and id = r.thread_id for update;
  select * into r from run where tenant_id = p_tenant and id = p_run for update;
  if (r.status = 'pending' and p_status = 'error' and r.queue_deadline <= clock_timestamp()) or (r.status = 'running' and p_status = 'timeout' and r.deadline <= clock_timestamp()) then
    return run_end(p_tenant, p_run, p_status, p_reason, p_error, p_end, p_end_count);
  end if;
  m.verdict := 'gone'; return m;
end $$;

-- Ends a run whose holder, proven by its fence, sent something that cannot be stored.
create function run_fail_v1(p_tenant uuid, p_run uuid, p_fence int, p_pool uuid, p_kind text, p_reason text, p_error json, p_end bytea, p_end_count int) returns run_moved
language plpgsql as $$
#variable_conflict use_column
declare r run; m run_moved;
begin
  perform set_tenants(array[p_tenant]);
  select * into r from run where tenant_id = p_tenant and id = p_run;
  if r.id is null then m.verdict := 'gone'; return m; end if;
  perform 1 from thread where tenant_id = p_tenant and id = r.thread_id for update;
  select * into r from run where tenant_id = p_tenant and id = p_run for update;
  if r.status <> 'running' or r.fence <> p_fence or r.pool_id <> p_pool or r.kind <> p_kind then m.verdict := 'gone'; return m; end if;
  return run_end(p_tenant, p_run, 'error', p_reason, p_error, p_end, p_end_count);
end $$;

-- Cuts the leases of runs whose runner's connections are all closed; one heartbeat restores them.
create function run_cut_leases_v1(p_items json, p_ms int) returns int language plpgsql as $$
#variable_conflict use_column
declare n int;
begin
  perform set_tenants(array(select tenant_id from json_to_recordset(p_items) as i (tenant_id uuid)));
  with locked as (
    select r.tenant_id, r.id from json_to_recordset(p_items) as i (tenant_id uuid, run_id uuid, fence int) join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
    where r.fence = i.fence and r.status = 'running' order by r.tenant_id, r.id for update of r
  )
  update run r set lease_until = least(r.lease_until, clock_timestamp() + p_ms * interval '1 ms')
    from locked l, json_to_recordset(p_items) as i (tenant_id uuid, run_id uuid, fence int)
    where r.tenant_id = l.tenant_id and r.id = l.id and i.tenant_id = r.tenant_id and i.run_id = r.id and r.fence = i.fence and r.status = 'running';
  get diagnostics n = row_count;
  return n;
end $$;

-- ---- sweeps: the sweeper finds, the functions above decide ----

-- Everything of one tick in one statement. `what`: lapsed | lost (leases), ungraceful (cancel past its grace), unclaimed (queue time over), overdue (deadline).
create function run_sweep_v1(p_limit int, p_grace_ms int)
returns table (what text, tenant_id uuid, run_id uuid, thread_id uuid, fence int, attempt int, recovery text, cancel_action text)
language sql security definer set search_path = public, pg_temp as $$
  (select case when r.confirmed then 'lost' else 'lapsed' end, r.tenant_id, r.id, r.thread_id, r.fence, r.attempt, r.recovery, r.cancel_action
    from run r where r.status = 'running' and r.lease_until < clock_timestamp() limit p_limit)
  union all
  (select 'ungraceful', r.tenant_id, r.id, r.thread_id, r.fence, r.attempt, r.recovery, r.cancel_action
    from run r where r.status = 'running' and r.cancel_requested_at < clock_timestamp() - p_grace_ms * interval '1 ms' limit p_limit)
  union all
  (select 'overdue', r.tenant_id, r.id, r.thread_id, r.fence, r.attempt, r.recovery, r.cancel_action
    from run r where r.status = 'running' and r.deadline < clock_timestamp() limit p_limit)
$$;

-- What one runner was told to stop and has not ended.
create function run_open_cancels_v1(p_pool uuid, p_kind text, p_runner uuid) returns table (tenant_id uuid, run_id uuid, fence int)
language sql security definer set search_path = public, pg_temp as $$
  select r.tenant_id, r.id, r.fence from run r where r.status = 'running' and r.runner_id = p_runner and r.pool_id = p_pool and r.kind = p_kind
    and r.cancel_requested_at is not null
$$;

create function run_sweep_queue_v1(p_limit int)
returns table (tenant_id uuid, run_id uuid, thread_id uuid)
language sql security definer set search_path = public, pg_temp as $$
  (select r.tenant_id, r.id, r.thread_id from run r where r.status = 'pending' and r.admitted_at is not null and r.queue_deadline < clock_timestamp() limit p_limit)
  union all
  (select r.tenant_id, r.id, r.thread_id from run r where r.status = 'pending' and r.thread_head and r.admitted_at is null and r.queue_deadline < clock_timestamp() limit p_limit)
$$;

-- The relay: queues that have work waiting, and admitted runs whose hint is old (5 s, doubling to 60 s), whose hint it renews.
create function run_relay_v1(p_limit int)
returns table (tenant_id uuid, run_id uuid, pool_id uuid, kind text, graph_id text, dispatch_no int)
language sql security definer set search_path = public, pg_temp as $$
  with stale as (
    select r.tenant_id, r.id from run r where r.status = 'pending' and r.admitted_at is not null
      and r.hinted_at < clock_timestamp() - least(5 * power(2, least(r.hint_count, 4)), 60) * interval '1 s'
    order by r.tenant_id, r.id limit p_limit for update of r skip locked
  )
  update run r set hinted_at = clock_timestamp(), hint_count = r.hint_count + 1 from stale s
    where r.tenant_id = s.tenant_id and r.id = s.id returning r.tenant_id, r.id, r.pool_id, r.kind, r.graph_id, r.dispatch_no
$$;

-- Which of these queues have something that could be claimed now?
create function run_queues_v1(p_pools uuid[], p_kinds text[], p_graphs text[]) returns table (pool_id uuid, kind text, graph_id text)
language sql security definer set search_path = public, pg_temp as $$
  select q.pool_id, q.kind, q.graph_id from unnest(p_pools, p_kinds, p_graphs) as q (pool_id, kind, graph_id)
  where exists (select 1 from run r where r.pool_id = q.pool_id and r.kind = q.kind and r.graph_id = q.graph_id and r.status = 'pending' and r.admitted_at is not null)
    or exists (select 1 from run r where r.pool_id = q.pool_id and r.kind = q.kind and r.graph_id = q.graph_id and r.status = 'pending' and r.thread_head
      and r.admitted_at is null and (r.due_at is null or r.due_at <= clock_timestamp()))
$$;

-- (last number, status) of everything that is followed in a process.
create function run_heads_v1(p_tenants uuid[], p_runs uuid[]) returns table (ord int, last_seq bigint, status text, deleted boolean, thread_base bigint)
language plpgsql as $$
#variable_conflict use_column
begin
  perform set_tenants(p_tenants);
  return query select (k.n)::int, r.last_seq, r.status, r.deleted_at is not null, r.thread_base
    from unnest(p_tenants, p_runs) with ordinality as k (tenant_id, run_id, n) join run r on r.tenant_id = k.tenant_id and r.id = k.run_id;
end $$;

-- Chunks of one run after a cursor, both classes, in order.
create function run_read_v1(p_tenant uuid, p_run uuid, p_after bigint, p_bytes int) returns table (first_seq bigint, count int, body bytea)
language plpgsql as $$
#variable_conflict use_column
begin
  perform set_tenants(array[p_tenant]);
  return query
  with chunk as (
    (select e.first_seq, e.count, e.body from run_event e where e.tenant_id = p_tenant and e.run_id = p_run
       and e.first_seq >= coalesce((select max(b.first_seq) from run_event b where b.tenant_id = p_tenant and b.run_id = p_run and b.first_seq <= p_after + 1), 0)
       order by e.first_seq limit 500)
    union all
    (select d.first_seq, d.count, d.body from run_delta d where d.tenant_id = p_tenant and d.run_id = p_run
       and d.first_seq >= coalesce((select max(b.first_seq) from run_delta b where b.tenant_id = p_tenant and b.run_id = p_run and b.first_seq <= p_after + 1), 0)
       order by d.first_seq limit 500)
  ), ranked as (
    -- A page of one class must not run ahead of the other's end: only what both pages cover is returned.
    select c.*, sum(octet_length(c.body)) over (order by c.first_seq) - octet_length(c.body) as before from chunk c where c.first_seq + c.count - 1 > p_after
  )
  select k.first_seq, k.count, k.body from ranked k where k.before < p_bytes
    and k.first_seq <= least(
      coalesce((select case when count(*) = 500 then max(x.first_seq) end from (select e.first_seq from run_event e where e.tenant_id = p_tenant and e.run_id = p_run
         and e.first_seq > p_after order by e.first_seq limit 500) x), 9223372036854775807),
      coalesce((select case when count(*) = 500 then max(x.first_seq) end from (select d.first_seq from run_delta d where d.tenant_id = p_tenant and d.run_id = p_run
         and d.first_seq > p_after order by d.first_seq limit 500) x), 9223372036854775807))
  order by k.first_seq;
end $$;

-- ---- credentials and announcements ----

create function api_key_find_v1(p_public_id text)
returns table (tenant_id uuid, id uuid, secret_hash bytea, previous_hash bytea, previous_expires_at timestamptz, scopes text[], expires_at timestamptz, revoked_at timestamptz)
language sql stable security definer set search_path = public, pg_temp as $$
  select k.tenant_id, k.id, k.secret_hash, k.previous_hash, k.previous_expires_at, k.scopes, k.expires_at, k.revoked_at from api_key k where k.public_id = p_public_id
$$;

create function runner_token_find_v1(p_public_id text)
returns table (tenant_id uuid, id uuid, kind text, secret_hash bytea, previous_hash bytea, previous_expires_at timestamptz, expires_at timestamptz, revoked_at timestamptz)
language sql stable security definer set search_path = public, pg_temp as $$
  select k.tenant_id, k.id, k.kind, k.secret_hash, k.previous_hash, k.previous_expires_at, k.expires_at, k.revoked_at from runner_token k where k.public_id = p_public_id
$$;

-- Makes or renews the system agents of an announcement: in the pool's tenant, or in every tenant when the pool is the operator's. p_ids holds the
-- agent ids, which are a function of the graph id. A changed offer makes a new version. Names never shadow: where a graph id already belongs to
-- another pool or kind the offer is skipped and reported.
create function agent_announce_v1(p_pool uuid, p_kind text, p_offers json)
returns table (graph_id text, tenant_id uuid, outcome text)
language plpgsql security definer set search_path = public, pg_temp as $$
#variable_conflict use_column
begin
  -- One announcer at a time: versions are counted.
  perform pg_advisory_xact_lock(hashtextextended('agent_announce:' || p_pool::text || ':' || p_kind, 0));
  return query
  with offer as (
    select * from json_to_recordset(p_offers) as o (id uuid, graph_id text, name text, description text, digest text, input_schema json, output_schema json,
      state_schema json, config_schema json, context_schema json, recovery text, max_attempts int, queue_timeout_ms bigint, run_timeout_ms bigint)
  ), home as (
    select t.id as tenant_id from tenant t
    where case when p_pool = '00000000-0000-7000-8000-000000000000' then true else t.id = p_pool end
  ), target as (
    select h.tenant_id, o.*, a.id as agent_id, a.pool_id, a.kind, a.version, v.offer_digest
    from home h cross join offer o
    left join agent a on a.tenant_id = h.tenant_id and a.graph_id = o.graph_id and a.created_by = 'system'
    left join agent_version v on v.tenant_id = a.tenant_id and v.agent_id = a.id and v.version = a.version
  ), judged as (
    select t.*, case when t.agent_id is null then 'created' when t.pool_id <> p_pool or t.kind <> p_kind then 'taken'
      when t.offer_digest is distinct from decode(t.digest, 'hex') then 'changed' else 'same' end as outcome
    from target t
  ), created as (
    insert into agent (tenant_id, id, graph_id, pool_id, kind, created_by, name, description, metadata)
    select j.tenant_id, j.id, j.graph_id, p_pool, p_kind, 'system', coalesce(nullif(j.name, ''), j.graph_id), nullif(j.description, ''), '{"created_by":"system"}'
    from judged j where j.outcome = 'created'
    returning agent.tenant_id
  ), changed as (
    update agent a set version = j.version + 1, name = coalesce(nullif(j.name, ''), j.graph_id), description = nullif(j.description, ''), updated_at = clock_timestamp()
    from judged j where j.outcome = 'changed' and a.tenant_id = j.tenant_id and a.id = j.agent_id
  ), versioned as (
    insert into agent_version (tenant_id, agent_id, version, offer_digest, input_schema, output_schema, state_schema, config_schema, context_schema, recovery,
      max_attempts, queue_timeout_ms, run_timeout_ms)
    select j.tenant_id, coalesce(j.agent_id, j.id), coalesce(j.version, 0) + 1, decode(j.digest, 'hex'), j.input_schema, j.output_schema, j.state_schema,
      j.config_schema, j.context_schema, j.recovery, j.max_attempts, j.queue_timeout_ms, j.run_timeout_ms
    from judged j where j.outcome in ('created', 'changed')
  )
  select j.graph_id, j.tenant_id, j.outcome from judged j;
end $$;

-- Gives a new tenant the agents of the shared pool, which the operator's own rows remember.
create function agent_adopt_v1(p_tenant uuid) returns int
language plpgsql security definer set search_path = public, pg_temp as $$
declare n int;
begin
  insert into agent (tenant_id, id, graph_id, pool_id, kind, created_by, name, description, version, metadata)
    select p_tenant, a.id, a.graph_id, a.pool_id, a.kind, a.created_by, a.name, a.description, a.version, a.metadata
    from agent a where a.tenant_id = '00000000-0000-7000-8000-000000000000' and a.pool_id = a.tenant_id and a.created_by = 'system'
    on conflict do nothing;
  get diagnostics n = row_count;
  insert into agent_version (tenant_id, agent_id, version, offer_digest, input_schema, output_schema, state_schema, config_schema, context_schema, recovery,
      max_attempts, queue_timeout_ms, run_timeout_ms, created_at)
    select p_tenant, v.agent_id, v.version, v.offer_digest, v.input_schema, v.output_schema, v.state_schema, v.config_schema, v.context_schema, v.recovery,
      v.max_attempts, v.queue_timeout_ms, v.run_timeout_ms, v.created_at
    from agent_version v join agent a on a.tenant_id = p_tenant and a.id = v.agent_id and a.pool_id = v.tenant_id
    where v.tenant_id = '00000000-0000-7000-8000-000000000000'
    on conflict do nothing;
  return n;
end $$;

do $$
declare f regprocedure;
begin
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'public' and p.prokind = 'f' and (p.proname ~ '^(run|agent|api_key|runner_token)_' or p.proname in ('set_tenants', 'current_tenants')) loop
    execute format('revoke all on function %s from public', f);
    -- What looks across tenants in the background is the sweeper's alone.
    execute format('grant execute on function %s to %s', f,
      case when f::text ~ '^run_(sweep|sweep_queue|relay|queues)_v1' then 'fairlead_sweeper' else 'fairlead_app, fairlead_sweeper' end);
  end loop;
  -- These statements find a few rows by key in tables of any size. Left alone, the planner chooses by the statistics of the moment, keeps what it chose
  -- while a table was empty, and reads whole tables later (seen: 9 ms for a claim of eight); planning anew each time costs more than executing.
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and p.prokind = 'f'
      and p.proname ~ '^run_' loop
    execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
  end loop;
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and p.prosecdef loop
    execute format('alter function %s owner to fairlead_sweeper', f);
  end loop;
end $$;
