-- Halts: what a tenant's admins have stopped. Nothing of a halted scope is created or claimed after the halt's commit, on any plane.
--
-- The order is made by a lock of the tenant's name. Every create and claim shares it and looks for halts in a later statement, so it sees each halt that
-- was committed before; whoever halts holds it alone, and so waits for the creates and claims that did not see the halt. An advisory lock: a row lock
-- would be written by every batch, and the tenant's own row is locked by foreign keys in other orders.

create table halt (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  scope text not null check (scope in ('tenant', 'agent', 'kind')),
  agent_id uuid,
  kind text,
  -- block: nothing new. cancel: what is open ends too.
  mode text not null check (mode in ('block', 'cancel')),
  reason text not null,
  version int not null default 1,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  lifted_at timestamptz,
  lifted_by text,
  primary key (tenant_id, id),
  foreign key (tenant_id, agent_id) references agent (tenant_id, id),
  check ((scope = 'agent') = (agent_id is not null)),
  check ((scope = 'kind') = (kind is not null)),
  check ((lifted_at is null) = (lifted_by is null))
);
create index halt_active on halt (tenant_id) where lifted_at is null;
create index halt_by_created on halt (tenant_id, created_at desc, id desc);

alter table halt enable row level security;
alter table halt force row level security;
create policy by_tenant on halt to fairlead_app using ((select current_tenants())::uuid[] @> array[tenant_id]);
create policy sweep on halt to fairlead_sweeper using (true) with check (true);
grant select, insert, update on halt to fairlead_app;
grant select on halt to fairlead_sweeper;

-- Why a run was told to stop, when it was not its client who told it; it becomes the reason of its end.
alter table run add column cancel_cause text check (cancel_cause in ('halted'));

create function halt_key_v1(p_tenant uuid) returns bigint language sql immutable
  as $$ select hashtextextended(p_tenant::text, 5) $$;

-- Shares the tenants' locks until the end of the transaction. Is anything of theirs halted? To be asked before rows are looked at, in a statement of its own.
create function halt_gate_v1(p_tenants text) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(halt_key_v1(t.id)) from (select unnest(p_tenants::uuid[]) as id order by 1) t;
  return exists (select 1 from halt h where h.tenant_id = any (p_tenants::uuid[]) and h.lifted_at is null
    and (h.expires_at is null or h.expires_at > clock_timestamp()));
end $$;

-- Does a halt cover runs of this agent and kind? p_mode: only halts of this mode; null: of any.
create function run_halted_v1(p_tenant uuid, p_agent uuid, p_kind text, p_mode text default null) returns boolean language sql stable as $$
  select exists (select 1 from halt h where h.tenant_id = p_tenant and h.lifted_at is null and (h.expires_at is null or h.expires_at > clock_timestamp())
    and (p_mode is null or h.mode = p_mode)
    and case h.scope when 'tenant' then true when 'agent' then h.agent_id = p_agent else h.kind = p_kind end)
$$;

-- `p_threads`: some of the runs are for a thread that is not made for them alone. `p_refused`: places of runs that may not be created, though they may be
-- repetitions of some that were.
create function run_create_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window int, p_threads boolean, p_refused int[] default null)
returns table (ord int, verdict text, run_id uuid, is_head boolean, is_admitted boolean, base_seq bigint, created timestamptz, open_interrupts text[], blocking_run uuid)
language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz; v_halted int[];
begin
  perform set_config('app.tenants', p_tenants, true);
  if halt_gate_v1(p_tenants) then
    select array_agg(i.ord) into v_halted from run_create_items_v1(p_items) i where run_halted_v1(i.tenant_id, i.agent_id, i.kind);
  end if;
  -- Not before the gate: whoever waited there was not created while waiting.
  v_now := clock_timestamp();

  if p_threads then
    -- In one order, so that two batches that make the same threads wait for each other in a line, not in a circle.
    insert into thread as t (tenant_id, id, status, metadata)
      select i.tenant_id, i.thread_id, 'idle', i.thread_metadata from run_create_items_v1(p_items) i where i.thread_mode = 'create' and (v_halted is null or i.ord <> all (v_halted))
      order by i.tenant_id, i.thread_id
      on conflict do nothing;
    perform 1 from run_create_items_v1(p_items) i join thread t on t.tenant_id = i.tenant_id and t.id = i.thread_id
      where i.thread_mode <> 'temporary' order by i.tenant_id, i.thread_id for no key update of t;
  end if;

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
        when i.ord = any (v_halted) then 'halted'
        when i.ord = any (p_refused) then 'over_budget'
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

