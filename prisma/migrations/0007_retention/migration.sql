-- What is kept for a while and then goes: the contents of what was deleted, and the keys under which requests may be repeated. Rows of runs and threads
-- stay, for the ledger and the audit.

-- When the contents of a deleted run, or of a run that went with its thread, were removed.
alter table run add column purged_at timestamptz;
create index run_unpurged on run ((greatest(ended_at, deleted_at)))
  where purged_at is null and ended_at is not null and (deleted_at is not null or delete_thread);
create index idempotency_key_by_age on idempotency_key (created_at);
create index create_request_by_age on create_request (created_at);

-- The sweeper removes and never reads: of what clients and runners wrote it sees the keys alone.
do $$
declare t text;
begin
  foreach t in array array['thread', 'run_event', 'run_delta', 'step', 'checkpoint', 'checkpoint_write', 'interrupt', 'create_request'] loop
    execute format('create policy sweep on %I to fairlead_sweeper using (true)', t);
  end loop;
end $$;
grant select (tenant_id, id, deleted_at, temporary) on thread to fairlead_sweeper;
grant update (metadata, values, values_run_id, interrupts) on thread to fairlead_sweeper;
grant update (purged_at, input, command, config, context, metadata, state_update, values) on run to fairlead_sweeper;
grant select (tenant_id, run_id, first_seq), delete on run_event to fairlead_sweeper;
grant select (tenant_id, run_id, first_seq, created_at), delete on run_delta to fairlead_sweeper;
grant select (tenant_id, run_id, id), delete on step to fairlead_sweeper;
grant select (tenant_id, thread_id, namespace, id), delete on checkpoint to fairlead_sweeper;
grant select (tenant_id, thread_id, namespace, checkpoint_id, task_id, idx), delete on checkpoint_write to fairlead_sweeper;
grant select (tenant_id, thread_id, id, run_id), delete on interrupt to fairlead_sweeper;
grant select (tenant_id, credential_id, key, created_at), delete on idempotency_key to fairlead_sweeper;
grant select (tenant_id, actor_id, operation, key, created_at), delete on create_request to fairlead_sweeper;

