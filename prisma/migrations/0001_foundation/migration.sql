-- Tables, keys, indexes, row-level security and grants. The functions of a run's path follow in 0002.
--
-- Every key starts with the tenant and every foreign key is composite with it, so that a reference across tenants is impossible by constraint.
-- Payloads that clients control are bytea or json, never jsonb: one "\u0000" must not fail a batch of other callers.

create table tenant (
  id uuid primary key,
  slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name text not null,
  -- Share of the admission window, relative to other tenants.
  weight int not null default 1 check (weight between 1 and 100),
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);

-- The operator owns the shared pool of runners. Its id never belongs to a customer.
insert into tenant (id, slug, name) values ('00000000-0000-7000-8000-000000000000', 'operator', 'Operator');

create table api_key (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  -- The part of the key that is not secret: the look-up handle.
  public_id text not null unique,
  name text not null,
  secret_hash bytea not null,
  -- The secret of before the last rotation, until its overlap ends.
  previous_hash bytea,
  previous_expires_at timestamptz,
  last4 text not null,
  scopes text[] not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  rotated_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  primary key (tenant_id, id)
);

create table runner_token (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  public_id text not null unique,
  name text not null,
  kind text not null check (kind ~ '^[A-Za-z0-9_.-]{1,64}$'),
  secret_hash bytea not null,
  previous_hash bytea,
  previous_expires_at timestamptz,
  last4 text not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  rotated_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  primary key (tenant_id, id)
);

-- What clients call an assistant. System agents are made from runners' announcements; a shared pool's appear in every tenant.
create table agent (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  graph_id text not null,
  -- The tenant whose runners execute it: this one, or the operator.
  pool_id uuid not null references tenant (id),
  kind text not null,
  created_by text not null check (created_by in ('system', 'user')),
  name text not null,
  description text,
  version int not null default 1,
  config json not null default '{}',
  context json not null default '{}',
  metadata json not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
create unique index agent_system_graph on agent (tenant_id, graph_id) where created_by = 'system';

create table agent_version (
  tenant_id uuid not null,
  agent_id uuid not null,
  version int not null,
  -- Digest of the offer that this version was made from.
  offer_digest bytea not null,
  input_schema json,
  output_schema json,
  state_schema json,
  config_schema json,
  context_schema json,
  recovery text not null check (recovery in ('restart', 'checkpoint', 'fail')),
  max_attempts int not null check (max_attempts between 1 and 100),
  queue_timeout_ms bigint not null,
  run_timeout_ms bigint,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, agent_id, version),
  foreign key (tenant_id, agent_id) references agent (tenant_id, id)
);

-- Runner processes, as last announced. tenant_id is the pool.
create table runner (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  token_id uuid not null,
  kind text not null,
  version text not null,
  capacity int not null,
  announcement_digest text not null,
  graph_ids text[] not null,
  status text not null check (status in ('ready', 'draining', 'gone')),
  connected_at timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz not null default clock_timestamp(),
  gone_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, token_id) references runner_token (tenant_id, id)
);
create index runner_by_kind on runner (tenant_id, kind, last_seen_at desc);

create table thread (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  status text not null default 'idle' check (status in ('idle', 'busy', 'interrupted', 'error')),
  metadata json not null default '{}',
  -- The agent of the thread's first run.
  graph_id text,
  agent_id uuid,
  -- The portable state: the values of that run, unless a client wrote its own.
  values bytea,
  values_run_id uuid,
  -- {task id: [{id, value, …}]} as clients see it; null when nothing is open.
  interrupts bytea,
  -- Number of the last event of all finished runs; a run's own events start after it.
  last_seq bigint not null default 0,
  -- Made for one stateless run.
  temporary boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  state_updated_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  primary key (tenant_id, id)
) with (fillfactor = 80);
create index thread_by_created on thread (tenant_id, created_at desc) where deleted_at is null and not temporary;