-- Creates, and claims for the runs that have a taker: see 0008.
create function run_create_claim_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[],
  p_window int, p_threads boolean, p_claims json, p_offer_ms int)
returns table (created run_created, claimed run_claimed)
language plpgsql as $$
#variable_conflict use_column
declare v_created run_created[]; v_claims json;
begin
  select array_agg(row(c.ord, c.verdict, c.run_id, c.is_head, c.is_admitted, c.created, c.open_interrupts, c.blocking_run)::run_created order by c.ord) into v_created
    from run_create_v2(p_tenants, p_items, p_input, p_command, p_config, p_context, p_state_update, p_window, p_threads) c;
  return query select c, null::run_claimed from unnest(v_created) c;

  -- A run beyond its tenant's window waits for its turn, whoever is free.
  select json_agg(x.claim) into v_claims from json_array_elements(p_claims) as x (claim)
    where (v_created[(x.claim ->> 'ord')::int]).verdict = 'created' and (v_created[(x.claim ->> 'ord')::int]).is_admitted;
  if v_claims is not null then
    return query select null::run_created, k from run_claim_v2(p_tenants, v_claims, p_offer_ms) k;
  end if;
end $$;

create function run_claim_v2(p_tenants text, p_items json, p_offer_ms int) returns setof run_claimed
language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz; v_any boolean;
begin
  perform set_config('app.tenants', p_tenants, true);
  v_any := halt_gate_v1(p_tenants);
  v_now := clock_timestamp();
  return query
  with held as materialized (
    select i.ord, i.runner_id as taker, i.pool_id as taker_pool, i.kind as taker_kind, r.tenant_id, r.id, r.agent_id, r.thread_id, r.pool_id, r.kind, r.status,
      r.thread_head, r.cancel_requested_at, r.due_at, r.queue_deadline, r.deleted_at
    from run_held_items_v1(p_items) i join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
    order by r.tenant_id, r.id for no key update of r skip locked
  ), chosen as materialized (
    select h.ord, h.taker, h.tenant_id, h.id,
      (select a from agent a where a.tenant_id = h.tenant_id and a.id = h.agent_id) as agent,
      (select t from thread t where t.tenant_id = h.tenant_id and t.id = h.thread_id) as thread
    from held h
    where h.pool_id = h.taker_pool and h.kind = h.taker_kind and h.status = 'pending' and h.thread_head and h.cancel_requested_at is null
      and (h.due_at is null or h.due_at <= v_now) and h.queue_deadline > v_now and h.deleted_at is null
      and (not v_any or not run_halted_v1(h.tenant_id, h.agent_id, h.kind))
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

create function run_candidates_v2(p_pool uuid, p_kind text, p_graphs text[], p_limit int, p_window int)
returns table (tenant_id uuid, run_id uuid, graph_id text)
language plpgsql security definer set search_path = public, pg_temp as $$
#variable_conflict use_column
declare v_missing int; v_any boolean;
begin
  -- Runs that are halted are not looked at: nobody could claim them, and they would stand before those that can be.
  v_any := exists (select 1 from halt h where h.lifted_at is null and (h.expires_at is null or h.expires_at > clock_timestamp()));
  select p_limit - count(*) into v_missing from (select 1 from run r where r.pool_id = p_pool and r.kind = p_kind and r.status = 'pending'
    and r.admitted_at is not null and r.graph_id = any (p_graphs)
    and (not v_any or not run_halted_v1(r.tenant_id, r.agent_id, r.kind)) limit p_limit) a;
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
          and (not v_any or not run_halted_v1(r.tenant_id, r.agent_id, r.kind))
        order by r.created_at limit greatest(v_missing, p_window * t.weight)
      ) c
      order by c.place, c.tenant_id limit v_missing
    ), locked as (
      select r.tenant_id, r.id from run r join chosen c on r.tenant_id = c.tenant_id and r.id = c.id
      where r.status = 'pending' and r.admitted_at is null order by r.tenant_id, r.id for no key update of r skip locked
    )
    update run r set admitted_at = clock_timestamp(), hinted_at = clock_timestamp() from locked l where r.tenant_id = l.tenant_id and r.id = l.id;
  end if;
  -- Locked here, so that several claimers of one queue each get runs of their own, instead of all the same ones and then nothing.
  return query select r.tenant_id, r.id, r.graph_id from run r
    where r.pool_id = p_pool and r.kind = p_kind and r.status = 'pending' and r.admitted_at is not null and r.graph_id = any (p_graphs)
      and (not v_any or not run_halted_v1(r.tenant_id, r.agent_id, r.kind))
    order by r.admitted_at limit p_limit for no key update of r skip locked;
