// BullMQ's own PostgreSQL backend keeps its tables in the schema `bullmq`. Its migrations run here, as admin; at run time the queue role owns
// nothing, connects with `migrate: false`, and may only read and write rows.
//
// BullMQ makes a sequence for each queue when the queue's first job arrives, which would take the right to create objects. All queues draw
// their ids from one sequence instead, made here: the only function that names the sequence is replaced after BullMQ's migrations. Ids of
// generated jobs then have gaps within a queue; ours are chosen by the plane anyway. `obliterate` drops the sequence and stays refused.
import { runMigrations } from "bullmq";
import type pg from "pg";
import { GROUPS } from "./roles.js";

export const QUEUE_SCHEMA = "bullmq";

const RIGHTS = `
  create sequence if not exists bullmq.job_ids_of_all_queues;
  create or replace function bullmq.job_id_seq_name(p_queue text) returns text
    language sql immutable as $$ select 'job_ids_of_all_queues' $$;
  grant usage on schema bullmq to ${GROUPS.queue};
  grant select, insert, update, delete on all tables in schema bullmq to ${GROUPS.queue};
  revoke insert, update, delete on bullmq.migration from ${GROUPS.queue};
  grant usage on all sequences in schema bullmq to ${GROUPS.queue};
  revoke execute on all functions in schema bullmq from public;
  grant execute on all functions in schema bullmq to ${GROUPS.queue};
`;

/** Brings BullMQ's schema up to the version of the installed package, and gives the queue group what it needs there. */
export async function migrateQueueSchema(admin: pg.Client): Promise<void> {
  await runMigrations(admin, QUEUE_SCHEMA);
  const { rows } = await admin.query<{ name: string }>("select quote_ident(current_database()) as name");
  // Bulk inserts of BullMQ pass through temporary tables.
  await admin.query(`begin; ${RIGHTS} grant temporary on database ${rows[0]?.name} to ${GROUPS.queue}; commit`);
}
