-- The audit chain: each tenant's records are numbered without gaps, and each holds the hash of the one before. docs/audit.md is the form that is hashed.
--
-- One function writes records. It belongs to a role of its own, which alone may insert, so that nothing that connects can write around it. It locks
-- the heads in tenant order and is called as the last statement of an act's transaction, when all other locks of it are held: two transactions
-- that write for the same tenants then wait in a line, not in a circle.

-- ---- The text that is hashed ----

-- Canonical JSON of what the version before writes: members in order, no white space. New code sends it so.
create function audit_canonical_v1(p_value json) returns text language plpgsql immutable parallel safe as $$
begin
  case json_typeof(p_value)
    when 'object' then
      return '{' || coalesce((select string_agg(to_json(m.key)::text || ':' || audit_canonical_v1(m.value), ',' order by m.key collate "C")
        from json_each(p_value) m), '') || '}';
    when 'array' then
      return '[' || coalesce((select string_agg(audit_canonical_v1(e.value), ',' order by e.ordinality)
        from json_array_elements(p_value) with ordinality e), '') || ']';
    when 'string' then
      return to_json(p_value #>> '{}')::text;
    else
      return btrim(p_value::text, E' \t\r\n');
  end case;
end $$;

create function audit_record_v1(p_tenant uuid, p_id uuid, p_seq bigint, p_at timestamptz, p_actor_kind text, p_actor_id text, p_action text, p_target_kind text,
  p_target_id text, p_outcome text, p_detail text, p_prev bytea) returns text language sql stable parallel safe as $$
  select '{"action":' || to_json(p_action)::text || ',"actor":{"id":' || coalesce(to_json(p_actor_id)::text, 'null') || ',"kind":' || to_json(p_actor_kind)::text
    || '},"at":"' || to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '","detail":' || p_detail || ',"id":"' || p_id::text
    || '","outcome":' || to_json(p_outcome)::text || ',"prev":"' || encode(p_prev, 'hex') || '","seq":' || p_seq::text
    || ',"target":{"id":' || to_json(p_target_id)::text || ',"kind":' || to_json(p_target_kind)::text || '},"tenant":"' || p_tenant::text || '","v":1}'
$$;

-- ---- Heads ----

create table audit_head (
  tenant_id uuid primary key references tenant (id),
  -- Of the newest record.
  seq bigint not null default 0,
  hash bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(hash) = 32),
  -- Of the newest signed checkpoint.
  signed_seq bigint not null default 0,
  signed_at timestamptz not null default '-infinity'
) with (fillfactor = 50);

create table audit_checkpoint (
  tenant_id uuid not null references tenant (id),
  seq bigint not null check (seq > 0),
  hash bytea not null check (octet_length(hash) = 32),
  at timestamptz not null,
  key_id text not null,
  signature bytea not null,
  primary key (tenant_id, seq)
);

-- ---- Records of before join the chain ----

alter table audit_event
  add column seq bigint,
  add column outcome text not null default 'success' check (outcome in ('success', 'denied', 'failed')),
  add column prev_hash bytea,
  add column hash bytea;

-- An owner who is no superuser would see none of their own rows.
alter table tenant no force row level security;
alter table audit_event no force row level security;

insert into audit_head (tenant_id) select id from tenant;
update audit_event set detail = audit_canonical_v1(detail)::json;

do $$
declare
  v_tenant uuid;
  v_seq bigint;
  v_prev bytea;
  v_hash bytea;
  r audit_event;
begin
  for v_tenant in select tenant_id from audit_head order by tenant_id loop
    v_seq := 0;
    v_hash := decode(repeat('00', 32), 'hex');
    for r in select * from audit_event e where e.tenant_id = v_tenant order by e.at, e.id loop
      v_seq := v_seq + 1;
      v_prev := v_hash;
      v_hash := sha256(convert_to(audit_record_v1(r.tenant_id, r.id, v_seq, r.at, r.actor_kind, r.actor_id, r.action, r.target_kind, r.target_id, r.outcome,
        r.detail::text, v_prev), 'UTF8'));
      update audit_event e set seq = v_seq, prev_hash = v_prev, hash = v_hash where e.tenant_id = r.tenant_id and e.id = r.id;
    end loop;
    update audit_head h set seq = v_seq, hash = v_hash where h.tenant_id = v_tenant;
  end loop;
end $$;

alter table tenant force row level security;
alter table audit_event force row level security;