end $$;

create function run_claim_next_v2(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit int, p_window int, p_offer_ms int) returns setof run_claimed
language plpgsql as $$
#variable_conflict use_column
declare v_items json; v_tenants text;
begin
  select json_agg(json_build_object('tenant_id', c.tenant_id, 'run_id', c.run_id, 'pool_id', p_pool, 'kind', p_kind, 'runner_id', p_runner)),
      array_agg(distinct c.tenant_id)::text
    into v_items, v_tenants from run_candidates_v2(p_pool, p_kind, p_graphs, p_limit, p_window) c;
  if v_items is not null then
    return query select * from run_claim_v2(v_tenants, v_items, p_offer_ms);
  end if;
end $$;

-- Open runs of a tenant that a halt of this scope covers, and that were not told to stop yet: what runs, and what is first in its thread. What waits
-- behind those comes first when they have ended.
create function halt_open_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text, p_limit int) returns table (run_id uuid, status text) language sql stable as $$
  (select r.id, r.status from run r where r.tenant_id = p_tenant and r.status = 'pending' and r.admitted_at is not null
    and case p_scope when 'tenant' then true when 'agent' then r.agent_id = p_agent else r.kind = p_kind end limit p_limit)
  union all
  (select r.id, r.status from run r where r.tenant_id = p_tenant and r.status = 'pending' and r.thread_head and r.admitted_at is null
    and case p_scope when 'tenant' then true when 'agent' then r.agent_id = p_agent else r.kind = p_kind end limit p_limit)
  union all
  (select r.id, r.status from run r where r.tenant_id = p_tenant and r.status = 'running' and r.cancel_requested_at is null
    and case p_scope when 'tenant' then true when 'agent' then r.agent_id = p_agent else r.kind = p_kind end limit p_limit)
$$;

-- How many runs a halt would keep from starting, and how many run.
create function halt_affects_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text) returns table (pending bigint, running bigint) language sql stable as $$
  with head as materialized (
    select r.thread_id, r.status, r.agent_id, r.kind from run r where r.tenant_id = p_tenant and r.status = 'running'
    union all
    select r.thread_id, r.status, r.agent_id, r.kind from run r where r.tenant_id = p_tenant and r.status = 'pending' and r.admitted_at is not null
    union all
    select r.thread_id, r.status, r.agent_id, r.kind from run r where r.tenant_id = p_tenant and r.status = 'pending' and r.thread_head and r.admitted_at is null
  ), open as (
    select h.status, h.agent_id, h.kind from head h
    union all
    select q.status, q.agent_id, q.kind from head h join run q on q.thread_id = h.thread_id and q.tenant_id = p_tenant and q.status = 'pending' and not q.thread_head
      and q.admitted_at is null and q.deleted_at is null
  )
  select count(*) filter (where o.status = 'pending'), count(*) filter (where o.status = 'running') from open o
    where case p_scope when 'tenant' then true when 'agent' then o.agent_id = p_agent else o.kind = p_kind end
$$;

