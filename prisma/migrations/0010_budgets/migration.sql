-- Budgets: how many runs, tokens or how much money a tenant, an agent or a key may use in a window of time.
--
-- A run is created only with a hold on every budget that covers it, so what is spent and held never exceeds a hard limit, however many ask at once.
-- Whoever takes holds has the windows locked, in one order and before any thread or run. Whatever ends a run locks no window: it only adds an entry,
-- in its own transaction, and the next one who has the lock adds it up. So the counters of a window are what its folded entries say, and its state is
-- the counters and the entries that are not folded yet.

create table model_price (
  tenant_id uuid not null references tenant (id),
  model text not null,
  effective_from timestamptz not null,
  -- In picodollars (1e-12 USD) a token.
  input_pico bigint not null check (input_pico between 0 and 1000000000000),
  output_pico bigint not null check (output_pico between 0 and 1000000000000),
  cache_read_pico bigint not null check (cache_read_pico between 0 and 1000000000000),
  id uuid not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  unique (tenant_id, model, effective_from)
);
create index model_price_by_created on model_price (tenant_id, created_at desc, id desc);

create table budget (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  name text not null,
  -- usd: nanodollars (1e-9 USD).
  unit text not null check (unit in ('runs', 'tokens', 'usd')),
  scope text not null check (scope in ('tenant', 'agent', 'key')),
  agent_id uuid,
  api_key_id uuid,
  period text not null check (period in ('hour', 'day', 'week', 'month', 'lifetime')),
  zone text not null default 'UTC',
  amount bigint not null check (amount >= 0),
  -- What a run holds from its creation until its end.
  run_hold bigint not null check (run_hold > 0),
  -- A soft budget counts and refuses nothing.
  hard boolean not null,
  version int not null default 1,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, agent_id) references agent (tenant_id, id),
  foreign key (tenant_id, api_key_id) references api_key (tenant_id, id),
  check ((scope = 'agent') = (agent_id is not null)),
  check ((scope = 'key') = (api_key_id is not null)),
  check (unit <> 'runs' or run_hold = 1)
);
create index budget_active on budget (tenant_id) where archived_at is null;
create index budget_by_created on budget (tenant_id, created_at desc, id desc);

create table budget_window (
  tenant_id uuid not null,
  budget_id uuid not null,
  starts_at timestamptz not null,
  -- Of the folded entries.
  posted bigint not null default 0,
  held bigint not null default 0,
  primary key (tenant_id, budget_id, starts_at),
  foreign key (tenant_id, budget_id) references budget (tenant_id, id)
);

create table budget_hold (
  tenant_id uuid not null,
  run_id uuid not null,
  budget_id uuid not null,
  starts_at timestamptz not null,
  amount bigint not null,
  settled_at timestamptz,
  primary key (tenant_id, run_id, budget_id),
  foreign key (tenant_id, budget_id, starts_at) references budget_window (tenant_id, budget_id, starts_at)
);

create table budget_entry (
  tenant_id uuid not null,
  position bigint generated always as identity,
  budget_id uuid not null,
  starts_at timestamptz not null,
  run_id uuid not null,
  -- hold: taken at the create. raise: more of it. release: the run was not created. settle: the run ended.
  kind text not null check (kind in ('hold', 'raise', 'release', 'settle')),
  held bigint not null,
  posted bigint not null,
  -- What was used is not known, or has no price: at least the whole hold was posted.
  estimated boolean not null default false,
  at timestamptz not null default clock_timestamp(),
  folded boolean not null,
  primary key (tenant_id, position),
  foreign key (tenant_id, budget_id, starts_at) references budget_window (tenant_id, budget_id, starts_at)
);
create index budget_entry_unfolded on budget_entry (tenant_id, budget_id, starts_at) where not folded;

create table usage_event (
  tenant_id uuid not null,
  run_id uuid not null,
  attempt int not null,
  step_id text not null,
  model text not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  -- Of the input tokens.
  cache_read_tokens bigint not null,
  is_bad boolean not null,
  agent_id uuid not null,
  credential_id uuid,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, run_id, attempt, step_id)
);
create index usage_event_by_time on usage_event (tenant_id, at);