create table run (
  tenant_id uuid not null,
  id uuid not null,
  thread_id uuid not null,
  agent_id uuid not null,
  -- Pinned by the first claim.
  agent_version int,
  -- Who may take it: runners of this pool and kind that offer this graph.
  pool_id uuid not null,
  kind text not null,
  graph_id text not null,
  purpose text not null default 'run' check (purpose in ('run', 'update_state')),
  status text not null check (status in ('pending', 'running', 'success', 'waiting', 'error', 'timeout', 'cancelled')),
  status_reason text,
  error json,

  -- Raised by every claim and by every move that takes the run away from whoever holds it.
  fence int not null default 0,
  attempt int not null default 1,
  -- Lapsed offers and drains, which use up no attempt.
  handbacks int not null default 0,
  max_attempts int not null,
  recovery text not null,
  runner_id uuid,
  confirmed boolean not null default false,
  -- In the database's clock. No index contains it, so that renewals stay HOT.
  lease_until timestamptz,
  -- The fence under which a runner ended it, for replays of its report.
  ended_fence int,
  cancel_requested_at timestamptz,
  cancel_action text check (cancel_action in ('interrupt', 'rollback')),

  -- The one run of its thread that may run; the others of the thread queue behind it.
  thread_head boolean not null,
  -- An event's number in the thread is thread_base + its number in the run. Null until the run is the head.
  thread_base bigint,
  -- Event 1 of every run is its metadata frame, a function of this row; it is not stored.
  last_seq bigint not null default 1,
  -- Last number of the runner's own sequence under the current fence.
  source_seq bigint not null default 0,

  -- The row is its own dispatch outbox.
  admitted_at timestamptz,
  hinted_at timestamptz,
  hint_count int not null default 0,
  dispatch_no int not null default 0,
  due_at timestamptz,
  queue_deadline timestamptz not null,
  run_timeout_ms bigint,
  deadline timestamptz,

  input bytea,
  command bytea,
  config bytea,
  context bytea,
  metadata json not null default '{}',
  state_update bytea,
  stream_modes text[] not null default '{values}',
  stream_subgraphs boolean not null default false,
  stream_resumable boolean not null default false,
  interrupt_before text[] not null default '{}',
  interrupt_after text[] not null default '{}',
  multitask_strategy text not null default 'enqueue' check (multitask_strategy in ('enqueue', 'reject')),
  on_disconnect text not null default 'continue' check (on_disconnect in ('continue', 'cancel')),
  -- The thread goes with the run.
  delete_thread boolean not null default false,
  from_checkpoint_id text,

  values bytea,
  next text[] not null default '{}',
  -- What the thread had before this run, for rollback.
  base_values_run_id uuid,
  base_seen boolean not null default false,

  credential_id uuid,
  request_hash bytea,
  traceparent text,
  created_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  updated_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  deleted_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, thread_id) references thread (tenant_id, id),
  foreign key (tenant_id, agent_id) references agent (tenant_id, id)
) with (fillfactor = 70);
-- One head a thread, whatever the code believes.
create unique index run_head on run (tenant_id, thread_id) where thread_head;
-- A look-up by (tenant, id) must find no index but the primary key: with young statistics the planner takes any index that begins with the tenant, and
-- keeps it. So the others begin with something else or are partial.
create index run_by_thread on run (thread_id, tenant_id, created_at desc);
create index run_by_created on run (tenant_id, created_at desc) where deleted_at is null and purpose = 'run';
create index run_admitted on run (pool_id, kind, admitted_at) where status = 'pending' and admitted_at is not null;
create index run_admitted_by_agent on run (tenant_id, agent_id) where status = 'pending' and admitted_at is not null;
create index run_waiting on run (pool_id, kind, graph_id, tenant_id, created_at) where status = 'pending' and thread_head and admitted_at is null;
create index run_live on run (runner_id) where status = 'running';

create table idempotency_key (
  tenant_id uuid not null references tenant (id),
  credential_id uuid not null,
  key text not null,
  request_hash bytea not null,
  run_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, credential_id, key),
  foreign key (tenant_id, run_id) references run (tenant_id, id)
);

-- The event log, in chunks: a serialized EventList of the Runner Protocol each.
create table run_event (
  tenant_id uuid not null,
  run_id uuid not null,
  first_seq bigint not null,
  count int not null check (count > 0),
  body bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, run_id, first_seq),
  foreign key (tenant_id, run_id) references run (tenant_id, id)
);
alter table run_event alter column body set storage external;

-- Token deltas: same numbering, shorter life, dropped by partition.
create table run_delta (
  tenant_id uuid not null,
  run_id uuid not null,
  first_seq bigint not null,
  count int not null check (count > 0),
  body bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, run_id, first_seq, created_at)
) partition by range (created_at);
create table run_delta_rest partition of run_delta default;

create table step (
  tenant_id uuid not null,
  run_id uuid not null,
  id text not null,
  parent_id text,
  attempt int not null,
  kind text not null check (kind in ('model', 'tool', 'agent', 'node', 'guardrail', 'handoff', 'function')),
  name text not null,
  status text not null check (status in ('running', 'success', 'error', 'interrupted')),
  namespace text[] not null default '{}',
  started_at timestamptz not null,
  ended_at timestamptz,
  usage json,
  error text,
  primary key (tenant_id, run_id, id),
  foreign key (tenant_id, run_id) references run (tenant_id, id)
);

create table checkpoint (
  tenant_id uuid not null,
  thread_id uuid not null,
  namespace text not null,
  id text not null,
  -- Order of arrival: runners' clocks do not decide what is newest.
  seq bigint generated always as identity,
  run_id uuid,
  parent_id text,
  lineage text not null,
  schema_version int not null,
  step int not null,
  head bytea not null,
  metadata bytea not null,
  -- [{"name", "digest" (hex), "type"}]
  channels json not null,
  -- {"values", "next", "tasks", "metadata", "created_at"}, served as received; null for namespaces that are not shown.
  view bytea,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, thread_id, namespace, id),
  foreign key (tenant_id, thread_id) references thread (tenant_id, id),
  foreign key (tenant_id, run_id) references run (tenant_id, id)
);
create index checkpoint_newest on checkpoint (tenant_id, thread_id, namespace, seq desc);
create index checkpoint_by_run on checkpoint (run_id);