alter table audit_event
  alter column seq set not null,
  alter column prev_hash set not null,
  alter column hash set not null,
  add constraint audit_event_seq check (seq > 0),
  add constraint audit_event_by_seq unique (tenant_id, seq);
create index audit_event_by_actor on audit_event (tenant_id, actor_id, seq desc) where actor_id is not null;
create index audit_event_by_action on audit_event (tenant_id, action, seq desc);
create index audit_event_by_target on audit_event (tenant_id, target_id, seq desc);

-- ---- Writing ----

-- Records of any number of tenants, all of which the transaction must have set. Within a tenant they keep the order in which they are given.
create function audit_append_v1(p_tenants uuid[], p_ids uuid[], p_actor_kinds text[], p_actor_ids text[], p_actions text[], p_target_kinds text[],
  p_target_ids text[], p_outcomes text[], p_details text[]) returns void language plpgsql security definer as $$
declare
  v_count int := cardinality(p_tenants);
  v_at timestamptz;
  v_tenant uuid;
  v_seq bigint;
  v_prev bytea;
  v_hash bytea;
  v_seqs bigint[] := array_fill(null::bigint, array[v_count]);
  v_prevs bytea[] := array_fill(null::bytea, array[v_count]);
  v_hashes bytea[] := array_fill(null::bytea, array[v_count]);
  v_head_tenants uuid[] := '{}';
  v_head_seqs bigint[] := '{}';
  v_head_hashes bytea[] := '{}';
  r record;
begin
  perform 1 from audit_head h where h.tenant_id = any (p_tenants) order by h.tenant_id for update;
  v_at := clock_timestamp();
  for r in
    select x.*, h.seq as head_seq, h.hash as head_hash
    from unnest(p_tenants, p_ids, p_actor_kinds, p_actor_ids, p_actions, p_target_kinds, p_target_ids, p_outcomes, p_details)
      with ordinality as x (tenant_id, id, actor_kind, actor_id, action, target_kind, target_id, outcome, detail, ord)
    left join audit_head h on h.tenant_id = x.tenant_id
    order by x.tenant_id, x.ord
  loop
    if r.tenant_id is distinct from v_tenant then
      if r.head_seq is null then
        raise exception 'no audit chain of tenant % can be written here', r.tenant_id using errcode = 'insufficient_privilege';
      end if;
      if v_tenant is not null then
        v_head_tenants := array_append(v_head_tenants, v_tenant);
        v_head_seqs := array_append(v_head_seqs, v_seq);
        v_head_hashes := array_append(v_head_hashes, v_hash);
      end if;
      v_tenant := r.tenant_id;
      v_seq := r.head_seq;
      v_hash := r.head_hash;
    end if;
    v_seq := v_seq + 1;
    v_prev := v_hash;
    v_hash := sha256(convert_to(audit_record_v1(r.tenant_id, r.id, v_seq, v_at, r.actor_kind, r.actor_id, r.action, r.target_kind, r.target_id, r.outcome,
      r.detail, v_prev), 'UTF8'));
    v_seqs[r.ord] := v_seq;
    v_prevs[r.ord] := v_prev;
    v_hashes[r.ord] := v_hash;
  end loop;
  if v_tenant is null then
    return;
  end if;
  v_head_tenants := array_append(v_head_tenants, v_tenant);
  v_head_seqs := array_append(v_head_seqs, v_seq);
  v_head_hashes := array_append(v_head_hashes, v_hash);

  insert into audit_event (tenant_id, id, seq, at, actor_kind, actor_id, action, target_kind, target_id, outcome, detail, prev_hash, hash)
    select x.tenant_id, x.id, x.seq, v_at, x.actor_kind, x.actor_id, x.action, x.target_kind, x.target_id, x.outcome, x.detail::json, x.prev_hash, x.hash
    from unnest(p_tenants, p_ids, p_actor_kinds, p_actor_ids, p_actions, p_target_kinds, p_target_ids, p_outcomes, p_details, v_seqs, v_prevs, v_hashes)
      as x (tenant_id, id, actor_kind, actor_id, action, target_kind, target_id, outcome, detail, seq, prev_hash, hash);
  update audit_head h set seq = n.seq, hash = n.hash
    from unnest(v_head_tenants, v_head_seqs, v_head_hashes) as n (tenant_id, seq, hash) where h.tenant_id = n.tenant_id;
