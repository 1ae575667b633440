-- The migrated schema, read back from the catalog. Written by a test (UPDATE_GOLDEN=1), compared by it otherwise; never edited, never run.
-- `owner` is whoever migrated.

grant connect on database to fairlead_app;
grant connect on database to fairlead_audit;
grant connect on database to fairlead_sweeper;
grant connect, temporary on database to fairlead_queue;
grant connect, temporary on database to public;

grant usage on schema public to fairlead_app;
grant usage on schema public to fairlead_audit;
grant usage on schema public to fairlead_queue;
grant usage on schema public to fairlead_sweeper;
grant usage on schema public to public;

create type run_claimed as (
  ord integer,
  tenant_id uuid,
  run_id uuid,
  thread_id uuid,
  agent_id uuid,
  graph_id text,
  agent_config json,
  purpose text,
  fence integer,
  attempt integer,
  input bytea,
  command bytea,
  config bytea,
  context bytea,
  metadata json,
  state_update bytea,
  stream_modes text[],
  stream_subgraphs boolean,
  interrupt_before text[],
  interrupt_after text[],
  from_checkpoint_id text,
  has_checkpoints boolean,
  thread_values bytea,
  deadline timestamp with time zone,
  traceparent text,
  base_seq bigint,
  last_seq bigint,
  recovery text,
  ephemeral boolean
);

create type run_created as (
  ord integer,
  verdict text,
  run_id uuid,
  is_head boolean,
  is_admitted boolean,
  created timestamp with time zone,
  open_interrupts text[],
  blocking_run uuid
);

create type run_finish_item as (
  ord integer,
  tenant_id uuid,
  run_id uuid,
  thread_id uuid,
  fence integer,
  pool_id uuid,
  kind text,
  purpose text,
  total bigint,
  tail_first bigint,
  tail_count integer,
  end_count integer,
  status text,
  reason text,
  error json,
  next text[],
  interrupts json,
  at integer,
  tail_bytes integer,
  end_bytes integer,
  values_bytes integer,
  asked_bytes integer
);

create type run_moved as (
  verdict text,
  run_id uuid,
  thread_id uuid,
  status text,
  status_reason text,
  fence integer,
  attempt integer,
  pool_id uuid,
  kind text,
  graph_id text,
  runner_id uuid,
  first_seq bigint,
  base_seq bigint,
  last_seq bigint,
  admitted boolean,
  next_run uuid,
  next_pool uuid,
  next_kind text,
  next_graph text,
  next_admitted boolean
);

-- table _prisma_migrations of owner
create table _prisma_migrations (
  id character varying(36) not null,
  checksum character varying(64) not null,
  finished_at timestamp with time zone,
  migration_name character varying(255) not null,
  logs text,
  rolled_back_at timestamp with time zone,
  started_at timestamp with time zone not null default now(),
  applied_steps_count integer not null default 0,
  constraint _prisma_migrations_pkey PRIMARY KEY (id)
);
grant select on _prisma_migrations to fairlead_app;
grant select on _prisma_migrations to fairlead_sweeper;

-- table agent of owner
create table agent (
  tenant_id uuid not null,
  id uuid not null,
  graph_id text not null,
  pool_id uuid not null,
  kind text not null,
  created_by text not null,
  name text not null,
  description text,
  version integer not null default 1,
  config json not null default '{}'::json,
  context json not null default '{}'::json,
  metadata json not null default '{}'::json,
  created_at timestamp with time zone not null default clock_timestamp(),
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint agent_pkey PRIMARY KEY (tenant_id, id),
  constraint agent_created_by_check CHECK ((created_by = ANY (ARRAY['system'::text, 'user'::text]))),
  constraint agent_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES tenant(id),
  constraint agent_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE UNIQUE INDEX agent_system_graph ON public.agent USING btree (tenant_id, graph_id) WHERE (created_by = 'system'::text);
alter table agent enable row level security;
alter table agent force row level security;
create policy by_tenant on agent for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on agent for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on agent to fairlead_app;
grant insert, select, update on agent to fairlead_sweeper;

-- table agent_version of owner
create table agent_version (
  tenant_id uuid not null,
  agent_id uuid not null,
  version integer not null,
  offer_digest bytea not null,
  input_schema json,
  output_schema json,
  state_schema json,
  config_schema json,
  context_schema json,
  recovery text not null,
  max_attempts integer not null,
  queue_timeout_ms bigint not null,
  run_timeout_ms bigint,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint agent_version_pkey PRIMARY KEY (tenant_id, agent_id, version),
  constraint agent_version_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 100))),
  constraint agent_version_recovery_check CHECK ((recovery = ANY (ARRAY['restart'::text, 'checkpoint'::text, 'fail'::text]))),
  constraint agent_version_tenant_id_agent_id_fkey FOREIGN KEY (tenant_id, agent_id) REFERENCES agent(tenant_id, id)
);
alter table agent_version enable row level security;
alter table agent_version force row level security;
create policy by_tenant on agent_version for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on agent_version for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select on agent_version to fairlead_app;
grant insert, select on agent_version to fairlead_sweeper;