alter table run add column budgeted boolean not null default false;
alter table run drop constraint run_cancel_cause_check;
alter table run add constraint run_cancel_cause_check check (cancel_cause in ('halted', 'budget_exhausted'));

do $$
declare t text;
begin
  foreach t in array array['model_price', 'budget', 'budget_window', 'budget_hold', 'budget_entry', 'usage_event'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy by_tenant on %I to fairlead_app using ((select current_tenants())::uuid[] @> array[tenant_id])', t);
    execute format('create policy sweep on %I to fairlead_sweeper using (true) with check (true)', t);
    execute format('grant select, insert on %I to fairlead_app, fairlead_sweeper', t);
  end loop;
end $$;
-- Prices and the ledger are only added to.
grant update on budget, budget_window, budget_hold to fairlead_app, fairlead_sweeper;
grant update (folded) on budget_entry to fairlead_app, fairlead_sweeper;
grant update (input_tokens, output_tokens, cache_read_tokens, is_bad) on usage_event to fairlead_app, fairlead_sweeper;

-- The start of the window that a moment lies in. Hours are those of UTC: in a zone one may come twice, or not at all.
create function budget_window_v1(p_period text, p_zone text, p_at timestamptz) returns timestamptz language sql stable as $$
  select case p_period when 'lifetime' then 'epoch'::timestamptz when 'hour' then date_trunc('hour', p_at, 'UTC') else date_trunc(p_period, p_at, p_zone) end
$$;

-- Adds up what ended since. The window is locked.
create function budget_fold_v1(p_tenant uuid, p_budget uuid, p_starts timestamptz) returns void language sql as $$
  with e as (
    update budget_entry set folded = true where tenant_id = p_tenant and budget_id = p_budget and starts_at = p_starts and not folded returning held, posted
  )
  update budget_window w set held = w.held + s.held, posted = least(w.posted + s.posted, 4e18::numeric)::bigint from (select sum(held) as held, sum(posted) as posted from e having count(*) > 0) s
    where w.tenant_id = p_tenant and w.budget_id = p_budget and w.starts_at = p_starts
$$;

-- Takes holds for runs that are about to be created: on all budgets of a run, or on none and its place is returned. Null when no tenant has a budget.
create function budget_reserve_v1(p_tenants text, p_items json) returns int[] language plpgsql as $$
#variable_conflict use_column
declare v_now timestamptz; v_refused int[] := '{}'; w record; g record; v_covered bigint; v_fit int;
begin
  if not exists (select 1 from budget b where b.tenant_id = any (p_tenants::uuid[]) and b.archived_at is null) then return null; end if;
  v_now := clock_timestamp();
  insert into budget_window (tenant_id, budget_id, starts_at)
    select distinct b.tenant_id, b.id, budget_window_v1(b.period, b.zone, v_now) from budget b join run_create_items_v1(p_items) c on c.tenant_id = b.tenant_id
    where b.archived_at is null and (b.scope = 'tenant' or b.agent_id = c.agent_id or b.api_key_id = c.credential_id) order by 1, 2
    on conflict do nothing;
  for w in select x.tenant_id, x.budget_id, x.starts_at from budget_window x join budget b on b.tenant_id = x.tenant_id and b.id = x.budget_id
      where b.tenant_id = any (p_tenants::uuid[]) and b.archived_at is null and x.starts_at = budget_window_v1(b.period, b.zone, v_now)
        and (b.scope = 'tenant' or exists (select 1 from run_create_items_v1(p_items) c where c.tenant_id = b.tenant_id and (b.agent_id = c.agent_id or b.api_key_id = c.credential_id)))
      order by x.tenant_id, x.budget_id, x.starts_at for no key update of x loop
    perform budget_fold_v1(w.tenant_id, w.budget_id, w.starts_at);
  end loop;
  -- The runs of one agent and key are covered by the same budgets: as many as fit get in, the first first, with one update of each window.
  -- Of an edit of a thread's state nobody has to pay; a repetition has its hold.
  for g in select c.tenant_id, c.agent_id, c.credential_id, array_agg(c.ord order by c.ord) as ords, array_agg(c.run_id order by c.ord) as runs from run_create_items_v1(p_items) c
      where c.purpose = 'run' and not exists (select 1 from run r where r.tenant_id = c.tenant_id and r.id = c.run_id)
      group by c.tenant_id, c.agent_id, c.credential_id order by 1, 2, 3 loop
    select count(*), min(case when b.hard then greatest(0, div(b.amount - x.posted - x.held, b.run_hold)) end) into v_covered, v_fit
      from budget b join budget_window x on x.tenant_id = b.tenant_id and x.budget_id = b.id and x.starts_at = budget_window_v1(b.period, b.zone, v_now)
      where b.tenant_id = g.tenant_id and b.archived_at is null and (b.scope = 'tenant' or b.agent_id = g.agent_id or b.api_key_id = g.credential_id);
    continue when v_covered = 0;
    v_fit := least(coalesce(v_fit, cardinality(g.ords)), cardinality(g.ords));
    v_refused := v_refused || g.ords[v_fit + 1 :];
    continue when v_fit = 0;
    with taken as (
      update budget_window x set held = x.held + b.run_hold * v_fit from budget b
        where x.tenant_id = b.tenant_id and x.budget_id = b.id and x.starts_at = budget_window_v1(b.period, b.zone, v_now) and b.tenant_id = g.tenant_id
          and b.archived_at is null and (b.scope = 'tenant' or b.agent_id = g.agent_id or b.api_key_id = g.credential_id)
        returning x.tenant_id, x.budget_id, x.starts_at, b.run_hold
    ), noted as (
      insert into budget_entry (tenant_id, budget_id, starts_at, run_id, kind, held, posted, folded)
        select t.tenant_id, t.budget_id, t.starts_at, r.run_id, 'hold', t.run_hold, 0, true from taken t cross join unnest(g.runs[: v_fit]) as r (run_id)
    )
    insert into budget_hold as h (tenant_id, run_id, budget_id, starts_at, amount)
      select t.tenant_id, r.run_id, t.budget_id, t.starts_at, t.run_hold from taken t cross join unnest(g.runs[: v_fit]) as r (run_id)
      -- Its id was given to a run before that was not created.
      on conflict (tenant_id, run_id, budget_id) do update set starts_at = excluded.starts_at, amount = excluded.amount, settled_at = null;
  end loop;
  return v_refused;
end $$;

-- After the create: what was created is marked, holds of what was not are given back. The windows are locked still.
create function budget_keep_v1(p_tenants text, p_items json) returns void language plpgsql as $$
#variable_conflict use_column
declare h record;
begin
  update run r set budgeted = true from (select distinct c.tenant_id, c.run_id from run_create_items_v1(p_items) c join budget_hold d on d.tenant_id = c.tenant_id
      and d.run_id = c.run_id where d.settled_at is null) h
    where r.tenant_id = h.tenant_id and r.id = h.run_id and not r.budgeted;
  for h in select b.tenant_id, b.budget_id, b.starts_at, b.run_id, b.amount
      from run_create_items_v1(p_items) c join budget_hold b on b.tenant_id = c.tenant_id and b.run_id = c.run_id
      where b.settled_at is null and not exists (select 1 from run r where r.tenant_id = b.tenant_id and r.id = b.run_id) loop
    update budget_hold b set settled_at = clock_timestamp() where b.tenant_id = h.tenant_id and b.run_id = h.run_id and b.budget_id = h.budget_id;
    update budget_window x set held = x.held - h.amount where x.tenant_id = h.tenant_id and x.budget_id = h.budget_id and x.starts_at = h.starts_at;
    insert into budget_entry (tenant_id, budget_id, starts_at, run_id, kind, held, posted, folded)
      values (h.tenant_id, h.budget_id, h.starts_at, h.run_id, 'release', -h.amount, 0, true);
  end loop;
end $$;

-- As v2, with holds. 'over_budget': a budget has no room for the run.
create function run_create_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window int, p_threads boolean)
returns table (ord int, verdict text, run_id uuid, is_head boolean, is_admitted boolean, base_seq bigint, created timestamptz, open_interrupts text[], blocking_run uuid)
language plpgsql as $$
#variable_conflict use_column
declare v_refused int[];
begin
  perform set_config('app.tenants', p_tenants, true);
  v_refused := budget_reserve_v1(p_tenants, p_items);
  return query select * from run_create_v2(p_tenants, p_items, p_input, p_command, p_config, p_context, p_state_update, p_window, p_threads, v_refused);
  if v_refused is not null then perform budget_keep_v1(p_tenants, p_items); end if;
