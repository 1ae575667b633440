-- Secrets: values that a tenant gives and nobody reads back. A value is sealed by a data key of its tenant, a data key is wrapped by a root key that is
-- kept outside of the database.

create table data_key (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  -- active: new values are sealed with it. retired: it only opens what it sealed before.
  state text not null default 'active' check (state in ('active', 'retired')),
  root_key_id text not null,
  wrapped bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  rewrapped_at timestamptz,
  primary key (tenant_id, id)
);
create unique index data_key_active on data_key (tenant_id) where state = 'active';
create index data_key_by_root_key on data_key (root_key_id, tenant_id, id);

create table secret (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  name text not null,
  version int not null default 1,
  -- Numbers are never given twice: they stand in what a value is bound to.
  last_number int not null default 0,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  primary key (tenant_id, id)
);
-- A name is free again once its secret is deleted.
create unique index secret_name on secret (tenant_id, name) where deleted_at is null;
create index secret_by_created on secret (tenant_id, created_at desc, id desc);

create table secret_version (
  tenant_id uuid not null,
  secret_id uuid not null,
  number int not null check (number > 0),
  state text not null default 'staged' check (state in ('staged', 'active', 'deprecated', 'destroyed')),
  sealed bytea,
  data_key_id uuid,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  activated_at timestamptz,
  destroyed_at timestamptz,
  primary key (tenant_id, secret_id, number),
  foreign key (tenant_id, secret_id) references secret (tenant_id, id),
  -- A data key cannot go while a value needs it.
  foreign key (tenant_id, data_key_id) references data_key (tenant_id, id),
  check ((state = 'destroyed') = (sealed is null)),
  check ((sealed is null) = (data_key_id is null)),
  check ((sealed is null) = (destroyed_at is not null))
);
create unique index secret_version_active on secret_version (tenant_id, secret_id) where state = 'active';
create index secret_version_by_data_key on secret_version (tenant_id, data_key_id) where data_key_id is not null;

do $$
declare t text;
begin
  foreach t in array array['data_key', 'secret', 'secret_version'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy by_tenant on %I to fairlead_app using ((select current_tenants())::uuid[] @> array[tenant_id])', t);
    execute format('grant select, insert, update on %I to fairlead_app', t);
  end loop;
end $$;
grant delete on data_key to fairlead_app;
-- The sweeper finds the keys that are not wrapped by the current root key; it sees no key and no value, wrapped or not.
create policy sweep on data_key to fairlead_sweeper using (true) with check (true);
grant select (tenant_id, id, root_key_id, state) on data_key to fairlead_sweeper;