-- table api_key of owner
create table api_key (
  tenant_id uuid not null,
  id uuid not null,
  public_id text not null,
  name text not null,
  secret_hash bytea not null,
  previous_hash bytea,
  previous_expires_at timestamp with time zone,
  last4 text not null,
  scopes text[] not null,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  rotated_at timestamp with time zone,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  last_used_at timestamp with time zone,
  member_id uuid,
  service_account_id uuid,
  agent_ids uuid[] not null default '{}'::uuid[],
  constraint api_key_pkey PRIMARY KEY (tenant_id, id),
  constraint api_key_public_id_key UNIQUE (public_id),
  constraint api_key_one_owner CHECK (((member_id IS NULL) OR (service_account_id IS NULL))),
  constraint api_key_member FOREIGN KEY (tenant_id, member_id) REFERENCES member(tenant_id, id),
  constraint api_key_service_account FOREIGN KEY (tenant_id, service_account_id) REFERENCES service_account(tenant_id, id),
  constraint api_key_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX api_key_by_created ON public.api_key USING btree (tenant_id, created_at DESC, id DESC);
alter table api_key enable row level security;
alter table api_key force row level security;
create policy by_tenant on api_key for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on api_key for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on api_key to fairlead_app;
grant select on api_key to fairlead_sweeper;
grant update (last_used_at) on api_key to fairlead_sweeper;

-- table audit_checkpoint of owner
create table audit_checkpoint (
  tenant_id uuid not null,
  seq bigint not null,
  hash bytea not null,
  at timestamp with time zone not null,
  key_id text not null,
  signature bytea not null,
  constraint audit_checkpoint_pkey PRIMARY KEY (tenant_id, seq),
  constraint audit_checkpoint_hash_check CHECK ((octet_length(hash) = 32)),
  constraint audit_checkpoint_seq_check CHECK ((seq > 0)),
  constraint audit_checkpoint_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
alter table audit_checkpoint enable row level security;
alter table audit_checkpoint force row level security;
create policy by_tenant on audit_checkpoint for all to fairlead_app, fairlead_audit
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select on audit_checkpoint to fairlead_audit;
grant select on audit_checkpoint to fairlead_app;

-- table audit_event of owner
create table audit_event (
  tenant_id uuid not null,
  id uuid not null,
  at timestamp with time zone not null default clock_timestamp(),
  actor_kind text not null,
  actor_id text,
  action text not null,
  target_kind text not null,
  target_id text not null,
  detail json not null default '{}'::json,
  seq bigint not null,
  outcome text not null default 'success'::text,
  prev_hash bytea not null,
  hash bytea not null,
  constraint audit_event_pkey PRIMARY KEY (tenant_id, id),
  constraint audit_event_by_seq UNIQUE (tenant_id, seq),
  constraint audit_event_outcome_check CHECK ((outcome = ANY (ARRAY['success'::text, 'denied'::text, 'failed'::text]))),
  constraint audit_event_seq CHECK ((seq > 0)),
  constraint audit_event_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX audit_event_by_action ON public.audit_event USING btree (tenant_id, action, seq DESC);
CREATE INDEX audit_event_by_actor ON public.audit_event USING btree (tenant_id, actor_id, seq DESC) WHERE (actor_id IS NOT NULL);
CREATE INDEX audit_event_by_target ON public.audit_event USING btree (tenant_id, target_id, seq DESC);
CREATE INDEX audit_event_by_time ON public.audit_event USING btree (tenant_id, at DESC);
alter table audit_event enable row level security;
alter table audit_event force row level security;
create policy by_tenant on audit_event for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy by_tenant_audit on audit_event for all to fairlead_audit
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
CREATE TRIGGER audit_event_insert BEFORE INSERT ON public.audit_event FOR EACH ROW WHEN ((new.seq IS NULL)) EXECUTE FUNCTION audit_event_insert_v1();
grant insert, select on audit_event to fairlead_audit;
grant select on audit_event to fairlead_app;
grant insert (tenant_id, id, actor_kind, actor_id, action, target_kind, target_id, detail) on audit_event to fairlead_app;

-- table audit_head of owner
create table audit_head (
  tenant_id uuid not null,
  seq bigint not null default 0,
  hash bytea not null default decode(repeat('00'::text, 32), 'hex'::text),
  signed_seq bigint not null default 0,
  signed_at timestamp with time zone not null default '-infinity'::timestamp with time zone,
  constraint audit_head_pkey PRIMARY KEY (tenant_id),
  constraint audit_head_hash_check CHECK ((octet_length(hash) = 32)),
  constraint audit_head_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
) with (fillfactor=50);
alter table audit_head enable row level security;
alter table audit_head force row level security;
create policy by_tenant on audit_head for all to fairlead_app, fairlead_audit
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on audit_head for select to fairlead_sweeper
  using (true);
create policy with_tenant on audit_head for insert to fairlead_audit
  with check (true);
grant insert, select, update on audit_head to fairlead_audit;
grant select on audit_head to fairlead_app;
grant select on audit_head to fairlead_sweeper;

-- table budget of owner
create table budget (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  unit text not null,
  scope text not null,
  agent_id uuid,
  api_key_id uuid,
  period text not null,
  zone text not null default 'UTC'::text,
  amount bigint not null,
  run_hold bigint not null,
  hard boolean not null,
  version integer not null default 1,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  archived_at timestamp with time zone,
  constraint budget_pkey PRIMARY KEY (tenant_id, id),
  constraint budget_amount_check CHECK ((amount >= 0)),
  constraint budget_check CHECK (((scope = 'agent'::text) = (agent_id IS NOT NULL))),
  constraint budget_check1 CHECK (((scope = 'key'::text) = (api_key_id IS NOT NULL))),
  constraint budget_check2 CHECK (((unit <> 'runs'::text) OR (run_hold = 1))),
  constraint budget_period_check CHECK ((period = ANY (ARRAY['hour'::text, 'day'::text, 'week'::text, 'month'::text, 'lifetime'::text]))),
  constraint budget_run_hold_check CHECK ((run_hold > 0)),
  constraint budget_scope_check CHECK ((scope = ANY (ARRAY['tenant'::text, 'agent'::text, 'key'::text]))),
  constraint budget_unit_check CHECK ((unit = ANY (ARRAY['runs'::text, 'tokens'::text, 'usd'::text]))),
  constraint budget_tenant_id_agent_id_fkey FOREIGN KEY (tenant_id, agent_id) REFERENCES agent(tenant_id, id),
  constraint budget_tenant_id_api_key_id_fkey FOREIGN KEY (tenant_id, api_key_id) REFERENCES api_key(tenant_id, id),
  constraint budget_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX budget_active ON public.budget USING btree (tenant_id) WHERE (archived_at IS NULL);
CREATE INDEX budget_by_created ON public.budget USING btree (tenant_id, created_at DESC, id DESC);
alter table budget enable row level security;
alter table budget force row level security;
create policy by_tenant on budget for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on budget for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on budget to fairlead_app;
grant insert, select, update on budget to fairlead_sweeper;

-- table budget_entry of owner
create table budget_entry (
  tenant_id uuid not null,
  "position" bigint not null generated always as identity,
  budget_id uuid not null,
  starts_at timestamp with time zone not null,
  run_id uuid not null,
  kind text not null,
  held bigint not null,
  posted bigint not null,
  estimated boolean not null default false,
  at timestamp with time zone not null default clock_timestamp(),
  folded boolean not null,
  constraint budget_entry_pkey PRIMARY KEY (tenant_id, "position"),
  constraint budget_entry_kind_check CHECK ((kind = ANY (ARRAY['hold'::text, 'raise'::text, 'release'::text, 'settle'::text]))),
  constraint budget_entry_tenant_id_budget_id_starts_at_fkey FOREIGN KEY (tenant_id, budget_id, starts_at) REFERENCES budget_window(tenant_id, budget_id, starts_at)
);
CREATE INDEX budget_entry_unfolded ON public.budget_entry USING btree (tenant_id, budget_id, starts_at) WHERE (NOT folded);
alter table budget_entry enable row level security;
alter table budget_entry force row level security;
create policy by_tenant on budget_entry for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on budget_entry for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select on budget_entry to fairlead_app;
grant insert, select on budget_entry to fairlead_sweeper;
grant update (folded) on budget_entry to fairlead_app;
grant update (folded) on budget_entry to fairlead_sweeper;

-- table budget_hold of owner
create table budget_hold (
  tenant_id uuid not null,
  run_id uuid not null,
  budget_id uuid not null,
  starts_at timestamp with time zone not null,
  amount bigint not null,
  settled_at timestamp with time zone,
  constraint budget_hold_pkey PRIMARY KEY (tenant_id, run_id, budget_id),
  constraint budget_hold_tenant_id_budget_id_starts_at_fkey FOREIGN KEY (tenant_id, budget_id, starts_at) REFERENCES budget_window(tenant_id, budget_id, starts_at)
);
alter table budget_hold enable row level security;
alter table budget_hold force row level security;
create policy by_tenant on budget_hold for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on budget_hold for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on budget_hold to fairlead_app;
grant insert, select, update on budget_hold to fairlead_sweeper;

-- table budget_window of owner
create table budget_window (
  tenant_id uuid not null,
  budget_id uuid not null,
  starts_at timestamp with time zone not null,
  posted bigint not null default 0,
  held bigint not null default 0,
  constraint budget_window_pkey PRIMARY KEY (tenant_id, budget_id, starts_at),
  constraint budget_window_tenant_id_budget_id_fkey FOREIGN KEY (tenant_id, budget_id) REFERENCES budget(tenant_id, id)
);
alter table budget_window enable row level security;
alter table budget_window force row level security;
create policy by_tenant on budget_window for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on budget_window for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on budget_window to fairlead_app;
grant insert, select, update on budget_window to fairlead_sweeper;

-- table checkpoint of owner
create table checkpoint (
  tenant_id uuid not null,
  thread_id uuid not null,
  namespace text not null,
  id text not null,
  seq bigint not null generated always as identity,
  run_id uuid,
  parent_id text,
  lineage text not null,
  schema_version integer not null,
  step integer not null,
  head bytea not null,
  metadata bytea not null,
  channels json not null,
  view bytea,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint checkpoint_pkey PRIMARY KEY (tenant_id, thread_id, namespace, id),
  constraint checkpoint_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES run(tenant_id, id),
  constraint checkpoint_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES thread(tenant_id, id)
);
CREATE INDEX checkpoint_by_run ON public.checkpoint USING btree (run_id);
CREATE INDEX checkpoint_newest ON public.checkpoint USING btree (tenant_id, thread_id, namespace, seq DESC);
alter table checkpoint enable row level security;
alter table checkpoint force row level security;
create policy by_tenant on checkpoint for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on checkpoint for all to fairlead_sweeper
  using (true);
grant delete on checkpoint to fairlead_sweeper;
grant delete, insert, select, update on checkpoint to fairlead_app;
grant select (tenant_id, thread_id, namespace, id) on checkpoint to fairlead_sweeper;

-- table checkpoint_blob of owner
create table checkpoint_blob (
  tenant_id uuid not null,
  digest bytea not null,
  part integer not null,
  parts integer not null,
  data bytea not null storage external,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint checkpoint_blob_pkey PRIMARY KEY (tenant_id, digest, part),
  constraint checkpoint_blob_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
alter table checkpoint_blob enable row level security;
alter table checkpoint_blob force row level security;
create policy by_tenant on checkpoint_blob for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select on checkpoint_blob to fairlead_app;

-- table checkpoint_write of owner
create table checkpoint_write (
  tenant_id uuid not null,
  thread_id uuid not null,
  namespace text not null,
  checkpoint_id text not null,
  task_id text not null,
  idx integer not null,
  run_id uuid,
  channel text not null,
  type text not null,
  data bytea not null,
  constraint checkpoint_write_pkey PRIMARY KEY (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx),
  constraint checkpoint_write_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES thread(tenant_id, id)
);
CREATE INDEX checkpoint_write_by_run ON public.checkpoint_write USING btree (run_id);
alter table checkpoint_write enable row level security;
alter table checkpoint_write force row level security;
create policy by_tenant on checkpoint_write for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on checkpoint_write for all to fairlead_sweeper
  using (true);
grant delete on checkpoint_write to fairlead_sweeper;
grant delete, insert, select, update on checkpoint_write to fairlead_app;
grant select (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx) on checkpoint_write to fairlead_sweeper;

-- table create_request of owner
create table create_request (
  tenant_id uuid not null,
  actor_id uuid not null,
  operation text not null,
  key text not null,
  request_hash bytea not null,
  target_id uuid not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint create_request_pkey PRIMARY KEY (tenant_id, actor_id, operation, key),
  constraint create_request_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX create_request_by_age ON public.create_request USING btree (created_at);
alter table create_request enable row level security;
alter table create_request force row level security;
create policy by_tenant on create_request for all to fairlead_app
  using ((tenant_id = ANY (( SELECT current_tenants() AS current_tenants)::uuid[])));
create policy sweep on create_request for all to fairlead_sweeper
  using (true);
grant delete on create_request to fairlead_sweeper;
grant insert, select on create_request to fairlead_app;
grant select (tenant_id, actor_id, operation, key, created_at) on create_request to fairlead_sweeper;

-- table data_key of owner
create table data_key (
  tenant_id uuid not null,
  id uuid not null,
  state text not null default 'active'::text,
  root_key_id text not null,
  wrapped bytea not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  rewrapped_at timestamp with time zone,
  constraint data_key_pkey PRIMARY KEY (tenant_id, id),
  constraint data_key_state_check CHECK ((state = ANY (ARRAY['active'::text, 'retired'::text]))),
  constraint data_key_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE UNIQUE INDEX data_key_active ON public.data_key USING btree (tenant_id) WHERE (state = 'active'::text);
CREATE INDEX data_key_by_root_key ON public.data_key USING btree (root_key_id, tenant_id, id);
alter table data_key enable row level security;
alter table data_key force row level security;
create policy by_tenant on data_key for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on data_key for all to fairlead_sweeper
  using (true)
  with check (true);
grant delete, insert, select, update on data_key to fairlead_app;
grant select (tenant_id, id, state, root_key_id) on data_key to fairlead_sweeper;

-- table halt of owner
create table halt (
  tenant_id uuid not null,
  id uuid not null,
  scope text not null,
  agent_id uuid,
  kind text,
  mode text not null,
  reason text not null,
  version integer not null default 1,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  expires_at timestamp with time zone,
  lifted_at timestamp with time zone,
  lifted_by text,
  constraint halt_pkey PRIMARY KEY (tenant_id, id),
  constraint halt_check CHECK (((scope = 'agent'::text) = (agent_id IS NOT NULL))),
  constraint halt_check1 CHECK (((scope = 'kind'::text) = (kind IS NOT NULL))),
  constraint halt_check2 CHECK (((lifted_at IS NULL) = (lifted_by IS NULL))),
  constraint halt_mode_check CHECK ((mode = ANY (ARRAY['block'::text, 'cancel'::text]))),
  constraint halt_scope_check CHECK ((scope = ANY (ARRAY['tenant'::text, 'agent'::text, 'kind'::text]))),
  constraint halt_tenant_id_agent_id_fkey FOREIGN KEY (tenant_id, agent_id) REFERENCES agent(tenant_id, id),
  constraint halt_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX halt_active ON public.halt USING btree (tenant_id) WHERE (lifted_at IS NULL);
CREATE INDEX halt_by_created ON public.halt USING btree (tenant_id, created_at DESC, id DESC);
alter table halt enable row level security;
alter table halt force row level security;
create policy by_tenant on halt for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on halt for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on halt to fairlead_app;
grant select on halt to fairlead_sweeper;

-- table idempotency_key of owner
create table idempotency_key (
  tenant_id uuid not null,
  credential_id uuid not null,
  key text not null,
  request_hash bytea not null,
  run_id uuid not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint idempotency_key_pkey PRIMARY KEY (tenant_id, credential_id, key),
  constraint idempotency_key_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id),
  constraint idempotency_key_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES run(tenant_id, id)
);
CREATE INDEX idempotency_key_by_age ON public.idempotency_key USING btree (created_at);
alter table idempotency_key enable row level security;
alter table idempotency_key force row level security;
create policy by_tenant on idempotency_key for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on idempotency_key for all to fairlead_sweeper
  using (true)
  with check (true);
grant delete on idempotency_key to fairlead_sweeper;
grant insert, select on idempotency_key to fairlead_app;
grant select (tenant_id, credential_id, key, created_at) on idempotency_key to fairlead_sweeper;

-- table interrupt of owner
create table interrupt (
  tenant_id uuid not null,
  thread_id uuid not null,
  id text not null,
  run_id uuid not null,
  status text not null,
  namespace text[] not null default '{}'::text[],
  task_id text,
  value bytea not null,
  answered_by_run_id uuid,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint interrupt_pkey PRIMARY KEY (tenant_id, thread_id, id, run_id),
  constraint interrupt_status_check CHECK ((status = ANY (ARRAY['open'::text, 'answered'::text, 'superseded'::text]))),
  constraint interrupt_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES run(tenant_id, id),
  constraint interrupt_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES thread(tenant_id, id)
);
CREATE INDEX interrupt_open ON public.interrupt USING btree (tenant_id, thread_id) WHERE (status = 'open'::text);
alter table interrupt enable row level security;
alter table interrupt force row level security;
create policy by_tenant on interrupt for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on interrupt for all to fairlead_sweeper
  using (true);
grant delete on interrupt to fairlead_sweeper;
grant insert, select, update on interrupt to fairlead_app;
grant select (tenant_id, thread_id, id, run_id) on interrupt to fairlead_sweeper;

-- table member of owner
create table member (
  tenant_id uuid not null,
  id uuid not null,
  email text not null,
  name text,
  role text not null,
  status text not null default 'invited'::text,
  issuer text,
  subject text,
  version integer not null default 1,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  joined_at timestamp with time zone,
  removed_at timestamp with time zone,
  constraint member_pkey PRIMARY KEY (tenant_id, id),
  constraint member_check CHECK (((issuer IS NULL) = (subject IS NULL))),
  constraint member_check1 CHECK (((status <> 'active'::text) OR (subject IS NOT NULL))),
  constraint member_email_check CHECK ((email = lower(email))),
  constraint member_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'security_admin'::text, 'billing_admin'::text, 'developer'::text, 'approver'::text, 'auditor'::text, 'viewer'::text]))),
  constraint member_status_check CHECK ((status = ANY (ARRAY['invited'::text, 'active'::text, 'removed'::text]))),
  constraint member_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX member_by_created ON public.member USING btree (tenant_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX member_email ON public.member USING btree (tenant_id, email) WHERE (status <> 'removed'::text);
CREATE UNIQUE INDEX member_identity ON public.member USING btree (issuer, subject, tenant_id) WHERE (status <> 'removed'::text);
CREATE INDEX member_invited ON public.member USING btree (email) WHERE (status = 'invited'::text);
alter table member enable row level security;
alter table member force row level security;
create policy by_tenant on member for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on member for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on member to fairlead_app;
grant select on member to fairlead_sweeper;

-- table model_price of owner
create table model_price (
  tenant_id uuid not null,
  model text not null,
  effective_from timestamp with time zone not null,
  input_pico bigint not null,
  output_pico bigint not null,
  cache_read_pico bigint not null,
  id uuid not null,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint model_price_pkey PRIMARY KEY (tenant_id, id),
  constraint model_price_tenant_id_model_effective_from_key UNIQUE (tenant_id, model, effective_from),
  constraint model_price_cache_read_pico_check CHECK (((cache_read_pico >= 0) AND (cache_read_pico <= '1000000000000'::bigint))),
  constraint model_price_input_pico_check CHECK (((input_pico >= 0) AND (input_pico <= '1000000000000'::bigint))),
  constraint model_price_output_pico_check CHECK (((output_pico >= 0) AND (output_pico <= '1000000000000'::bigint))),
  constraint model_price_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX model_price_by_created ON public.model_price USING btree (tenant_id, created_at DESC, id DESC);
alter table model_price enable row level security;
alter table model_price force row level security;
create policy by_tenant on model_price for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on model_price for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select on model_price to fairlead_app;
grant insert, select on model_price to fairlead_sweeper;

-- table run of owner
create table run (
  tenant_id uuid not null,
  id uuid not null,
  thread_id uuid not null,
  agent_id uuid not null,
  agent_version integer,
  pool_id uuid not null,
  kind text not null,
  graph_id text not null,
  purpose text not null default 'run'::text,
  status text not null,
  status_reason text,
  error json,
  fence integer not null default 0,
  attempt integer not null default 1,
  handbacks integer not null default 0,
  max_attempts integer not null,
  recovery text not null,
  runner_id uuid,
  confirmed boolean not null default false,
  lease_until timestamp with time zone,
  ended_fence integer,
  cancel_requested_at timestamp with time zone,
  cancel_action text,
  thread_head boolean not null,
  thread_base bigint,
  last_seq bigint not null default 1,
  source_seq bigint not null default 0,
  admitted_at timestamp with time zone,
  hinted_at timestamp with time zone,
  hint_count integer not null default 0,
  dispatch_no integer not null default 0,
  due_at timestamp with time zone,
  queue_deadline timestamp with time zone not null,
  run_timeout_ms bigint,
  deadline timestamp with time zone,
  input bytea,
  command bytea,
  config bytea,
  context bytea,
  metadata json not null default '{}'::json,
  state_update bytea,
  stream_modes text[] not null default '{values}'::text[],
  stream_subgraphs boolean not null default false,
  stream_resumable boolean not null default false,
  interrupt_before text[] not null default '{}'::text[],
  interrupt_after text[] not null default '{}'::text[],
  multitask_strategy text not null default 'enqueue'::text,
  on_disconnect text not null default 'continue'::text,
  delete_thread boolean not null default false,
  from_checkpoint_id text,
  "values" bytea,
  next text[] not null default '{}'::text[],
  base_values_run_id uuid,
  base_seen boolean not null default false,
  credential_id uuid,
  request_hash bytea,
  traceparent text,
  created_at timestamp with time zone not null default clock_timestamp(),
  started_at timestamp with time zone,
  updated_at timestamp with time zone not null default clock_timestamp(),
  ended_at timestamp with time zone,
  deleted_at timestamp with time zone,
  purged_at timestamp with time zone,
  cancel_cause text,
  budgeted boolean not null default false,
  constraint run_pkey PRIMARY KEY (tenant_id, id),
  constraint run_cancel_action_check CHECK ((cancel_action = ANY (ARRAY['interrupt'::text, 'rollback'::text]))),
  constraint run_cancel_cause_check CHECK ((cancel_cause = ANY (ARRAY['halted'::text, 'budget_exhausted'::text]))),
  constraint run_multitask_strategy_check CHECK ((multitask_strategy = ANY (ARRAY['enqueue'::text, 'reject'::text]))),
  constraint run_on_disconnect_check CHECK ((on_disconnect = ANY (ARRAY['continue'::text, 'cancel'::text]))),
  constraint run_purpose_check CHECK ((purpose = ANY (ARRAY['run'::text, 'update_state'::text]))),
  constraint run_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'success'::text, 'waiting'::text, 'error'::text, 'timeout'::text, 'cancelled'::text]))),
  constraint run_tenant_id_agent_id_fkey FOREIGN KEY (tenant_id, agent_id) REFERENCES agent(tenant_id, id),
  constraint run_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES thread(tenant_id, id)
) with (fillfactor=70);
CREATE INDEX run_admitted ON public.run USING btree (pool_id, kind, admitted_at) WHERE ((status = 'pending'::text) AND (admitted_at IS NOT NULL));
CREATE INDEX run_admitted_by_agent ON public.run USING btree (tenant_id, agent_id) WHERE ((status = 'pending'::text) AND (admitted_at IS NOT NULL));
CREATE INDEX run_by_created ON public.run USING btree (tenant_id, created_at DESC) WHERE ((deleted_at IS NULL) AND (purpose = 'run'::text));
CREATE INDEX run_by_thread ON public.run USING btree (thread_id, tenant_id, created_at DESC);
CREATE UNIQUE INDEX run_head ON public.run USING btree (tenant_id, thread_id) WHERE thread_head;
CREATE INDEX run_live ON public.run USING btree (runner_id) WHERE (status = 'running'::text);
CREATE INDEX run_unpurged ON public.run USING btree (GREATEST(ended_at, deleted_at)) WHERE ((purged_at IS NULL) AND (ended_at IS NOT NULL) AND ((deleted_at IS NOT NULL) OR delete_thread));
CREATE INDEX run_waiting ON public.run USING btree (pool_id, kind, graph_id, tenant_id, created_at) WHERE ((status = 'pending'::text) AND thread_head AND (admitted_at IS NULL));
alter table run enable row level security;
alter table run force row level security;
create policy by_tenant on run for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on run for all to fairlead_sweeper
  using (true)
  with check (true);
CREATE CONSTRAINT TRIGGER budget_settle AFTER UPDATE OF status ON public.run DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.budgeted AND (new.status <> ALL (ARRAY['pending'::text, 'running'::text])) AND (old.status = ANY (ARRAY['pending'::text, 'running'::text])))) EXECUTE FUNCTION budget_settle_v1();
grant insert, select, update on run to fairlead_app;
grant select on run to fairlead_sweeper;
grant update (admitted_at, hinted_at, hint_count, dispatch_no, input, command, config, context, metadata, state_update, "values", purged_at) on run to fairlead_sweeper;

