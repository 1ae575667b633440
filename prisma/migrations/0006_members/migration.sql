-- Who works in a tenant: members, service accounts, the sessions of signed-in members, and whose an API key is.

create table member (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  -- Where the invitation went. It is matched once, when its owner first signs in; from then on issuer and subject are who somebody is.
  email text not null check (email = lower(email)),
  name text,
  role text not null check (role in ('owner', 'admin', 'security_admin', 'billing_admin', 'developer', 'approver', 'auditor', 'viewer')),
  status text not null default 'invited' check (status in ('invited', 'active', 'removed')),
  issuer text,
  subject text,
  version int not null default 1,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  joined_at timestamptz,
  removed_at timestamptz,
  primary key (tenant_id, id),
  check ((issuer is null) = (subject is null)),
  check (status <> 'active' or subject is not null)
);
-- One place for a person. Who was removed and comes back is somebody new: nothing of the old place works again.
create unique index member_email on member (tenant_id, email) where status <> 'removed';
create unique index member_identity on member (issuer, subject, tenant_id) where status <> 'removed';
create index member_invited on member (email) where status = 'invited';
create index member_by_created on member (tenant_id, created_at desc, id desc);

create table service_account (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  name text not null,
  -- A tenant is owned by people.
  role text not null check (role in ('admin', 'security_admin', 'billing_admin', 'developer', 'approver', 'auditor', 'viewer')),
  version int not null default 1,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  removed_at timestamptz,
  primary key (tenant_id, id)
);
create index service_account_by_created on service_account (tenant_id, created_at desc, id desc);

create table session (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  member_id uuid not null,
  public_id text not null unique,
  secret_hash bytea not null,
  -- Of the state that the sign-in began with: one sign-in makes one session.
  sign_in_hash bytea not null unique,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  last_used_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, member_id) references member (tenant_id, id)
);
create index session_by_member on session (tenant_id, member_id) where ended_at is null;

-- Whose a key is: nobody's (the tenant's own), a member's or a service account's. It never may more than its owner.
alter table api_key add column member_id uuid;
alter table api_key add column service_account_id uuid;
-- The agents that it is for; empty is all of them.
alter table api_key add column agent_ids uuid[] not null default '{}';
alter table api_key add constraint api_key_one_owner check (member_id is null or service_account_id is null);
alter table api_key add constraint api_key_member foreign key (tenant_id, member_id) references member (tenant_id, id);
alter table api_key add constraint api_key_service_account foreign key (tenant_id, service_account_id) references service_account (tenant_id, id);

do $$
declare t text;
begin
  foreach t in array array['member', 'service_account', 'session'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy by_tenant on %I to fairlead_app using ((select current_tenants())::uuid[] @> array[tenant_id])', t);
    execute format('create policy sweep on %I to fairlead_sweeper using (true) with check (true)', t);
    execute format('grant select, insert, update on %I to fairlead_app', t);
    execute format('grant select on %I to fairlead_sweeper', t);
  end loop;
end $$;
grant update (last_used_at) on session to fairlead_sweeper;

-- Planes of the version before know no owners: to them an owned key, or one for some agents only, does not exist.
create or replace function api_key_find_v1(p_public_id text)
returns table (tenant_id uuid, id uuid, secret_hash bytea, previous_hash bytea, previous_expires_at timestamptz, scopes text[], expires_at timestamptz, revoked_at timestamptz)
language sql stable security definer set search_path = public, pg_temp as $$
  select k.tenant_id, k.id, k.secret_hash, k.previous_hash, k.previous_expires_at, k.scopes, k.expires_at, k.revoked_at from api_key k
  where k.public_id = p_public_id and k.member_id is null and k.service_account_id is null and k.agent_ids = '{}'
$$;

-- A key and what its owner is now. An owner who is gone has no role.
create function api_key_find_v2(p_public_id text)
returns table (tenant_id uuid, id uuid, secret_hash bytea, previous_hash bytea, previous_expires_at timestamptz, scopes text[], expires_at timestamptz,
  revoked_at timestamptz, agent_ids uuid[], owner_kind text, owner_id uuid, owner_role text)
language sql stable security definer set search_path = public, pg_temp as $$
  select k.tenant_id, k.id, k.secret_hash, k.previous_hash, k.previous_expires_at, k.scopes, k.expires_at, k.revoked_at, k.agent_ids,
    case when k.member_id is not null then 'member' when k.service_account_id is not null then 'service_account' end,
    coalesce(k.member_id, k.service_account_id),
    case when k.member_id is not null then case when m.status = 'active' then m.role end
         when k.service_account_id is not null then case when s.removed_at is null then s.role end end
  from api_key k
  left join member m on m.tenant_id = k.tenant_id and m.id = k.member_id
  left join service_account s on s.tenant_id = k.tenant_id and s.id = k.service_account_id
  where k.public_id = p_public_id
$$;

create function session_find_v1(p_public_id text)
returns table (tenant_id uuid, id uuid, member_id uuid, secret_hash bytea, expires_at timestamptz, last_used_at timestamptz, ended_at timestamptz, role text)
language sql stable security definer set search_path = public, pg_temp as $$
  select s.tenant_id, s.id, s.member_id, s.secret_hash, s.expires_at, s.last_used_at, s.ended_at, case when m.status = 'active' then m.role end
  from session s join member m on m.tenant_id = s.tenant_id and m.id = s.member_id
  where s.public_id = p_public_id
$$;

-- Notes that sessions were used: their idle time begins again.
create function session_touch_v1(p_ids uuid[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  update session s set last_used_at = clock_timestamp() where s.id = any (p_ids) and s.ended_at is null
$$;

-- Where somebody who signed in belongs: by identity, and by the invitations to an address that the provider has verified.
create function member_find_v1(p_issuer text, p_subject text, p_email text)
returns table (tenant_id uuid, tenant_slug text, member_id uuid, status text)
language sql stable security definer set search_path = public, pg_temp as $$
  select m.tenant_id, t.slug, m.id, m.status from member m join tenant t on t.id = m.tenant_id
    where m.issuer = p_issuer and m.subject = p_subject and m.status = 'active'
  union all
  select m.tenant_id, t.slug, m.id, m.status from member m join tenant t on t.id = m.tenant_id
    where m.email = lower(p_email) and m.status = 'invited'
  order by 2
$$;

do $$
declare f regprocedure;
begin
  foreach f in array array['api_key_find_v2(text)', 'session_find_v1(text)', 'session_touch_v1(uuid[])', 'member_find_v1(text, text, text)']::regprocedure[] loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_app', f);
    execute format('alter function %s owner to fairlead_sweeper', f);
  end loop;
end $$;