end $$;

-- What the version before inserts itself goes the same way. It may name no number and no hash.
create function audit_event_insert_v1() returns trigger language plpgsql as $$
begin
  perform audit_append_v1(array[new.tenant_id], array[new.id], array[new.actor_kind], array[new.actor_id], array[new.action], array[new.target_kind],
    array[new.target_id], array['success'], array[audit_canonical_v1(new.detail)]);
  return null;
end $$;
create trigger audit_event_insert before insert on audit_event for each row when (new.seq is null) execute function audit_event_insert_v1();

-- A head is there before the first record, so that even the first two writers wait for each other.
create function audit_head_insert_v1() returns trigger language plpgsql security definer as $$
begin
  insert into audit_head (tenant_id) values (new.id) on conflict do nothing;
  return null;
end $$;
create trigger audit_head_insert after insert on tenant for each row execute function audit_head_insert_v1();

-- Keeps signed checkpoints. Only ones beyond the newest are kept, so that those below a number never change once there is one at or above it.
create function audit_checkpoint_v1(p_tenants text, p_ids uuid[], p_seqs bigint[], p_hashes bytea[], p_ats timestamptz[], p_key_ids text[], p_signatures bytea[])
returns int language plpgsql security definer as $$
declare v_kept int;
begin
  perform set_config('app.tenants', p_tenants, true);
  perform 1 from audit_head h where h.tenant_id = any (p_ids) order by h.tenant_id for update;
  insert into audit_checkpoint (tenant_id, seq, hash, at, key_id, signature)
    select x.tenant_id, x.seq, x.hash, x.at, x.key_id, x.signature
    from unnest(p_ids, p_seqs, p_hashes, p_ats, p_key_ids, p_signatures) as x (tenant_id, seq, hash, at, key_id, signature)
    join audit_head h on h.tenant_id = x.tenant_id and h.signed_seq < x.seq and h.seq >= x.seq;
  get diagnostics v_kept = row_count;
  update audit_head h set signed_seq = x.seq, signed_at = x.at
    from unnest(p_ids, p_seqs, p_ats) as x (tenant_id, seq, at) where h.tenant_id = x.tenant_id and h.signed_seq < x.seq and h.seq >= x.seq;
  return v_kept;
end $$;

-- ---- Rights ----

do $$
declare t text;
begin
  foreach t in array array['audit_head', 'audit_checkpoint'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy by_tenant on %I to fairlead_app, fairlead_audit using ((select current_tenants())::uuid[] @> array[tenant_id])', t);
  end loop;
end $$;
create policy by_tenant_audit on audit_event to fairlead_audit using ((select current_tenants())::uuid[] @> array[tenant_id]);
-- Whoever makes a tenant makes its head.
create policy with_tenant on audit_head for insert to fairlead_audit with check (true);
create policy sweep on audit_head for select to fairlead_sweeper using (true);

revoke insert on audit_event from fairlead_app;
grant insert (tenant_id, id, actor_kind, actor_id, action, target_kind, target_id, detail) on audit_event to fairlead_app;
grant select on audit_head, audit_checkpoint to fairlead_app;
grant select on audit_head to fairlead_sweeper;
grant select, insert on audit_event, audit_checkpoint to fairlead_audit;
grant select, insert, update on audit_head to fairlead_audit;

-- The policies of the owner of the functions ask it, and they write with these.
grant execute on function current_tenants() to fairlead_audit;
revoke all on function audit_canonical_v1(json), audit_event_insert_v1(),
  audit_record_v1(uuid, uuid, bigint, timestamptz, text, text, text, text, text, text, text, bytea) from public;
grant execute on function audit_canonical_v1(json), audit_event_insert_v1() to fairlead_app;
grant execute on function audit_record_v1(uuid, uuid, bigint, timestamptz, text, text, text, text, text, text, text, bytea) to fairlead_audit;

do $$
declare f regprocedure;
begin
  foreach f in array array['audit_append_v1(uuid[], uuid[], text[], text[], text[], text[], text[], text[], text[])',
      'audit_checkpoint_v1(text, uuid[], bigint[], bytea[], timestamptz[], text[], bytea[])', 'audit_head_insert_v1()']::regprocedure[] loop
    execute format('alter function %s set search_path = public, pg_temp', f);
    execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_app', f);
    execute format('alter function %s owner to fairlead_audit', f);
  end loop;
end $$;