-- table run_delta of owner
create table run_delta (
  tenant_id uuid not null,
  run_id uuid not null,
  first_seq bigint not null,
  count integer not null,
  body bytea not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint run_delta_pkey PRIMARY KEY (tenant_id, run_id, first_seq, created_at),
  constraint run_delta_count_check CHECK ((count > 0))
) partition by RANGE (created_at);
alter table run_delta enable row level security;
alter table run_delta force row level security;
create policy by_tenant on run_delta for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on run_delta for all to fairlead_sweeper
  using (true);
grant delete on run_delta to fairlead_sweeper;
grant insert, select on run_delta to fairlead_app;
grant select (tenant_id, run_id, first_seq, created_at) on run_delta to fairlead_sweeper;

-- table run_delta_rest of owner
create table run_delta_rest partition of run_delta DEFAULT (
  tenant_id uuid not null,
  run_id uuid not null,
  first_seq bigint not null,
  count integer not null,
  body bytea not null,
  created_at timestamp with time zone not null default clock_timestamp()
);
alter table run_delta_rest enable row level security;
alter table run_delta_rest force row level security;
create policy by_tenant on run_delta_rest for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));

-- table run_event of owner
create table run_event (
  tenant_id uuid not null,
  run_id uuid not null,
  first_seq bigint not null,
  count integer not null,
  body bytea not null storage external,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint run_event_pkey PRIMARY KEY (tenant_id, run_id, first_seq),
  constraint run_event_count_check CHECK ((count > 0)),
  constraint run_event_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES run(tenant_id, id)
);
alter table run_event enable row level security;
alter table run_event force row level security;
create policy by_tenant on run_event for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on run_event for all to fairlead_sweeper
  using (true);