end $$;

create function run_create_claim_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[],
  p_window int, p_threads boolean, p_claims json, p_offer_ms int)
returns table (created run_created, claimed run_claimed)
language plpgsql as $$
#variable_conflict use_column
declare v_created run_created[]; v_claims json;
begin
  select array_agg(row(c.ord, c.verdict, c.run_id, c.is_head, c.is_admitted, c.created, c.open_interrupts, c.blocking_run)::run_created order by c.ord) into v_created
    from run_create_v3(p_tenants, p_items, p_input, p_command, p_config, p_context, p_state_update, p_window, p_threads) c;
  return query select c, null::run_claimed from unnest(v_created) c;

  -- A run beyond its tenant's window waits for its turn, whoever is free.
  select json_agg(x.claim) into v_claims from json_array_elements(p_claims) as x (claim)
    where (v_created[(x.claim ->> 'ord')::int]).verdict = 'created' and (v_created[(x.claim ->> 'ord')::int]).is_admitted;
  if v_claims is not null then
    return query select null::run_created, k from run_claim_v2(p_tenants, v_claims, p_offer_ms) k;
  end if;
end $$;

-- What a step says that it used, as a fact of its own: it outlives the step, and what a lost attempt used stays used. What is told again counts where it is
-- more. Names are those of LangChain and of the providers; numbers that are none, or more than a billion, are bad and count as nothing.
create function usage_note_v1() returns trigger language plpgsql as $$
declare v_in text; v_out text; v_cached text; v_number constant text := '^[0-9]{1,9}$';
begin
  v_in := coalesce(new.usage ->> 'input_tokens', new.usage ->> 'promptTokens', new.usage ->> 'prompt_tokens', new.usage ->> 'inputTokens');
  v_out := coalesce(new.usage ->> 'output_tokens', new.usage ->> 'completionTokens', new.usage ->> 'completion_tokens', new.usage ->> 'outputTokens');
  v_cached := coalesce(new.usage #>> '{input_token_details,cache_read}', '0');
  insert into usage_event as u (tenant_id, run_id, attempt, step_id, model, input_tokens, output_tokens, cache_read_tokens, is_bad, agent_id, credential_id)
    select new.tenant_id, new.run_id, new.attempt, new.id, new.name, v.i, v.o, least(v.c, v.i),
      (v_in is null and v_out is null) or coalesce(v_in !~ v_number, false) or coalesce(v_out !~ v_number, false) or v_cached !~ v_number or v.c > v.i, r.agent_id, r.credential_id
    from (select case when v_in ~ v_number then v_in::bigint else 0 end as i, case when v_out ~ v_number then v_out::bigint else 0 end as o,
      case when v_cached ~ v_number then v_cached::bigint else 0 end as c) v,
      run r where r.tenant_id = new.tenant_id and r.id = new.run_id
    on conflict (tenant_id, run_id, attempt, step_id) do update set
      input_tokens = greatest(u.input_tokens, excluded.input_tokens), output_tokens = greatest(u.output_tokens, excluded.output_tokens),
      cache_read_tokens = least(greatest(u.cache_read_tokens, excluded.cache_read_tokens), greatest(u.input_tokens, excluded.input_tokens)), is_bad = u.is_bad or excluded.is_bad;
  return null;
end $$;
create trigger usage_noted after insert or update of usage on step for each row when (new.usage is not null and json_typeof(new.usage) = 'object')
  execute function usage_note_v1();

-- What a run has used; sums stop at what no run can have used. is_bad: something that was told is no usage. unpriced: a model has no price.
create function run_used_v1(p_tenant uuid, p_run uuid) returns table (tokens bigint, nano bigint, is_bad boolean, unpriced boolean) language sql stable as $$
  select least(coalesce(sum(u.input_tokens + u.output_tokens), 0), 1e15)::bigint,
    least(coalesce(sum(round(((u.input_tokens - u.cache_read_tokens)::numeric * p.input_pico + u.cache_read_tokens::numeric * p.cache_read_pico
      + u.output_tokens::numeric * p.output_pico) / 1000)), 0), 1e17)::bigint,
    coalesce(bool_or(u.is_bad), false),
    coalesce(bool_or(p.model is null and u.input_tokens + u.output_tokens > 0), false)
  from usage_event u left join lateral (select m.model, m.input_pico, m.output_pico, m.cache_read_pico from model_price m where m.tenant_id = p_tenant and m.model = u.model
    and m.effective_from <= u.at order by m.effective_from desc limit 1) p on true
  where u.tenant_id = p_tenant and u.run_id = p_run
$$;

-- A step of a new attempt has used nothing yet, whatever one of the same name used before.
do $$
declare v_old text; v_new text;
begin
  select pg_get_functiondef(p.oid) into v_old from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and p.proname = 'run_extras_v2';
  v_new := replace(v_old, 'usage = coalesce(excluded.usage, step.usage)',
    'usage = case when excluded.attempt = step.attempt then coalesce(excluded.usage, step.usage) else excluded.usage end, attempt = excluded.attempt');
  if v_new = v_old then raise exception 'the upsert of steps is not where it was'; end if;
  execute v_new;
end $$;

-- Whatever ends a run, its holds are settled by what it used. At the commit, when its last steps are written; no window is locked.
create function budget_settle_v1() returns trigger language plpgsql as $$
declare u record;
begin
  select * into u from run_used_v1(new.tenant_id, new.id);
  with held as (
    update budget_hold h set settled_at = clock_timestamp() where h.tenant_id = new.tenant_id and h.run_id = new.id and h.settled_at is null
      returning h.tenant_id, h.budget_id, h.starts_at, h.run_id, h.amount
  )
  insert into budget_entry (tenant_id, budget_id, starts_at, run_id, kind, held, posted, estimated, folded)
    select h.tenant_id, h.budget_id, h.starts_at, h.run_id, 'settle', -h.amount,
      -- A run that was never started used nothing, not even itself.
      case b.unit when 'runs' then case when new.started_at is null then 0 else 1 end
        when 'tokens' then case when u.is_bad then greatest(u.tokens, h.amount) else u.tokens end
        else case when u.is_bad or u.unpriced then greatest(u.nano, h.amount) else u.nano end end,
      b.unit <> 'runs' and (u.is_bad or b.unit = 'usd' and u.unpriced), false
    from held h join budget b on b.tenant_id = h.tenant_id and b.id = h.budget_id;
  return null;
end $$;
create constraint trigger budget_settle after update of status on run deferrable initially deferred for each row
  when (new.budgeted and new.status not in ('pending', 'running') and old.status in ('pending', 'running')) execute function budget_settle_v1();

-- Raises the holds of a running run to what it has used, where there is room. Returns why it has to end: a budget that is used up, or a model without a price.
create function budget_raise_v1(p_tenant uuid, p_run uuid) returns text language plpgsql as $$
#variable_conflict use_column
declare u record; h record; v_why text; v_used bigint;
begin
  perform set_tenants(array[p_tenant]);
  if not exists (select 1 from run r where r.tenant_id = p_tenant and r.id = p_run and r.budgeted and r.status = 'running') then return null; end if;
  perform 1 from budget_hold d join budget_window x on x.tenant_id = d.tenant_id and x.budget_id = d.budget_id and x.starts_at = d.starts_at
    where d.tenant_id = p_tenant and d.run_id = p_run order by x.tenant_id, x.budget_id, x.starts_at for no key update of x;
  select * into u from run_used_v1(p_tenant, p_run);
  for h in select d.budget_id, d.starts_at, d.amount, b.unit, b.hard, b.amount as lim from budget_hold d join budget b on b.tenant_id = d.tenant_id and b.id = d.budget_id
      where d.tenant_id = p_tenant and d.run_id = p_run and d.settled_at is null and b.unit <> 'runs' order by d.budget_id loop
    if h.hard and u.is_bad then v_why := 'what it used cannot be told'; end if;
    if h.hard and h.unit = 'usd' and u.unpriced then v_why := 'a model that it used has no price'; end if;
    v_used := case h.unit when 'tokens' then u.tokens else u.nano end;
    continue when v_used <= h.amount;
    perform budget_fold_v1(p_tenant, h.budget_id, h.starts_at);
    -- Beyond the limit what was used is still posted, when the run ends; it only gets no more.
    update budget_window x set held = x.held + v_used - h.amount where x.tenant_id = p_tenant and x.budget_id = h.budget_id and x.starts_at = h.starts_at
      and (not h.hard or x.posted + x.held + v_used - h.amount <= h.lim);
    if not found then
      v_why := coalesce(v_why, 'its budget is used up');
      continue;
    end if;
    -- A run that ended meanwhile has settled what it held, and waits for nobody: then nothing is raised.
    update budget_hold d set amount = v_used where d.tenant_id = p_tenant and d.run_id = p_run and d.budget_id = h.budget_id and d.settled_at is null and d.amount = h.amount;
    if found then
      insert into budget_entry (tenant_id, budget_id, starts_at, run_id, kind, held, posted, folded) values (p_tenant, h.budget_id, h.starts_at, p_run, 'raise', v_used - h.amount, 0, true);
    else
      update budget_window x set held = x.held - (v_used - h.amount) where x.tenant_id = p_tenant and x.budget_id = h.budget_id and x.starts_at = h.starts_at;
    end if;
  end loop;
  return v_why;
end $$;

-- Cancels a running run because its budget is used up.
create function run_cancel_budget_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count int) returns run_moved language plpgsql as $$
#variable_conflict use_column
declare r run; m run_moved;
begin
  perform set_tenants(array[p_tenant]);
  select * into r from run where tenant_id = p_tenant and id = p_run and deleted_at is null;
  if r.id is null then m.verdict := 'gone'; return m; end if;
  perform 1 from thread where tenant_id = p_tenant and id = r.thread_id for no key update;
  update run x set cancel_cause = 'budget_exhausted' where x.tenant_id = p_tenant and x.id = p_run and x.status = 'running' and x.cancel_requested_at is null;
  if not found then m.verdict := 'gone'; return m; end if;
  return run_cancel_v1(p_tenant, p_run, 'interrupt', null, p_end, p_end_count);