-- As v1, and the open runs of scopes that are halted with `cancel`.
create function run_sweep_v2(p_limit int, p_grace_ms int)
returns table (what text, tenant_id uuid, run_id uuid, thread_id uuid, fence int, attempt int, recovery text, cancel_action text)
language sql security definer set search_path = public, pg_temp as $$
  select * from run_sweep_v1(p_limit, p_grace_ms)
  union all
  (select 'halted', r.tenant_id, r.id, r.thread_id, r.fence, r.attempt, r.recovery, r.cancel_action
    from halt h cross join lateral halt_open_v1(h.tenant_id, h.scope, h.agent_id, h.kind, p_limit) o join run r on r.tenant_id = h.tenant_id and r.id = o.run_id
    where h.lifted_at is null and h.mode = 'cancel' and (h.expires_at is null or h.expires_at > clock_timestamp()) limit p_limit)
$$;

-- Cancels a run because it is halted, if it still is.
create function run_cancel_halted_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count int) returns run_moved language plpgsql as $$
#variable_conflict use_column
declare r run; m run_moved;
begin
  perform set_tenants(array[p_tenant]);
  perform pg_advisory_xact_lock_shared(halt_key_v1(p_tenant));
  select * into r from run where tenant_id = p_tenant and id = p_run and deleted_at is null;
  if r.id is null or r.status not in ('pending', 'running') or not run_halted_v1(p_tenant, r.agent_id, r.kind, 'cancel') then
    m.verdict := 'gone'; return m;
  end if;
  perform 1 from thread where tenant_id = p_tenant and id = r.thread_id for no key update;
  update run x set cancel_cause = 'halted' where x.tenant_id = p_tenant and x.id = p_run and x.status in ('pending', 'running') and x.cancel_requested_at is null;
  if not found then m.verdict := 'gone'; return m; end if;
  return run_cancel_v1(p_tenant, p_run, 'interrupt', null, p_end, p_end_count);
end $$;

-- After a halt is lifted its runs are hinted at once.
create function halt_resume_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text) returns void language sql as $$
  update run r set hinted_at = '-infinity', hint_count = 0 from halt_open_v1(p_tenant, p_scope, p_agent, p_kind, 10000) o
    where r.tenant_id = p_tenant and r.id = o.run_id and r.status = 'pending' and r.admitted_at is not null
$$;

-- The cause of a cancel is the reason of the end.
do $$
declare v_old text; v_new text; v_name text;
begin
  foreach v_name in array array['run_end', 'run_finish_v2'] loop
    select pg_get_functiondef(p.oid) into v_old from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and p.proname = v_name;
    v_new := case v_name
      when 'run_end' then replace(v_old, 'status_reason = p_reason', 'status_reason = case when p_status = ''cancelled'' then coalesce(x.cancel_cause, p_reason) else p_reason end')
      else replace(v_old, 'status_reason = nullif(j.reason, '''')',
        'status_reason = case when j.status = ''cancelled'' then coalesce(r.cancel_cause, nullif(j.reason, '''')) else nullif(j.reason, '''') end') end;
    if v_new = v_old then raise exception 'the reason of the end is not where it was in %', v_name; end if;
    execute v_new;
  end loop;
end $$;

do $$
declare f regprocedure;
begin
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and p.proname in
      ('run_create_v2', 'run_create_claim_v2', 'run_claim_v2', 'run_candidates_v2', 'run_claim_next_v2', 'run_sweep_v2', 'run_halted_v1', 'run_cancel_halted_v1',
       'halt_gate_v1', 'halt_key_v1', 'halt_open_v1', 'halt_affects_v1', 'halt_resume_v1') loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to %s', f, case when f::text ~ '^run_sweep' then 'fairlead_sweeper' else 'fairlead_app, fairlead_sweeper' end);
    if f::text !~ '^(halt_key|halt_gate|run_create_claim)' then
      execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
    end if;
  end loop;
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and p.proname in
      ('run_candidates_v2', 'run_sweep_v2') loop
    execute format('alter function %s owner to fairlead_sweeper', f);
  end loop;
end $$;