grant delete on run_event to fairlead_sweeper;
grant insert, select on run_event to fairlead_app;
grant select (tenant_id, run_id, first_seq) on run_event to fairlead_sweeper;

-- table runner of owner
create table runner (
  tenant_id uuid not null,
  id uuid not null,
  token_id uuid not null,
  kind text not null,
  version text not null,
  capacity integer not null,
  announcement_digest text not null,
  graph_ids text[] not null,
  status text not null,
  connected_at timestamp with time zone not null default clock_timestamp(),
  last_seen_at timestamp with time zone not null default clock_timestamp(),
  gone_at timestamp with time zone,
  constraint runner_pkey PRIMARY KEY (tenant_id, id),
  constraint runner_status_check CHECK ((status = ANY (ARRAY['ready'::text, 'draining'::text, 'gone'::text]))),
  constraint runner_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id),
  constraint runner_tenant_id_token_id_fkey FOREIGN KEY (tenant_id, token_id) REFERENCES runner_token(tenant_id, id)
);
CREATE INDEX runner_by_kind ON public.runner USING btree (tenant_id, kind, last_seen_at DESC);
alter table runner enable row level security;
alter table runner force row level security;
create policy by_tenant on runner for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on runner for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on runner to fairlead_app;
grant select on runner to fairlead_sweeper;
grant update (status, last_seen_at, gone_at) on runner to fairlead_sweeper;

-- table runner_token of owner
create table runner_token (
  tenant_id uuid not null,
  id uuid not null,
  public_id text not null,
  name text not null,
  kind text not null,
  secret_hash bytea not null,
  previous_hash bytea,
  previous_expires_at timestamp with time zone,
  last4 text not null,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  rotated_at timestamp with time zone,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  last_used_at timestamp with time zone,
  constraint runner_token_pkey PRIMARY KEY (tenant_id, id),
  constraint runner_token_public_id_key UNIQUE (public_id),
  constraint runner_token_kind_check CHECK ((kind ~ '^[A-Za-z0-9_.-]{1,64}$'::text)),
  constraint runner_token_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX runner_token_by_created ON public.runner_token USING btree (tenant_id, created_at DESC, id DESC);
alter table runner_token enable row level security;
alter table runner_token force row level security;
create policy by_tenant on runner_token for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on runner_token for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on runner_token to fairlead_app;
grant select on runner_token to fairlead_sweeper;
grant update (last_used_at) on runner_token to fairlead_sweeper;

-- table secret of owner
create table secret (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  version integer not null default 1,
  last_number integer not null default 0,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  deleted_at timestamp with time zone,
  constraint secret_pkey PRIMARY KEY (tenant_id, id),
  constraint secret_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX secret_by_created ON public.secret USING btree (tenant_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX secret_name ON public.secret USING btree (tenant_id, name) WHERE (deleted_at IS NULL);
alter table secret enable row level security;
alter table secret force row level security;
create policy by_tenant on secret for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select, update on secret to fairlead_app;

-- table secret_version of owner
create table secret_version (
  tenant_id uuid not null,
  secret_id uuid not null,
  number integer not null,
  state text not null default 'staged'::text,
  sealed bytea,
  data_key_id uuid,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  activated_at timestamp with time zone,
  destroyed_at timestamp with time zone,
  constraint secret_version_pkey PRIMARY KEY (tenant_id, secret_id, number),
  constraint secret_version_check CHECK (((state = 'destroyed'::text) = (sealed IS NULL))),
  constraint secret_version_check1 CHECK (((sealed IS NULL) = (data_key_id IS NULL))),
  constraint secret_version_check2 CHECK (((sealed IS NULL) = (destroyed_at IS NOT NULL))),
  constraint secret_version_number_check CHECK ((number > 0)),
  constraint secret_version_state_check CHECK ((state = ANY (ARRAY['staged'::text, 'active'::text, 'deprecated'::text, 'destroyed'::text]))),
  constraint secret_version_tenant_id_data_key_id_fkey FOREIGN KEY (tenant_id, data_key_id) REFERENCES data_key(tenant_id, id),
  constraint secret_version_tenant_id_secret_id_fkey FOREIGN KEY (tenant_id, secret_id) REFERENCES secret(tenant_id, id)
);
CREATE UNIQUE INDEX secret_version_active ON public.secret_version USING btree (tenant_id, secret_id) WHERE (state = 'active'::text);
CREATE INDEX secret_version_by_data_key ON public.secret_version USING btree (tenant_id, data_key_id) WHERE (data_key_id IS NOT NULL);
alter table secret_version enable row level security;
alter table secret_version force row level security;
create policy by_tenant on secret_version for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select, update on secret_version to fairlead_app;

-- table service_account of owner
create table service_account (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  role text not null,
  version integer not null default 1,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  removed_at timestamp with time zone,
  constraint service_account_pkey PRIMARY KEY (tenant_id, id),
  constraint service_account_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'security_admin'::text, 'billing_admin'::text, 'developer'::text, 'approver'::text, 'auditor'::text, 'viewer'::text]))),
  constraint service_account_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX service_account_by_created ON public.service_account USING btree (tenant_id, created_at DESC, id DESC);
alter table service_account enable row level security;
alter table service_account force row level security;
create policy by_tenant on service_account for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on service_account for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on service_account to fairlead_app;
grant select on service_account to fairlead_sweeper;

-- table session of owner
create table session (
  tenant_id uuid not null,
  id uuid not null,
  member_id uuid not null,
  public_id text not null,
  secret_hash bytea not null,
  sign_in_hash bytea not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  expires_at timestamp with time zone not null,
  last_used_at timestamp with time zone not null default clock_timestamp(),
  ended_at timestamp with time zone,
  constraint session_pkey PRIMARY KEY (tenant_id, id),
  constraint session_public_id_key UNIQUE (public_id),
  constraint session_sign_in_hash_key UNIQUE (sign_in_hash),
  constraint session_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id),
  constraint session_tenant_id_member_id_fkey FOREIGN KEY (tenant_id, member_id) REFERENCES member(tenant_id, id)
);
CREATE INDEX session_by_member ON public.session USING btree (tenant_id, member_id) WHERE (ended_at IS NULL);
alter table session enable row level security;
alter table session force row level security;
create policy by_tenant on session for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on session for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select, update on session to fairlead_app;
grant select on session to fairlead_sweeper;
grant update (last_used_at) on session to fairlead_sweeper;

-- table step of owner
create table step (
  tenant_id uuid not null,
  run_id uuid not null,
  id text not null,
  parent_id text,
  attempt integer not null,
  kind text not null,
  name text not null,
  status text not null,
  namespace text[] not null default '{}'::text[],
  started_at timestamp with time zone not null,
  ended_at timestamp with time zone,
  usage json,
  error text,
  constraint step_pkey PRIMARY KEY (tenant_id, run_id, id),
  constraint step_kind_check CHECK ((kind = ANY (ARRAY['model'::text, 'tool'::text, 'agent'::text, 'node'::text, 'guardrail'::text, 'handoff'::text, 'function'::text]))),
  constraint step_status_check CHECK ((status = ANY (ARRAY['running'::text, 'success'::text, 'error'::text, 'interrupted'::text]))),
  constraint step_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES run(tenant_id, id)
);
alter table step enable row level security;
alter table step force row level security;
create policy by_tenant on step for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on step for all to fairlead_sweeper
  using (true);
CREATE TRIGGER usage_noted AFTER INSERT OR UPDATE OF usage ON public.step FOR EACH ROW WHEN (((new.usage IS NOT NULL) AND (json_typeof(new.usage) = 'object'::text))) EXECUTE FUNCTION usage_note_v1();
grant delete on step to fairlead_sweeper;
grant insert, select, update on step to fairlead_app;
grant select (tenant_id, run_id, id) on step to fairlead_sweeper;

-- table tenant of owner
create table tenant (
  id uuid not null,
  slug text not null,
  name text not null,
  weight integer not null default 1,
  created_at timestamp with time zone not null default clock_timestamp(),
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint tenant_pkey PRIMARY KEY (id),
  constraint tenant_slug_key UNIQUE (slug),
  constraint tenant_slug_check CHECK ((slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text)),
  constraint tenant_weight_check CHECK (((weight >= 1) AND (weight <= 100)))
);
alter table tenant enable row level security;
alter table tenant force row level security;
create policy by_tenant on tenant for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[id]));
create policy sweep on tenant for all to fairlead_sweeper
  using (true)
  with check (true);
CREATE TRIGGER audit_head_insert AFTER INSERT ON public.tenant FOR EACH ROW EXECUTE FUNCTION audit_head_insert_v1();
grant insert, select, update on tenant to fairlead_app;
grant select on tenant to fairlead_sweeper;

-- table thread of owner
create table thread (
  tenant_id uuid not null,
  id uuid not null,
  status text not null default 'idle'::text,
  metadata json not null default '{}'::json,
  graph_id text,
  agent_id uuid,
  "values" bytea,
  values_run_id uuid,
  interrupts bytea,
  last_seq bigint not null default 0,
  temporary boolean not null default false,
  created_at timestamp with time zone not null default clock_timestamp(),
  updated_at timestamp with time zone not null default clock_timestamp(),
  state_updated_at timestamp with time zone not null default clock_timestamp(),
  deleted_at timestamp with time zone,
  constraint thread_pkey PRIMARY KEY (tenant_id, id),
  constraint thread_status_check CHECK ((status = ANY (ARRAY['idle'::text, 'busy'::text, 'interrupted'::text, 'error'::text]))),
  constraint thread_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
) with (fillfactor=80);
CREATE INDEX thread_by_created ON public.thread USING btree (tenant_id, created_at DESC) WHERE ((deleted_at IS NULL) AND (NOT temporary));
alter table thread enable row level security;
alter table thread force row level security;
create policy by_tenant on thread for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on thread for all to fairlead_sweeper
  using (true);
grant insert, select, update on thread to fairlead_app;
grant select (tenant_id, id, temporary, deleted_at) on thread to fairlead_sweeper;
grant update (metadata, "values", values_run_id, interrupts) on thread to fairlead_sweeper;

