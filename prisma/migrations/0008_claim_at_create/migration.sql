-- A run that is created while a runner waits for it in the same process is offered to that runner in the transaction that creates it: one statement, one
-- flush and one round trip less. The claim function still decides; what it refuses stays pending, and is woken like every other run.

create type run_created as (
  ord int, verdict text, run_id uuid, is_head boolean, is_admitted boolean, created timestamptz, open_interrupts text[], blocking_run uuid
);

-- `p_claims`: items of run_claim_v1 for the runs that have a taker, each with the `ord` of its run in `p_items`. Answers with a row for each item, then
-- with a row for each run that was claimed.
create function run_create_claim_v1(p_tenants text, p_items json, p_input bytea[], p_command bytea[], p_config bytea[], p_context bytea[], p_state_update bytea[],
  p_window int, p_claims json, p_offer_ms int)
returns table (created run_created, claimed run_claimed)
language plpgsql as $$
#variable_conflict use_column
declare v_created run_created[]; v_claims json;
begin
  select array_agg(row(c.ord, c.verdict, c.run_id, c.is_head, c.is_admitted, c.created, c.open_interrupts, c.blocking_run)::run_created order by c.ord) into v_created
    from run_create_v1(p_tenants, p_items, p_input, p_command, p_config, p_context, p_state_update, p_window) c;
  return query select c, null::run_claimed from unnest(v_created) c;

  -- A run beyond its tenant's window waits for its turn, whoever is free.
  select json_agg(x.claim) into v_claims from json_array_elements(p_claims) as x (claim)
    where (v_created[(x.claim ->> 'ord')::int]).verdict = 'created' and (v_created[(x.claim ->> 'ord')::int]).is_admitted;
  if v_claims is not null then
    return query select null::run_created, k from run_claim_v1(p_tenants, v_claims, p_offer_ms) k;
  end if;
end $$;

revoke all on function run_create_claim_v1 from public;
grant execute on function run_create_claim_v1 to fairlead_app, fairlead_sweeper;