-- Removes contents that were deleted more than p_ms ago, at most p_rows rows of them, and says how many there were: as many mean that there may be
-- more. The rows of one run may take several calls; the run is marked when nothing is left of it. Nobody is waited for: what somebody holds is skipped,
-- and runs that have ended are held by no one on the path of a run.
create function run_purge_v1(p_ms bigint, p_rows int) returns int
language plpgsql security definer set search_path = public, pg_temp as $$
declare r record; v_left int := p_rows; n int;
begin
  -- One of all sweeps is enough.
  if not pg_try_advisory_xact_lock(hashtextextended('run_purge', 0)) then return 0; end if;
  for r in
    select x.tenant_id, x.id, x.thread_id, x.deleted_at is not null as was_deleted, t.deleted_at is not null as thread_gone, t.temporary
    from run x join thread t on t.tenant_id = x.tenant_id and t.id = x.thread_id
    where x.purged_at is null and x.ended_at is not null and (x.deleted_at is not null or x.delete_thread)
      and greatest(x.ended_at, x.deleted_at) < clock_timestamp() - p_ms * interval '1 ms' and x.status not in ('pending', 'running')
    order by greatest(x.ended_at, x.deleted_at) limit p_rows for update of x skip locked
  loop
    delete from run_event e using (select d.first_seq from run_event d where d.tenant_id = r.tenant_id and d.run_id = r.id order by d.first_seq limit v_left) o
      where e.tenant_id = r.tenant_id and e.run_id = r.id and e.first_seq = o.first_seq;
    get diagnostics n = row_count; v_left := v_left - n;
    delete from run_delta e using (select d.first_seq from run_delta d where d.tenant_id = r.tenant_id and d.run_id = r.id order by d.first_seq limit v_left) o
      where e.tenant_id = r.tenant_id and e.run_id = r.id and e.first_seq = o.first_seq;
    get diagnostics n = row_count; v_left := v_left - n;
    delete from step e using (select d.id from step d where d.tenant_id = r.tenant_id and d.run_id = r.id order by d.id limit v_left) o
      where e.tenant_id = r.tenant_id and e.run_id = r.id and e.id = o.id;
    get diagnostics n = row_count; v_left := v_left - n;
    if r.thread_gone then
      delete from checkpoint_write e using (select d.namespace, d.checkpoint_id, d.task_id, d.idx from checkpoint_write d
          where d.tenant_id = r.tenant_id and d.thread_id = r.thread_id order by d.namespace, d.checkpoint_id, d.task_id, d.idx limit v_left) o
        where e.tenant_id = r.tenant_id and e.thread_id = r.thread_id and e.namespace = o.namespace and e.checkpoint_id = o.checkpoint_id
          and e.task_id = o.task_id and e.idx = o.idx;
      get diagnostics n = row_count; v_left := v_left - n;
      delete from checkpoint e using (select d.namespace, d.id from checkpoint d where d.tenant_id = r.tenant_id and d.thread_id = r.thread_id
          order by d.namespace, d.id limit v_left) o
        where e.tenant_id = r.tenant_id and e.thread_id = r.thread_id and e.namespace = o.namespace and e.id = o.id;
      get diagnostics n = row_count; v_left := v_left - n;
      delete from interrupt e using (select d.id, d.run_id from interrupt d where d.tenant_id = r.tenant_id and d.thread_id = r.thread_id
          order by d.id, d.run_id limit v_left) o
        where e.tenant_id = r.tenant_id and e.thread_id = r.thread_id and e.id = o.id and e.run_id = o.run_id;
      get diagnostics n = row_count; v_left := v_left - n;
    end if;
    -- With room left, all of it is gone.
    exit when v_left <= 0;
    v_left := v_left - 1;
    -- The portable state of a thread that lives on may be the values of a run that was deleted.
    update run x set purged_at = clock_timestamp(), input = null, command = null, config = null, context = null, metadata = '{}', state_update = null,
      values = case when r.thread_gone then null else x.values end
      where x.tenant_id = r.tenant_id and x.id = r.id;
    if r.temporary then
      update thread t set metadata = '{}', values = null, values_run_id = null, interrupts = null where t.tenant_id = r.tenant_id and t.id = r.thread_id;
    end if;
    exit when v_left <= 0;
  end loop;
  return p_rows - v_left;
end $$;

-- Forgets requests that nobody repeats any more, at most p_rows of each kind.
create function request_purge_v1(p_run_ms bigint, p_create_ms bigint, p_rows int) returns int
language plpgsql security definer set search_path = public, pg_temp as $$
declare n int; m int;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('request_purge', 0)) then return 0; end if;
  delete from idempotency_key k using (select d.tenant_id, d.credential_id, d.key from idempotency_key d
      where d.created_at < clock_timestamp() - p_run_ms * interval '1 ms' order by d.created_at limit p_rows) o
    where k.tenant_id = o.tenant_id and k.credential_id = o.credential_id and k.key = o.key;
  get diagnostics n = row_count;
  delete from create_request k using (select d.tenant_id, d.actor_id, d.operation, d.key from create_request d
      where d.created_at < clock_timestamp() - p_create_ms * interval '1 ms' order by d.created_at limit p_rows) o
    where k.tenant_id = o.tenant_id and k.actor_id = o.actor_id and k.operation = o.operation and k.key = o.key;
  get diagnostics m = row_count;
  return greatest(n, m);
end $$;

do $$
declare f regprocedure;
begin
  foreach f in array array['run_purge_v1(bigint, int)', 'request_purge_v1(bigint, bigint, int)']::regprocedure[] loop
    execute format('revoke all on function %s from public', f);
    execute format('grant execute on function %s to fairlead_sweeper', f);
    execute format('alter function %s set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan set jit = off', f);
    execute format('alter function %s owner to fairlead_sweeper', f);
  end loop;
end $$;