-- table tool of owner
create table tool (
  tenant_id uuid not null,
  id uuid not null,
  server text not null,
  agent_id uuid not null,
  name text collate "C" not null,
  schema_digest bytea not null,
  version integer not null default 1,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint tool_pkey PRIMARY KEY (tenant_id, id),
  constraint tool_name_check CHECK ((name ~ '^[A-Za-z0-9_.:/-]{1,128}$'::text)),
  constraint tool_schema_digest_check CHECK ((length(schema_digest) = 32)),
  constraint tool_tenant_id_agent_id_fkey FOREIGN KEY (tenant_id, agent_id) REFERENCES agent(tenant_id, id),
  constraint tool_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX tool_by_created ON public.tool USING btree (tenant_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX tool_name ON public.tool USING btree (tenant_id, agent_id, server, lower(name));
alter table tool enable row level security;
alter table tool force row level security;
create policy by_tenant on tool for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select on tool to fairlead_app;
grant update (schema_digest, version) on tool to fairlead_app;

-- table tool_decision of owner
create table tool_decision (
  tenant_id uuid not null,
  id uuid not null,
  run_id uuid not null,
  fence integer not null,
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
  policy_number integer,
  micros integer not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint tool_decision_pkey PRIMARY KEY (tenant_id, id),
  constraint tool_decision_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id),
  constraint tool_decision_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES run(tenant_id, id)
);
CREATE UNIQUE INDEX tool_decision_ask ON public.tool_decision USING btree (tenant_id, run_id, fence, ask_id);
CREATE INDEX tool_decision_by_created ON public.tool_decision USING btree (tenant_id, created_at DESC, id DESC);
alter table tool_decision enable row level security;
alter table tool_decision force row level security;
create policy by_tenant on tool_decision for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select on tool_decision to fairlead_app;

-- table tool_policy of owner
create table tool_policy (
  tenant_id uuid not null,
  number integer not null,
  version_id uuid not null,
  constraint tool_policy_pkey PRIMARY KEY (tenant_id),
  constraint tool_policy_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id),
  constraint tool_policy_tenant_id_version_id_fkey FOREIGN KEY (tenant_id, version_id) REFERENCES tool_policy_version(tenant_id, id)
);
alter table tool_policy enable row level security;
alter table tool_policy force row level security;
create policy by_tenant on tool_policy for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select, update on tool_policy to fairlead_app;

-- table tool_policy_version of owner
create table tool_policy_version (
  tenant_id uuid not null,
  id uuid not null,
  number integer,
  name text not null,
  content json not null,
  digest bytea not null,
  created_by text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  published_by text,
  published_at timestamp with time zone,
  restores integer,
  constraint tool_policy_version_pkey PRIMARY KEY (tenant_id, id),
  constraint tool_policy_version_check CHECK (((number IS NULL) = (published_at IS NULL))),
  constraint tool_policy_version_digest_check CHECK ((length(digest) = 32)),
  constraint tool_policy_version_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE UNIQUE INDEX tool_policy_number ON public.tool_policy_version USING btree (tenant_id, number) WHERE (number IS NOT NULL);
CREATE INDEX tool_policy_version_by_created ON public.tool_policy_version USING btree (tenant_id, created_at DESC, id DESC);
alter table tool_policy_version enable row level security;
alter table tool_policy_version force row level security;
create policy by_tenant on tool_policy_version for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
grant insert, select on tool_policy_version to fairlead_app;
grant update (number, published_by, published_at, restores) on tool_policy_version to fairlead_app;

-- table usage_event of owner
create table usage_event (
  tenant_id uuid not null,
  run_id uuid not null,
  attempt integer not null,
  step_id text not null,
  model text not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  is_bad boolean not null,
  agent_id uuid not null,
  credential_id uuid,
  at timestamp with time zone not null default clock_timestamp(),
  constraint usage_event_pkey PRIMARY KEY (tenant_id, run_id, attempt, step_id)
);
CREATE INDEX usage_event_by_time ON public.usage_event USING btree (tenant_id, at);
alter table usage_event enable row level security;
alter table usage_event force row level security;
create policy by_tenant on usage_event for all to fairlead_app
  using ((( SELECT current_tenants() AS current_tenants) @> ARRAY[tenant_id]));
create policy sweep on usage_event for all to fairlead_sweeper
  using (true)
  with check (true);
grant insert, select on usage_event to fairlead_app;
grant insert, select on usage_event to fairlead_sweeper;
grant update (input_tokens, output_tokens, cache_read_tokens, is_bad) on usage_event to fairlead_app;
grant update (input_tokens, output_tokens, cache_read_tokens, is_bad) on usage_event to fairlead_sweeper;

-- function agent_adopt_v1 of fairlead_sweeper
create function agent_adopt_v1(p_tenant uuid)
  returns integer
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  -- body of 1116 characters, md5 2f4a70276c919ec4d36641b89c8fbdf4;
grant execute on function agent_adopt_v1(p_tenant uuid) to fairlead_app;

-- function agent_announce_v1 of fairlead_sweeper
create function agent_announce_v1(p_pool uuid, p_kind text, p_offers json)
  returns TABLE(graph_id text, tenant_id uuid, outcome text)
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  -- body of 2577 characters, md5 b84843de0df4381e46bd59ccb1945ab1;
grant execute on function agent_announce_v1(p_pool uuid, p_kind text, p_offers json) to fairlead_app;

-- function api_key_find_v1 of fairlead_sweeper
create function api_key_find_v1(p_public_id text)
  returns TABLE(tenant_id uuid, id uuid, secret_hash bytea, previous_hash bytea, previous_expires_at timestamp with time zone, scopes text[], expires_at timestamp with time zone, revoked_at timestamp with time zone)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 250 characters, md5 c4102092b316d04696810ded2a95627e;
grant execute on function api_key_find_v1(p_public_id text) to fairlead_app;

-- function api_key_find_v2 of fairlead_sweeper
create function api_key_find_v2(p_public_id text)
  returns TABLE(tenant_id uuid, id uuid, secret_hash bytea, previous_hash bytea, previous_expires_at timestamp with time zone, scopes text[], expires_at timestamp with time zone, revoked_at timestamp with time zone, agent_ids uuid[], owner_kind text, owner_id uuid, owner_role text)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 709 characters, md5 fde5653c17630ee689decdb0aff3b858;
grant execute on function api_key_find_v2(p_public_id text) to fairlead_app;

-- function audit_append_v1 of fairlead_audit
create function audit_append_v1(p_tenants uuid[], p_ids uuid[], p_actor_kinds text[], p_actor_ids text[], p_actions text[], p_target_kinds text[], p_target_ids text[], p_outcomes text[], p_details text[])
  returns void
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2830 characters, md5 bb4aeb2d49b79b0280f0c33b990d930f;
grant execute on function audit_append_v1(p_tenants uuid[], p_ids uuid[], p_actor_kinds text[], p_actor_ids text[], p_actions text[], p_target_kinds text[], p_target_ids text[], p_outcomes text[], p_details text[]) to fairlead_app;

-- function audit_canonical_v1 of owner
create function audit_canonical_v1(p_value json)
  returns text
  language plpgsql immutable parallel safe
  -- body of 587 characters, md5 6fcc5c7fea6eb0217dab5e076d3224eb;
grant execute on function audit_canonical_v1(p_value json) to fairlead_app;

-- function audit_checkpoint_v1 of fairlead_audit
create function audit_checkpoint_v1(p_tenants text, p_ids uuid[], p_seqs bigint[], p_hashes bytea[], p_ats timestamp with time zone[], p_key_ids text[], p_signatures bytea[])
  returns integer
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 803 characters, md5 2296799c7c2b48081d8dba656305cfd4;
grant execute on function audit_checkpoint_v1(p_tenants text, p_ids uuid[], p_seqs bigint[], p_hashes bytea[], p_ats timestamp with time zone[], p_key_ids text[], p_signatures bytea[]) to fairlead_app;

-- function audit_event_insert_v1 of owner
create function audit_event_insert_v1()
  returns trigger
  language plpgsql volatile
  -- body of 260 characters, md5 6b58ed60ca1e488c77071ffcf4eaa5d2;
grant execute on function audit_event_insert_v1() to fairlead_app;

-- function audit_head_insert_v1 of fairlead_audit
create function audit_head_insert_v1()
  returns trigger
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 103 characters, md5 5b0a1fe56befcefeb2a4a9ba94d0642c;
grant execute on function audit_head_insert_v1() to fairlead_app;

-- function audit_record_v1 of owner
create function audit_record_v1(p_tenant uuid, p_id uuid, p_seq bigint, p_at timestamp with time zone, p_actor_kind text, p_actor_id text, p_action text, p_target_kind text, p_target_id text, p_outcome text, p_detail text, p_prev bytea)
  returns text
  language sql stable parallel safe
  -- body of 577 characters, md5 2d178782ed0baf5bddb3f41aa0e6c16a;
grant execute on function audit_record_v1(p_tenant uuid, p_id uuid, p_seq bigint, p_at timestamp with time zone, p_actor_kind text, p_actor_id text, p_action text, p_target_kind text, p_target_id text, p_outcome text, p_detail text, p_prev bytea) to fairlead_audit;

-- function budget_fold_v1 of owner
create function budget_fold_v1(p_tenant uuid, p_budget uuid, p_starts timestamp with time zone)
  returns void
  language sql volatile
  -- body of 459 characters, md5 2f48d551e33d3c1a24100b6ede5353f1;
grant execute on function budget_fold_v1(p_tenant uuid, p_budget uuid, p_starts timestamp with time zone) to fairlead_app;
grant execute on function budget_fold_v1(p_tenant uuid, p_budget uuid, p_starts timestamp with time zone) to fairlead_sweeper;

-- function budget_keep_v1 of owner
create function budget_keep_v1(p_tenants text, p_items json)
  returns void
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1177 characters, md5 87025d5aaab1e325c266f96890aea186;
grant execute on function budget_keep_v1(p_tenants text, p_items json) to fairlead_app;
grant execute on function budget_keep_v1(p_tenants text, p_items json) to fairlead_sweeper;

-- function budget_raise_v1 of owner
create function budget_raise_v1(p_tenant uuid, p_run uuid)
  returns text
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2392 characters, md5 015315343ab80a7597317d9b6314e07c;
grant execute on function budget_raise_v1(p_tenant uuid, p_run uuid) to fairlead_app;
grant execute on function budget_raise_v1(p_tenant uuid, p_run uuid) to fairlead_sweeper;

-- function budget_reserve_v1 of owner
create function budget_reserve_v1(p_tenants text, p_items json)
  returns integer[]
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3722 characters, md5 907c1a8197974fc15422f9958ee0d4b9;
grant execute on function budget_reserve_v1(p_tenants text, p_items json) to fairlead_app;
grant execute on function budget_reserve_v1(p_tenants text, p_items json) to fairlead_sweeper;

-- function budget_settle_v1 of owner
create function budget_settle_v1()
  returns trigger
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1041 characters, md5 74c63dec6799e4969ddf35dd3dba5250;
grant execute on function budget_settle_v1() to fairlead_app;
grant execute on function budget_settle_v1() to fairlead_sweeper;

-- function budget_state_v1 of owner
create function budget_state_v1(p_tenant uuid, p_budget uuid, p_starts timestamp with time zone)
  returns TABLE(posted bigint, held bigint, "position" bigint)
  language sql stable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 574 characters, md5 9d1bd3b5dbd1f3dd9f71f2111dc2d524;
grant execute on function budget_state_v1(p_tenant uuid, p_budget uuid, p_starts timestamp with time zone) to fairlead_app;
grant execute on function budget_state_v1(p_tenant uuid, p_budget uuid, p_starts timestamp with time zone) to fairlead_sweeper;

-- function budget_window_v1 of owner
create function budget_window_v1(p_period text, p_zone text, p_at timestamp with time zone)
  returns timestamp with time zone
  language sql stable
  -- body of 159 characters, md5 48b0c598c28ca0e167ddba77c9eef888;
grant execute on function budget_window_v1(p_period text, p_zone text, p_at timestamp with time zone) to fairlead_app;
grant execute on function budget_window_v1(p_period text, p_zone text, p_at timestamp with time zone) to fairlead_sweeper;

-- function credential_touch_v1 of fairlead_sweeper
create function credential_touch_v1(p_api_keys uuid[], p_runner_tokens uuid[])
  returns void
  language sql volatile security definer
  set search_path=public, pg_temp
  -- body of 415 characters, md5 22c23c936800ad76f4a438b3409a62dd;
grant execute on function credential_touch_v1(p_api_keys uuid[], p_runner_tokens uuid[]) to fairlead_app;

-- function current_tenants of owner
create function current_tenants()
  returns uuid[]
  language sql stable parallel safe
  -- body of 65 characters, md5 f1d7ec638bb89c833cbaaf2c76f1df8d;
grant execute on function current_tenants() to fairlead_app;
grant execute on function current_tenants() to fairlead_audit;
grant execute on function current_tenants() to fairlead_sweeper;

-- function halt_affects_v1 of owner
create function halt_affects_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text)
  returns TABLE(pending bigint, running bigint)
  language sql stable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1018 characters, md5 af6c9fd8e58cc8f383fc0d10f8099147;