create table checkpoint_write (
  tenant_id uuid not null,
  thread_id uuid not null,
  namespace text not null,
  checkpoint_id text not null,
  task_id text not null,
  idx int not null,
  run_id uuid,
  channel text not null,
  type text not null,
  data bytea not null,
  primary key (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx),
  foreign key (tenant_id, thread_id) references thread (tenant_id, id)
);
create index checkpoint_write_by_run on checkpoint_write (run_id);

-- Channel values by content, in parts of at most 1 MiB.
create table checkpoint_blob (
  tenant_id uuid not null references tenant (id),
  digest bytea not null,
  part int not null,
  parts int not null,
  data bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, digest, part)
);
alter table checkpoint_blob alter column data set storage external;

create table interrupt (
  tenant_id uuid not null,
  thread_id uuid not null,
  id text not null,
  run_id uuid not null,
  status text not null check (status in ('open', 'answered', 'superseded')),
  namespace text[] not null default '{}',
  task_id text,
  value bytea not null,
  answered_by_run_id uuid,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, thread_id, id, run_id),
  foreign key (tenant_id, thread_id) references thread (tenant_id, id),
  foreign key (tenant_id, run_id) references run (tenant_id, id)
);
create index interrupt_open on interrupt (tenant_id, thread_id) where status = 'open';

create table audit_event (
  tenant_id uuid not null references tenant (id),
  id uuid not null,
  at timestamptz not null default clock_timestamp(),
  actor_kind text not null,
  actor_id text,
  action text not null,
  target_kind text not null,
  target_id text not null,
  detail json not null default '{}',
  primary key (tenant_id, id)
);
create index audit_event_by_time on audit_event (tenant_id, at desc);

-- Row-level security. One setting, local to the transaction, names the tenants that a statement may touch; without nullif the empty string that
-- an earlier transaction leaves behind would be an error instead of nobody.
create function current_tenants() returns uuid[] language sql stable parallel safe
  as $$ select nullif(current_setting('app.tenants', true), '')::uuid[] $$;

do $$
declare t text;
begin
  foreach t in array array['api_key', 'runner_token', 'agent', 'agent_version', 'runner', 'thread', 'run', 'idempotency_key', 'run_event', 'run_delta',
                           'run_delta_rest', 'step', 'checkpoint', 'checkpoint_write', 'checkpoint_blob', 'interrupt', 'audit_event', 'tenant'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    -- The sub-select makes the planner read the setting once a statement instead of once a row. Containment, not equality: an equality would be an index
    -- condition, and where statistics are young the planner then enters by it and reads all rows of a tenant.
    execute format('create policy by_tenant on %I to fairlead_app using ((select current_tenants())::uuid[] @> array[%I])',
                   t, case t when 'tenant' then 'id' else 'tenant_id' end);
  end loop;
end $$;

-- A tenant's agents name the pool that executes them, which may be the operator's: that row's existence is no secret, its contents are.
grant select on tenant, api_key, runner_token, agent, agent_version, runner, thread, run, idempotency_key, run_event, run_delta, step, checkpoint,
  checkpoint_write, checkpoint_blob, interrupt, audit_event to fairlead_app;
grant insert on tenant, api_key, runner_token, agent, agent_version, runner, thread, run, idempotency_key, run_event, run_delta, step, checkpoint,
  checkpoint_write, checkpoint_blob, interrupt, audit_event to fairlead_app;
grant update on tenant, api_key, runner_token, agent, runner, thread, run, step, checkpoint, checkpoint_write, interrupt to fairlead_app;
grant delete on checkpoint, checkpoint_write to fairlead_app;

-- The sweeper finds work across tenants and touches nothing but the dispatch columns.
do $$
declare t text;
begin
  foreach t in array array['tenant', 'run', 'api_key', 'runner_token', 'runner', 'agent', 'agent_version', 'idempotency_key'] loop
    execute format('create policy sweep on %I to fairlead_sweeper using (true) with check (true)', t);
  end loop;
end $$;
grant select on tenant, run, api_key, runner_token, runner, agent, agent_version to fairlead_sweeper;
grant update (admitted_at, hinted_at, hint_count, dispatch_no) on run to fairlead_sweeper;
grant update (last_used_at) on api_key, runner_token to fairlead_sweeper;
grant update (status, gone_at, last_seen_at) on runner to fairlead_sweeper;
-- Announcements of a shared pool reach every tenant.
grant insert on agent, agent_version to fairlead_sweeper;
grant update on agent to fairlead_sweeper;
