-- Which tools agents may call: versions of a tenant's policy, the tools that are known, and what was decided.

create table tool_policy_version (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  -- Given when it is published, counting up in the tenant; a draft has none.
  number int,
  name text not null,
  -- Rules, Cedar text and tests; never changed.
  content json not null,
  -- SHA-256 of the canonical content.
  digest bytea not null check (length(digest) = 32),
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  published_by text,
  published_at timestamptz,
  -- The older version that this one puts back into force.
  restores int,
  primary key (tenant_id, id),
  check ((number is null) = (published_at is null))
);
create unique index tool_policy_number on tool_policy_version (tenant_id, number) where number is not null;
create index tool_policy_version_by_created on tool_policy_version (tenant_id, created_at desc, id desc);

-- The version in force. A tenant without a row governs no tools.
create table tool_policy (
  tenant_id uuid not null references tenant (id),
  number int not null,
  version_id uuid not null,
  primary key (tenant_id),
  foreign key (tenant_id, version_id) references tool_policy_version (tenant_id, id)
);

-- Who a tool is: whose, its name byte for byte, and its schema.
create table tool (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  server text not null,
  agent_id uuid not null,
  name text collate "C" not null check (name ~ '^[A-Za-z0-9_.:/-]{1,128}$'),
  schema_digest bytea not null check (length(schema_digest) = 32),
  version int not null default 1,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  foreign key (tenant_id, agent_id) references agent (tenant_id, id)
);
-- Two tools of an agent that differ by case only are not told apart by people.
create unique index tool_name on tool (tenant_id, agent_id, server, lower(name));
create index tool_by_created on tool (tenant_id, created_at desc, id desc);

create table tool_decision (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  run_id uuid not null,
  fence int not null,
  ask_id text not null,
  agent_id uuid not null,
  server text not null,
  tool text not null,
  "user" text not null,
  schema_digest bytea not null,
  arguments_digest bytea not null,
  allowed boolean not null,
  reason text not null,
  rules text[] not null,
  explanation text not null,
  -- Null: no policy was in force.
  policy_number int,
  micros int not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  foreign key (tenant_id, run_id) references run (tenant_id, id)
);
create unique index tool_decision_ask on tool_decision (tenant_id, run_id, fence, ask_id);
create index tool_decision_by_created on tool_decision (tenant_id, created_at desc, id desc);