grant execute on function halt_affects_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text) to fairlead_app;
grant execute on function halt_affects_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text) to fairlead_sweeper;

-- function halt_gate_v1 of owner
create function halt_gate_v1(p_tenants text)
  returns boolean
  language plpgsql volatile
  -- body of 304 characters, md5 a93f228e54c396aaeda3f450f9ff4108;
grant execute on function halt_gate_v1(p_tenants text) to fairlead_app;
grant execute on function halt_gate_v1(p_tenants text) to fairlead_sweeper;

-- function halt_key_v1 of owner
create function halt_key_v1(p_tenant uuid)
  returns bigint
  language sql immutable
  -- body of 44 characters, md5 bd07ccf53eceab7c994708fd7fd9d663;
grant execute on function halt_key_v1(p_tenant uuid) to fairlead_app;
grant execute on function halt_key_v1(p_tenant uuid) to fairlead_sweeper;

-- function halt_open_v1 of owner
create function halt_open_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text, p_limit integer)
  returns TABLE(run_id uuid, status text)
  language sql stable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 775 characters, md5 6fcbe31bc04ba36cafb70bab53c72f64;
grant execute on function halt_open_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text, p_limit integer) to fairlead_app;
grant execute on function halt_open_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text, p_limit integer) to fairlead_sweeper;

-- function halt_resume_v1 of owner
create function halt_resume_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text)
  returns void
  language sql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 231 characters, md5 88637828921575f0e54840d58b21f4af;
grant execute on function halt_resume_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text) to fairlead_app;
grant execute on function halt_resume_v1(p_tenant uuid, p_scope text, p_agent uuid, p_kind text) to fairlead_sweeper;

-- function member_find_v1 of fairlead_sweeper
create function member_find_v1(p_issuer text, p_subject text, p_email text)
  returns TABLE(tenant_id uuid, tenant_slug text, member_id uuid, status text)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 356 characters, md5 fef144f35afaed18a906ba851d76fab9;
grant execute on function member_find_v1(p_issuer text, p_subject text, p_email text) to fairlead_app;

-- function request_purge_v1 of fairlead_sweeper
create function request_purge_v1(p_run_ms bigint, p_create_ms bigint, p_rows integer)
  returns integer
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 869 characters, md5 b96146522b6ca56af537121cf47cde5a;

-- function run_append_items_v2 of owner
create function run_append_items_v2(p_items json)
  returns TABLE(ord integer, tenant_id uuid, run_id uuid, fence integer, pool_id uuid, kind text, first bigint, count integer)
  language plpgsql immutable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 314 characters, md5 d7f453868da6e64756084cf6dba464d6;
grant execute on function run_append_items_v2(p_items json) to fairlead_app;
grant execute on function run_append_items_v2(p_items json) to fairlead_sweeper;

-- function run_append_v1 of owner
create function run_append_v1(p_tenants text, p_items json, p_seg_item integer[], p_seg_count integer[], p_seg_delta boolean[], p_seg_body bytea[], p_lease_ms integer, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json)
  returns TABLE(ord integer, verdict text, stored bigint, first_seq bigint, base_seq bigint, cancel text)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3228 characters, md5 80559841f3735bccdf5a561f15ace7f3;
grant execute on function run_append_v1(p_tenants text, p_items json, p_seg_item integer[], p_seg_count integer[], p_seg_delta boolean[], p_seg_body bytea[], p_lease_ms integer, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json) to fairlead_app;
grant execute on function run_append_v1(p_tenants text, p_items json, p_seg_item integer[], p_seg_count integer[], p_seg_delta boolean[], p_seg_body bytea[], p_lease_ms integer, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json) to fairlead_sweeper;

-- function run_append_v2 of owner
create function run_append_v2(p_tenants text, p_items json, p_seg_item integer[], p_seg_count integer[], p_seg_delta boolean[], p_seg_at integer[], p_seg_bytes integer[], p_lease_ms integer, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea)
  returns TABLE(ord integer, verdict text, stored bigint, first_seq bigint, base_seq bigint, cancel text)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2994 characters, md5 c7b3fa748ae4100cb4f0aa8b708c339f;
grant execute on function run_append_v2(p_tenants text, p_items json, p_seg_item integer[], p_seg_count integer[], p_seg_delta boolean[], p_seg_at integer[], p_seg_bytes integer[], p_lease_ms integer, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea) to fairlead_app;
grant execute on function run_append_v2(p_tenants text, p_items json, p_seg_item integer[], p_seg_count integer[], p_seg_delta boolean[], p_seg_at integer[], p_seg_bytes integer[], p_lease_ms integer, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea) to fairlead_sweeper;

-- function run_cancel_budget_v1 of owner
create function run_cancel_budget_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 653 characters, md5 b72a63305b939ba7fd5913b94136f0af;
grant execute on function run_cancel_budget_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer) to fairlead_app;
grant execute on function run_cancel_budget_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer) to fairlead_sweeper;

-- function run_cancel_halted_v1 of owner
create function run_cancel_halted_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 829 characters, md5 2d14d43ba5af15b8fb8eff08a144ad51;
grant execute on function run_cancel_halted_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer) to fairlead_app;
grant execute on function run_cancel_halted_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer) to fairlead_sweeper;

-- function run_cancel_v1 of owner
create function run_cancel_v1(p_tenant uuid, p_run uuid, p_action text, p_force_fence integer, p_end bytea, p_end_count integer)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1657 characters, md5 e8562c796a7a88c76263effcef1ea5f9;
grant execute on function run_cancel_v1(p_tenant uuid, p_run uuid, p_action text, p_force_fence integer, p_end bytea, p_end_count integer) to fairlead_app;
grant execute on function run_cancel_v1(p_tenant uuid, p_run uuid, p_action text, p_force_fence integer, p_end bytea, p_end_count integer) to fairlead_sweeper;

-- function run_candidates_v1 of fairlead_sweeper
create function run_candidates_v1(p_pool uuid, p_kind text, p_graphs text[], p_limit integer, p_window integer)
  returns TABLE(tenant_id uuid, run_id uuid, graph_id text)
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2489 characters, md5 9bcda4316cd0f247558bc2c782e91dda;
grant execute on function run_candidates_v1(p_pool uuid, p_kind text, p_graphs text[], p_limit integer, p_window integer) to fairlead_app;

-- function run_candidates_v2 of fairlead_sweeper
create function run_candidates_v2(p_pool uuid, p_kind text, p_graphs text[], p_limit integer, p_window integer)
  returns TABLE(tenant_id uuid, run_id uuid, graph_id text)
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2982 characters, md5 7905f4ea92b5cd29cb036c4650d536de;
grant execute on function run_candidates_v2(p_pool uuid, p_kind text, p_graphs text[], p_limit integer, p_window integer) to fairlead_app;

-- function run_claim_next_v1 of owner
create function run_claim_next_v1(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit integer, p_window integer, p_offer_ms integer)
  returns SETOF run_claimed
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 481 characters, md5 56a3bc269ceeb42ea6c0b71d56516bfb;
grant execute on function run_claim_next_v1(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit integer, p_window integer, p_offer_ms integer) to fairlead_app;
grant execute on function run_claim_next_v1(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit integer, p_window integer, p_offer_ms integer) to fairlead_sweeper;

-- function run_claim_next_v2 of owner
create function run_claim_next_v2(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit integer, p_window integer, p_offer_ms integer)
  returns SETOF run_claimed
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 481 characters, md5 8b3d52c267dd7002f3c9f43d24f74ef0;
grant execute on function run_claim_next_v2(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit integer, p_window integer, p_offer_ms integer) to fairlead_app;
grant execute on function run_claim_next_v2(p_pool uuid, p_kind text, p_graphs text[], p_runner uuid, p_limit integer, p_window integer, p_offer_ms integer) to fairlead_sweeper;

-- function run_claim_v1 of owner
create function run_claim_v1(p_tenants text, p_items json, p_offer_ms integer)
  returns SETOF run_claimed
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3135 characters, md5 c58634726f5dafa8c68933f3428db0f4;
grant execute on function run_claim_v1(p_tenants text, p_items json, p_offer_ms integer) to fairlead_app;
grant execute on function run_claim_v1(p_tenants text, p_items json, p_offer_ms integer) to fairlead_sweeper;

-- function run_claim_v2 of owner
create function run_claim_v2(p_tenants text, p_items json, p_offer_ms integer)
  returns SETOF run_claimed
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3271 characters, md5 da957ead5f0340d8a26e536a65c60ca4;
grant execute on function run_claim_v2(p_tenants text, p_items json, p_offer_ms integer) to fairlead_app;
grant execute on function run_claim_v2(p_tenants text, p_items json, p_offer_ms integer) to fairlead_sweeper;