end $$;

-- What a window says now: its counters and what is not folded yet. `position`: the last entry in it.
create function budget_state_v1(p_tenant uuid, p_budget uuid, p_starts timestamptz) returns table (posted bigint, held bigint, "position" bigint) language sql stable as $$
  select (w.posted + coalesce(e.posted, 0))::bigint, (w.held + coalesce(e.held, 0))::bigint, coalesce(e.position, 0)
  from (select coalesce(sum(x.posted), 0) as posted, coalesce(sum(x.held), 0) as held from budget_window x where x.tenant_id = p_tenant and x.budget_id = p_budget and x.starts_at = p_starts) w,
    lateral (select sum(y.posted) filter (where not y.folded) as posted, sum(y.held) filter (where not y.folded) as held, max(y.position) as position
      from budget_entry y where y.tenant_id = p_tenant and y.budget_id = p_budget and y.starts_at = p_starts) e
$$;

do $$
declare f regprocedure;
begin
  for f in select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public' and (p.proname ~ '^budget_'
      or p.proname in ('usage_note_v1', 'run_create_v3', 'run_create_claim_v3', 'run_used_v1', 'run_cancel_budget_v1')) loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_app, fairlead_sweeper', f);
    if f::text !~ '^(run_create_claim|budget_window|budget_fold)' then
      execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
    end if;
  end loop;
end $$;
