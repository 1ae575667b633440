-- The life of credentials: repeated creates, when they were last used, and tenants by name for the operator.

-- Creates that a client may repeat. Kept beside what they made, so that a repetition finds the object and never its secret.
create table create_request (
  tenant_id uuid not null references tenant (id),
  -- Who asked; the nil UUID for callers without a credential.
  actor_id uuid not null,
  operation text not null,
  key text not null,
  request_hash bytea not null,
  target_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, actor_id, operation, key)
);
alter table create_request enable row level security;
alter table create_request force row level security;
create policy by_tenant on create_request to fairlead_app using (tenant_id = any ((select current_tenants())::uuid[]));
grant select, insert on create_request to fairlead_app;

create index api_key_by_created on api_key (tenant_id, created_at desc, id desc);
create index runner_token_by_created on runner_token (tenant_id, created_at desc, id desc);

-- Notes that credentials were used, to the minute and at most once a minute each.
create function credential_touch_v1(p_api_keys uuid[], p_runner_tokens uuid[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  update api_key k set last_used_at = date_trunc('minute', clock_timestamp())
    where k.id = any (p_api_keys) and (k.last_used_at is null or k.last_used_at < date_trunc('minute', clock_timestamp()));
  update runner_token k set last_used_at = date_trunc('minute', clock_timestamp())
    where k.id = any (p_runner_tokens) and (k.last_used_at is null or k.last_used_at < date_trunc('minute', clock_timestamp()));
$$;

-- The operator names a tenant by its slug or its id; the plane itself never looks a tenant up by name.
create function tenant_find_v1(p_name text) returns table (id uuid, slug text, name text, weight int, created_at timestamptz)
language sql stable security definer set search_path = public, pg_temp as $$
  select t.id, t.slug, t.name, t.weight, t.created_at from tenant t where t.slug = lower(p_name) or t.id::text = lower(p_name)
$$;

create function tenant_list_v1(p_after text, p_limit int) returns table (id uuid, slug text, name text, weight int, created_at timestamptz)
language sql stable security definer set search_path = public, pg_temp as $$
  select t.id, t.slug, t.name, t.weight, t.created_at from tenant t where t.slug > coalesce(p_after, '') order by t.slug limit p_limit
$$;

do $$
declare f regprocedure;
begin
  foreach f in array array['credential_touch_v1(uuid[], uuid[])', 'tenant_find_v1(text)', 'tenant_list_v1(text, int)']::regprocedure[] loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_app, fairlead_sweeper', f);
    execute format('alter function %s owner to fairlead_sweeper', f);
  end loop;
end $$;