-- function run_create_claim_v1 of owner
create function run_create_claim_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_claims json, p_offer_ms integer)
  returns TABLE(created run_created, claimed run_claimed)
  language plpgsql volatile
  -- body of 866 characters, md5 c07567ec42c737e758dad07fcd3898f8;
grant execute on function run_create_claim_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_claims json, p_offer_ms integer) to fairlead_app;
grant execute on function run_create_claim_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_claims json, p_offer_ms integer) to fairlead_sweeper;

-- function run_create_claim_v2 of owner
create function run_create_claim_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_claims json, p_offer_ms integer)
  returns TABLE(created run_created, claimed run_claimed)
  language plpgsql volatile
  -- body of 877 characters, md5 08f39009bb9bc915399a03f9aaccd142;
grant execute on function run_create_claim_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_claims json, p_offer_ms integer) to fairlead_app;
grant execute on function run_create_claim_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_claims json, p_offer_ms integer) to fairlead_sweeper;

-- function run_create_claim_v3 of owner
create function run_create_claim_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_claims json, p_offer_ms integer)
  returns TABLE(created run_created, claimed run_claimed)
  language plpgsql volatile
  -- body of 877 characters, md5 42c59e9a0eef395d30b9116ae103d32c;
grant execute on function run_create_claim_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_claims json, p_offer_ms integer) to fairlead_app;
grant execute on function run_create_claim_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_claims json, p_offer_ms integer) to fairlead_sweeper;

-- function run_create_items_v1 of owner
create function run_create_items_v1(p_items json)
  returns TABLE(ord integer, tenant_id uuid, run_id uuid, run_id_chosen boolean, thread_id uuid, thread_mode text, thread_metadata json, agent_id uuid, graph_id text, pool_id uuid, kind text, purpose text, strategy text, resume text, resume_ids text[], max_attempts integer, recovery text, queue_timeout_ms bigint, run_timeout_ms bigint, due_ms bigint, metadata json, stream_modes text[], stream_subgraphs boolean, stream_resumable boolean, interrupt_before text[], interrupt_after text[], on_disconnect text, delete_thread boolean, from_checkpoint_id text, credential_id uuid, request_hash bytea, idempotency_key text, traceparent text)
  language plpgsql immutable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1289 characters, md5 21e196e34b8b4a1f91ec6112d7356548;
grant execute on function run_create_items_v1(p_items json) to fairlead_app;
grant execute on function run_create_items_v1(p_items json) to fairlead_sweeper;

-- function run_create_v1 of owner
create function run_create_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer)
  returns TABLE(ord integer, verdict text, run_id uuid, is_head boolean, is_admitted boolean, base_seq bigint, created timestamp with time zone, open_interrupts text[], blocking_run uuid)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 7609 characters, md5 281234196f0d4a69170c39b10e3c146c;
grant execute on function run_create_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer) to fairlead_app;
grant execute on function run_create_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer) to fairlead_sweeper;

-- function run_create_v2 of owner
create function run_create_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_refused integer[] DEFAULT NULL::integer[])
  returns TABLE(ord integer, verdict text, run_id uuid, is_head boolean, is_admitted boolean, base_seq bigint, created timestamp with time zone, open_interrupts text[], blocking_run uuid)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 8088 characters, md5 d5461fa9bfd91332c6490955b264b8f1;
grant execute on function run_create_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_refused integer[]) to fairlead_app;
grant execute on function run_create_v2(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean, p_refused integer[]) to fairlead_sweeper;

-- function run_create_v3 of owner
create function run_create_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean)
  returns TABLE(ord integer, verdict text, run_id uuid, is_head boolean, is_admitted boolean, base_seq bigint, created timestamp with time zone, open_interrupts text[], blocking_run uuid)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 411 characters, md5 da52d4b46c0ab990f7f06d959c4e2055;
grant execute on function run_create_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean) to fairlead_app;
grant execute on function run_create_v3(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[], p_window integer, p_threads boolean) to fairlead_sweeper;

-- function run_cut_leases_v1 of owner
create function run_cut_leases_v1(p_items json, p_ms integer)
  returns integer
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 836 characters, md5 f9e563b5c3617067856dc4b6acd67b2d;
grant execute on function run_cut_leases_v1(p_items json, p_ms integer) to fairlead_app;
grant execute on function run_cut_leases_v1(p_items json, p_ms integer) to fairlead_sweeper;

-- function run_end of owner
create function run_end(p_tenant uuid, p_run uuid, p_status text, p_reason text, p_error json, p_end bytea, p_end_count integer)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2693 characters, md5 ed8218e396f9bae90a3c2b77d30888e0;
grant execute on function run_end(p_tenant uuid, p_run uuid, p_status text, p_reason text, p_error json, p_end bytea, p_end_count integer) to fairlead_app;
grant execute on function run_end(p_tenant uuid, p_run uuid, p_status text, p_reason text, p_error json, p_end bytea, p_end_count integer) to fairlead_sweeper;

-- function run_expire_v1 of owner
create function run_expire_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer, p_status text, p_reason text, p_error json)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 734 characters, md5 7f7c67b35290a9495572a7c74856378f;
grant execute on function run_expire_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer, p_status text, p_reason text, p_error json) to fairlead_app;
grant execute on function run_expire_v1(p_tenant uuid, p_run uuid, p_end bytea, p_end_count integer, p_status text, p_reason text, p_error json) to fairlead_sweeper;

-- function run_extras_v1 of owner
create function run_extras_v1(p_item integer, p_tenant uuid, p_run uuid, p_thread uuid, p_attempt integer, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json)
  returns void
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3065 characters, md5 b457967a0fa93c2655dfc7d05d09dba2;
grant execute on function run_extras_v1(p_item integer, p_tenant uuid, p_run uuid, p_thread uuid, p_attempt integer, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json) to fairlead_app;
grant execute on function run_extras_v1(p_item integer, p_tenant uuid, p_run uuid, p_thread uuid, p_attempt integer, p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json) to fairlead_sweeper;

-- function run_extras_v2 of owner
create function run_extras_v2(p_open boolean[], p_tenant uuid[], p_run uuid[], p_thread uuid[], p_attempt integer[], p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea)
  returns void
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3406 characters, md5 b4a98d6ef5a5e87ecf017a69ca01859f;
grant execute on function run_extras_v2(p_open boolean[], p_tenant uuid[], p_run uuid[], p_thread uuid[], p_attempt integer[], p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea) to fairlead_app;
grant execute on function run_extras_v2(p_open boolean[], p_tenant uuid[], p_run uuid[], p_thread uuid[], p_attempt integer[], p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea) to fairlead_sweeper;

-- function run_fail_v1 of owner
create function run_fail_v1(p_tenant uuid, p_run uuid, p_fence integer, p_pool uuid, p_kind text, p_reason text, p_error json, p_end bytea, p_end_count integer)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 639 characters, md5 80ee1a313524c21b935f79ec834f07b1;
grant execute on function run_fail_v1(p_tenant uuid, p_run uuid, p_fence integer, p_pool uuid, p_kind text, p_reason text, p_error json, p_end bytea, p_end_count integer) to fairlead_app;
grant execute on function run_fail_v1(p_tenant uuid, p_run uuid, p_fence integer, p_pool uuid, p_kind text, p_reason text, p_error json, p_end bytea, p_end_count integer) to fairlead_sweeper;

-- function run_finish_items_v2 of owner
create function run_finish_items_v2(p_items json)
  returns SETOF run_finish_item
  language plpgsql immutable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 678 characters, md5 4e40a79b1b67b5758fe42570ebfa194e;
grant execute on function run_finish_items_v2(p_items json) to fairlead_app;
grant execute on function run_finish_items_v2(p_items json) to fairlead_sweeper;

-- function run_finish_rows_v2 of owner
create function run_finish_rows_v2(p_items run_finish_item[])
  returns SETOF run_finish_item
  language plpgsql immutable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 57 characters, md5 90d49d3e0bd325dcfccbf95bba67470a;
grant execute on function run_finish_rows_v2(p_items run_finish_item[]) to fairlead_app;
grant execute on function run_finish_rows_v2(p_items run_finish_item[]) to fairlead_sweeper;

-- function run_finish_v1 of owner
create function run_finish_v1(p_tenants text, p_items json, p_tail bytea[], p_end bytea[], p_values bytea[], p_interrupts bytea[], p_interrupt_values bytea[], p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json)
  returns TABLE(ord integer, verdict text, stored_status text, stored_reason text, source bigint, first_seq bigint, base_seq bigint, next_run uuid, next_pool uuid, next_kind text, next_graph text, next_admitted boolean)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 7256 characters, md5 c7bc0a33ecbf613957755a44a118fe5a;
grant execute on function run_finish_v1(p_tenants text, p_items json, p_tail bytea[], p_end bytea[], p_values bytea[], p_interrupts bytea[], p_interrupt_values bytea[], p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json) to fairlead_app;
grant execute on function run_finish_v1(p_tenants text, p_items json, p_tail bytea[], p_end bytea[], p_values bytea[], p_interrupts bytea[], p_interrupt_values bytea[], p_checkpoints json, p_head bytea[], p_meta bytea[], p_view bytea[], p_writes json, p_write_data bytea[], p_blobs json, p_blob_data bytea[], p_steps json) to fairlead_sweeper;

-- function run_finish_v2 of owner
create function run_finish_v2(p_tenants text, p_items json, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea)
  returns TABLE(ord integer, verdict text, stored_status text, stored_reason text, source bigint, first_seq bigint, base_seq bigint, next_run uuid, next_pool uuid, next_kind text, next_graph text, next_admitted boolean)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 8305 characters, md5 720044cb224f97af988a775d1eabff92;
grant execute on function run_finish_v2(p_tenants text, p_items json, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea) to fairlead_app;
grant execute on function run_finish_v2(p_tenants text, p_items json, p_checkpoints json, p_writes json, p_blobs json, p_steps json, p_data bytea) to fairlead_sweeper;

-- function run_halted_v1 of owner
create function run_halted_v1(p_tenant uuid, p_agent uuid, p_kind text, p_mode text DEFAULT NULL::text)
  returns boolean
  language sql stable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 309 characters, md5 4c1b6c21c0c4f45c65ad819509499a89;
grant execute on function run_halted_v1(p_tenant uuid, p_agent uuid, p_kind text, p_mode text) to fairlead_app;
grant execute on function run_halted_v1(p_tenant uuid, p_agent uuid, p_kind text, p_mode text) to fairlead_sweeper;

