import type pg from "pg";
import type { RunId, ThreadId } from "../domain/ids.js";
import type { TenantReads } from "./reads.js";

export interface StoredCheckpoint {
  readonly namespace: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly lineage: string;
  readonly schemaVersion: number;
  readonly step: number;
  readonly head: Buffer;
  readonly metadata: Buffer;
  readonly channels: readonly { name: string; digest: string; type: string }[];
  readonly writes: readonly StoredWrite[];
}

export interface StoredWrite {
  readonly namespace: string;
  readonly checkpointId: string;
  readonly taskId: string;
  readonly index: number;
  readonly channel: string;
  readonly type: string;
  readonly data: Buffer;
}

export interface StoredBlob {
  /** Hex. */
  readonly digest: string;
  readonly part: number;
  readonly parts: number;
  readonly data: Buffer;
}

/** What a run continues from: the newest root checkpoint of its thread, or the one it was forked from, and the newest of each sub-graph namespace that
 *  the same run, or this one, wrote. */
export async function continuation(
  tenant: TenantReads,
  threadId: ThreadId,
  runId: RunId,
  fromCheckpointId: string | null,
): Promise<{ checkpoints: StoredCheckpoint[]; blobs: StoredBlob[] }> {
  const rows = await tenant.query<
    Omit<StoredCheckpoint, "channels" | "writes"> & { channels: string } & pg.QueryResultRow
  >(
    `with root as (
       select c.* from checkpoint c where c.tenant_id = $1 and c.thread_id = $2 and c.namespace = ''
         -- A run that was forked from a checkpoint and lost its runner continues from what it wrote itself.
         and ($4::text is null or c.id = $4 or c.run_id = $3)
       order by c.seq desc limit 1
     ), nested as (
       select distinct on (c.namespace) c.* from checkpoint c, root
       where c.tenant_id = $1 and c.thread_id = $2 and c.namespace <> '' and c.run_id in (root.run_id, $3)
       order by c.namespace, c.seq desc
     )
     select namespace, id, parent_id as "parentId", lineage, schema_version as "schemaVersion", step, head, metadata, channels
     from (select * from root union all select * from nested) x order by x.seq`,
    [tenant.scope.tenantId, threadId, runId, fromCheckpointId],
  );
  if (rows.length === 0) return { checkpoints: [], blobs: [] };
  const writes = await tenant.query<StoredWrite & pg.QueryResultRow>(
    `select w.namespace, w.checkpoint_id as "checkpointId", w.task_id as "taskId", w.idx as index, w.channel, w.type, w.data
     from checkpoint_write w join unnest($3::text[], $4::text[]) as k (namespace, id) on w.namespace = k.namespace and w.checkpoint_id = k.id
     where w.tenant_id = $1 and w.thread_id = $2 order by w.task_id, w.idx`,
    [tenant.scope.tenantId, threadId, rows.map((row) => row.namespace), rows.map((row) => row.id)],
  );
  const checkpoints = rows.map((row) => ({
    ...row,
    channels: JSON.parse(row.channels) as StoredCheckpoint["channels"],
    writes: writes.filter((write) => write.namespace === row.namespace && write.checkpointId === row.id),
  }));
  const digests = [
    ...new Set(checkpoints.flatMap((checkpoint) => checkpoint.channels.map((channel) => channel.digest))),
  ];
  const blobs = await tenant.query<StoredBlob & pg.QueryResultRow>(
    `select encode(b.digest, 'hex') as digest, b.part, b.parts, b.data from checkpoint_blob b
     where b.tenant_id = $1 and b.digest = any (select decode(d, 'hex') from unnest($2::text[]) d) order by b.digest, b.part`,
    [tenant.scope.tenantId, digests],
  );
  return { checkpoints, blobs };
}