do $$
declare t text;
begin
  foreach t in array array['tool_policy_version', 'tool_policy', 'tool', 'tool_decision'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy by_tenant on %I to fairlead_app using ((select current_tenants())::uuid[] @> array[tenant_id])', t);
    execute format('grant select, insert on %I to fairlead_app', t);
  end loop;
end $$;
grant update (number, published_by, published_at, restores) on tool_policy_version to fairlead_app;
grant update on tool_policy to fairlead_app;
grant update (schema_digest, version) on tool to fairlead_app;

create function tool_ask_items_v1(p_items json) returns table (ord int, tenant_id uuid, run_id uuid, fence int, pool_id uuid, kind text, tool text)
language plpgsql immutable rows 1 as $$
#variable_conflict use_column
begin
  return query select (x.ordinality)::int, x.tenant_id, x.run_id, x.fence, x.pool_id, x.kind, x.tool
  from rows from (json_to_recordset(p_items) as (tenant_id uuid, run_id uuid, fence int, pool_id uuid, kind text, tool text)) with ordinality as x;
end $$;

-- What a decision needs to know. An item without a row asks for a run that its runner does not hold.
create function tool_ask_v1(p_tenants text, p_items json)
returns table (ord int, agent_id uuid, graph_id text, "user" text, pinned bytea, policy_number int, version_id uuid, halted boolean)
language plpgsql as $$
#variable_conflict use_column
begin
  perform set_config('app.tenants', p_tenants, true);
  return query
  select i.ord, r.agent_id, r.graph_id,
    case when k.member_id is not null then 'member:' || k.member_id when k.service_account_id is not null then 'service_account:' || k.service_account_id
      when r.credential_id is not null then 'api_key:' || r.credential_id else 'system' end,
    t.schema_digest, p.number, p.version_id, run_halted_v1(r.tenant_id, r.agent_id, r.kind, 'cancel')
  from tool_ask_items_v1(p_items) i
  join run r on r.tenant_id = i.tenant_id and r.id = i.run_id
  left join api_key k on k.tenant_id = r.tenant_id and k.id = r.credential_id
  left join tool t on t.tenant_id = r.tenant_id and t.agent_id = r.agent_id and t.server = 'runner' and lower(t.name) = lower(i.tool) and t.name = i.tool
  left join tool_policy p on p.tenant_id = r.tenant_id
  where r.fence = i.fence and r.status = 'running' and r.pool_id = i.pool_id and r.kind = i.kind;
end $$;

-- Records decisions under their fences, once for each ask. `stale`: another version came into force, the tool's pin changed, or what the run belongs to was
-- halted, since it was decided.
create function tool_decide_v1(p_tenants text, p_items json)
returns table (ord int, outcome text, id uuid, allowed boolean, reason text)
language plpgsql as $$
#variable_conflict use_column
declare i record; v_number int; v_pinned bytea; v_same boolean;
begin
  perform set_config('app.tenants', p_tenants, true);
  for i in
    select x.*, r.agent_id, r.fence = x.fence and r.status = 'running' and r.pool_id = x.pool_id and r.kind = x.kind as is_held
    from rows from (json_to_recordset(p_items) as (tenant_id uuid, id uuid, run_id uuid, fence int, pool_id uuid, kind text, ask_id text, tool text, "user" text,
      schema_digest text, arguments_digest text, allowed boolean, reason text, rules text[], explanation text, policy_number int, pinned text, micros int))
      with ordinality as x
    join run r on r.tenant_id = x.tenant_id and r.id = x.run_id
    order by r.tenant_id, r.id for share of r
  loop
    ord := i.ordinality; id := null; allowed := false; reason := null;
    if not i.is_held then
      outcome := 'superseded';
      return next;
      continue;
    end if;
    -- The same ask again: the decision that stands, unless something else is asked under its name.
    select d.id, d.allowed, d.reason, d.tool = i.tool and d.schema_digest = decode(i.schema_digest, 'hex') and d.arguments_digest = decode(i.arguments_digest, 'hex')
      into id, allowed, reason, v_same
      from tool_decision d where d.tenant_id = i.tenant_id and d.run_id = i.run_id and d.fence = i.fence and d.ask_id = i.ask_id;
    if found then
      outcome := case when v_same then 'replayed' else 'reused' end;
      allowed := allowed and v_same;
      return next;
      continue;
    end if;
    -- Not in force yet, or not any more: whoever publishes has committed before this statement looks.
    select p.number into v_number from tool_policy p where p.tenant_id = i.tenant_id;
    select t.schema_digest into v_pinned from tool t
      where t.tenant_id = i.tenant_id and t.agent_id = i.agent_id and t.server = 'runner' and lower(t.name) = lower(i.tool) and t.name = i.tool;
    if v_number is distinct from i.policy_number or v_pinned is distinct from decode(i.pinned, 'hex')
        or (i.allowed and run_halted_v1(i.tenant_id, i.agent_id, i.kind, 'cancel')) then
      outcome := 'stale';
      return next;
      continue;
    end if;
    insert into tool_decision (tenant_id, id, run_id, fence, ask_id, agent_id, server, tool, "user", schema_digest, arguments_digest, allowed, reason, rules, explanation,
      policy_number, micros)
    values (i.tenant_id, i.id, i.run_id, i.fence, i.ask_id, i.agent_id, 'runner', i.tool, i."user", decode(i.schema_digest, 'hex'), decode(i.arguments_digest, 'hex'),
      i.allowed, i.reason, i.rules, i.explanation, i.policy_number, i.micros)
    on conflict do nothing;
    if not found then
      -- Another process was faster with the same ask.
      outcome := 'stale';
      return next;
      continue;
    end if;
    -- While nothing is governed, tools become known by being used.
    if v_number is null and i.allowed then
      insert into tool (tenant_id, id, server, agent_id, name, schema_digest, created_by)
      values (i.tenant_id, i.id, 'runner', i.agent_id, i.tool, decode(i.schema_digest, 'hex'), 'use') on conflict do nothing;
    end if;
    outcome := 'recorded'; id := i.id; allowed := i.allowed; reason := i.reason;
    return next;
  end loop;
end $$;

do $$
declare f regprocedure;
begin
  foreach f in array array['tool_ask_items_v1(json)', 'tool_ask_v1(text, json)', 'tool_decide_v1(text, json)']::regprocedure[] loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_app', f);
    execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
  end loop;
end $$;