-- function run_heads_v1 of owner
create function run_heads_v1(p_tenants uuid[], p_runs uuid[])
  returns TABLE(ord integer, last_seq bigint, status text, deleted boolean, thread_base bigint)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 311 characters, md5 0d69c0ab9c562c620877995b16d7b90d;
grant execute on function run_heads_v1(p_tenants uuid[], p_runs uuid[]) to fairlead_app;
grant execute on function run_heads_v1(p_tenants uuid[], p_runs uuid[]) to fairlead_sweeper;

-- function run_held_items_v1 of owner
create function run_held_items_v1(p_items json)
  returns TABLE(ord integer, tenant_id uuid, run_id uuid, thread_id uuid, fence integer, pool_id uuid, kind text, runner_id uuid, purpose text, first bigint, count integer, total bigint, tail_first bigint, tail_count integer, end_count integer, status text, reason text, error json, next text[], interrupts json)
  language plpgsql immutable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 642 characters, md5 6f0ded50127b7480961e671ee11ce0ba;
grant execute on function run_held_items_v1(p_items json) to fairlead_app;
grant execute on function run_held_items_v1(p_items json) to fairlead_sweeper;

-- function run_open_cancels_v1 of fairlead_sweeper
create function run_open_cancels_v1(p_pool uuid, p_kind text, p_runner uuid)
  returns TABLE(tenant_id uuid, run_id uuid, fence integer)
  language sql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 187 characters, md5 bbc79da54167070af1e854399106c3db;
grant execute on function run_open_cancels_v1(p_pool uuid, p_kind text, p_runner uuid) to fairlead_app;

-- function run_purge_v1 of fairlead_sweeper
create function run_purge_v1(p_ms bigint, p_rows integer)
  returns integer
  language plpgsql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3635 characters, md5 72c1df13d8d95bea9a5ec5e7b16db14d;

-- function run_queues_v1 of fairlead_sweeper
create function run_queues_v1(p_pools uuid[], p_kinds text[], p_graphs text[])
  returns TABLE(pool_id uuid, kind text, graph_id text)
  language sql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 522 characters, md5 87b0e3a1c03880f57f2ad9a5d6c9416f;

-- function run_read_v1 of owner
create function run_read_v1(p_tenant uuid, p_run uuid, p_after bigint, p_bytes integer)
  returns TABLE(first_seq bigint, count integer, body bytea)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1682 characters, md5 945d131960e1bfcf049e7f6b88be3fff;
grant execute on function run_read_v1(p_tenant uuid, p_run uuid, p_after bigint, p_bytes integer) to fairlead_app;
grant execute on function run_read_v1(p_tenant uuid, p_run uuid, p_after bigint, p_bytes integer) to fairlead_sweeper;

-- function run_relay_v1 of fairlead_sweeper
create function run_relay_v1(p_limit integer)
  returns TABLE(tenant_id uuid, run_id uuid, pool_id uuid, kind text, graph_id text, dispatch_no integer)
  language sql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 528 characters, md5 df65abe18129d76025ba300bacb24bbc;

-- function run_renew_v1 of owner
create function run_renew_v1(p_tenants text, p_items json, p_lease_ms integer)
  returns TABLE(ord integer, alive boolean, cancel text)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1138 characters, md5 f5a22fa8afc81e35de301526fd96e18a;
grant execute on function run_renew_v1(p_tenants text, p_items json, p_lease_ms integer) to fairlead_app;
grant execute on function run_renew_v1(p_tenants text, p_items json, p_lease_ms integer) to fairlead_sweeper;

-- function run_sweep_queue_v1 of fairlead_sweeper
create function run_sweep_queue_v1(p_limit integer)
  returns TABLE(tenant_id uuid, run_id uuid, thread_id uuid)
  language sql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 357 characters, md5 9df01d68ace8c5e76504bc1a4143f8eb;

-- function run_sweep_v1 of fairlead_sweeper
create function run_sweep_v1(p_limit integer, p_grace_ms integer)
  returns TABLE(what text, tenant_id uuid, run_id uuid, thread_id uuid, fence integer, attempt integer, recovery text, cancel_action text)
  language sql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 694 characters, md5 54c75a3d2167ad9660dc8222bb923e73;

-- function run_sweep_v2 of fairlead_sweeper
create function run_sweep_v2(p_limit integer, p_grace_ms integer)
  returns TABLE(what text, tenant_id uuid, run_id uuid, thread_id uuid, fence integer, attempt integer, recovery text, cancel_action text)
  language sql volatile security definer
  set search_path=public, pg_temp
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 454 characters, md5 e544171146f44f3406870f63186234d0;

-- function run_take_back_v1 of owner
create function run_take_back_v1(p_tenant uuid, p_run uuid, p_fence integer, p_pool uuid, p_kind text, p_cause text, p_max_handbacks integer, p_again bytea, p_again_count integer, p_end bytea, p_end_count integer, p_end_status text, p_end_reason text, p_end_error json, p_cancel_end bytea, p_cancel_end_count integer)
  returns run_moved
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 2694 characters, md5 8fbe306a5fccdc59dc90e8a05c495e53;
grant execute on function run_take_back_v1(p_tenant uuid, p_run uuid, p_fence integer, p_pool uuid, p_kind text, p_cause text, p_max_handbacks integer, p_again bytea, p_again_count integer, p_end bytea, p_end_count integer, p_end_status text, p_end_reason text, p_end_error json, p_cancel_end bytea, p_cancel_end_count integer) to fairlead_app;
grant execute on function run_take_back_v1(p_tenant uuid, p_run uuid, p_fence integer, p_pool uuid, p_kind text, p_cause text, p_max_handbacks integer, p_again bytea, p_again_count integer, p_end bytea, p_end_count integer, p_end_status text, p_end_reason text, p_end_error json, p_cancel_end bytea, p_cancel_end_count integer) to fairlead_sweeper;

-- function run_undo of owner
create function run_undo(p_tenant uuid, p_run uuid)
  returns void
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1099 characters, md5 78f8fd196a52ebe64a152ec793b02c15;
grant execute on function run_undo(p_tenant uuid, p_run uuid) to fairlead_app;
grant execute on function run_undo(p_tenant uuid, p_run uuid) to fairlead_sweeper;

-- function run_used_v1 of owner
create function run_used_v1(p_tenant uuid, p_run uuid)
  returns TABLE(tokens bigint, nano bigint, is_bad boolean, unpriced boolean)
  language sql stable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 741 characters, md5 82d281442741c1fe0da0487fe953aae2;
grant execute on function run_used_v1(p_tenant uuid, p_run uuid) to fairlead_app;
grant execute on function run_used_v1(p_tenant uuid, p_run uuid) to fairlead_sweeper;

-- function runner_token_find_v1 of fairlead_sweeper
create function runner_token_find_v1(p_public_id text)
  returns TABLE(tenant_id uuid, id uuid, kind text, secret_hash bytea, previous_hash bytea, previous_expires_at timestamp with time zone, expires_at timestamp with time zone, revoked_at timestamp with time zone)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 171 characters, md5 9e87f32e859b0533cd5e6b6d3a490bbd;
grant execute on function runner_token_find_v1(p_public_id text) to fairlead_app;

-- function session_find_v1 of fairlead_sweeper
create function session_find_v1(p_public_id text)
  returns TABLE(tenant_id uuid, id uuid, member_id uuid, secret_hash bytea, expires_at timestamp with time zone, last_used_at timestamp with time zone, ended_at timestamp with time zone, role text)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 262 characters, md5 e9014ef548e4d1575063758dc4c820da;
grant execute on function session_find_v1(p_public_id text) to fairlead_app;

-- function session_touch_v1 of fairlead_sweeper
create function session_touch_v1(p_ids uuid[])
  returns void
  language sql volatile security definer
  set search_path=public, pg_temp
  -- body of 105 characters, md5 ea2d3a29691aca97b4a6ce40056f41ae;
grant execute on function session_touch_v1(p_ids uuid[]) to fairlead_app;

-- function set_tenants of owner
create function set_tenants(p_tenants uuid[])
  returns void
  language sql volatile
  -- body of 103 characters, md5 af5cab6b15b55b89834e77539f0aa833;
grant execute on function set_tenants(p_tenants uuid[]) to fairlead_app;
grant execute on function set_tenants(p_tenants uuid[]) to fairlead_sweeper;

-- function tenant_find_v1 of fairlead_sweeper
create function tenant_find_v1(p_name text)
  returns TABLE(id uuid, slug text, name text, weight integer, created_at timestamp with time zone)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 128 characters, md5 ce93baaee9af09a3cca69012885e5d6a;
grant execute on function tenant_find_v1(p_name text) to fairlead_app;

-- function tenant_list_v1 of fairlead_sweeper
create function tenant_list_v1(p_after text, p_limit integer)
  returns TABLE(id uuid, slug text, name text, weight integer, created_at timestamp with time zone)
  language sql stable security definer
  set search_path=public, pg_temp
  -- body of 136 characters, md5 6508acae061055854c5beacc848ea00e;
grant execute on function tenant_list_v1(p_after text, p_limit integer) to fairlead_app;

-- function tool_ask_items_v1 of owner
create function tool_ask_items_v1(p_items json)
  returns TABLE(ord integer, tenant_id uuid, run_id uuid, fence integer, pool_id uuid, kind text, tool text)
  language plpgsql immutable
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 290 characters, md5 a2d614b699bb00b72b371571056722b1;
grant execute on function tool_ask_items_v1(p_items json) to fairlead_app;

-- function tool_ask_v1 of owner
create function tool_ask_v1(p_tenants text, p_items json)
  returns TABLE(ord integer, agent_id uuid, graph_id text, "user" text, pinned bytea, policy_number integer, version_id uuid, halted boolean)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 982 characters, md5 dc66c268ea3eacc3f7ef033be593696d;
grant execute on function tool_ask_v1(p_tenants text, p_items json) to fairlead_app;

-- function tool_decide_v1 of owner
create function tool_decide_v1(p_tenants text, p_items json)
  returns TABLE(ord integer, outcome text, id uuid, allowed boolean, reason text)
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 3264 characters, md5 223e5b7b47ae98422b46f8813081c719;
grant execute on function tool_decide_v1(p_tenants text, p_items json) to fairlead_app;

-- function usage_note_v1 of owner
create function usage_note_v1()
  returns trigger
  language plpgsql volatile
  set enable_seqscan=off
  set enable_hashjoin=off
  set enable_mergejoin=off
  set plan_cache_mode=force_generic_plan
  set jit=off
  -- body of 1588 characters, md5 e23fad0ff3614ffb07a1e9add7b8d631;
grant execute on function usage_note_v1() to fairlead_app;
grant execute on function usage_note_v1() to fairlead_sweeper;
