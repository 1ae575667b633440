/** What travels with events: checkpoints, pending writes, blobs, steps. `channels` and `usage` are JSON text. */
export interface Extras {
  readonly checkpoints: readonly CheckpointPut[];
  readonly writes: readonly WritePut[];
  readonly blobs: readonly BlobPut[];
  readonly steps: readonly StepPut[];
}

export interface CheckpointPut {
  readonly namespace: string;
  readonly id: string;
  readonly parentId: string;
  readonly lineage: string;
  readonly schemaVersion: number;
  readonly step: number;
  readonly head: Buffer;
  readonly metadata: Buffer;
  readonly channels: readonly { name: string; digest: string; type: string }[];
  readonly view: Buffer | null;
}

export interface WritePut {
  readonly namespace: string;
  readonly checkpointId: string;
  readonly taskId: string;
  readonly index: number;
  readonly channel: string;
  readonly type: string;
  readonly data: Buffer;
}

export interface BlobPut {
  readonly digest: string;
  readonly part: number;
  readonly parts: number;
  readonly data: Buffer;
}

export interface StepPut {
  readonly id: string;
  readonly parentId: string;
  readonly kind: string;
  readonly name: string;
  readonly status: string;
  readonly namespace: readonly string[];
  readonly startedMs: number;
  readonly endedMs: number;
  readonly usage: string | null;
  readonly error: string;
}

export const noExtras: Extras = { checkpoints: [], writes: [], blobs: [], steps: [] };

/** The nine parameters of run_extras_v1, null where no item of the batch has any. */
export function extrasParameters(items: readonly { readonly extras: Extras }[]): unknown[] {
  const checkpoints: object[] = [];
  const heads: Buffer[] = [];
  const metadata: Buffer[] = [];
  const views: (Buffer | null)[] = [];
  const writes: object[] = [];
  const writeData: Buffer[] = [];
  const blobs: object[] = [];
  const blobData: Buffer[] = [];
  const steps: string[] = [];
  items.forEach(({ extras }, at) => {
    const item = at + 1;
    for (const c of onceEach(extras.checkpoints)) {
      checkpoints.push({
        item,
        namespace: c.namespace,
        id: c.id,
        parent_id: c.parentId,
        lineage: c.lineage,
        schema_version: c.schemaVersion,
        step: c.step,
        channels: c.channels,
      });
      heads.push(c.head);
      metadata.push(c.metadata);
      views.push(c.view);
    }
    for (const w of extras.writes) {
      writes.push({
        item,
        namespace: w.namespace,
        checkpoint_id: w.checkpointId,
        task_id: w.taskId,
        idx: w.index,
        channel: w.channel,
        type: w.type,
      });
      writeData.push(w.data);
    }
    for (const b of extras.blobs) {
      blobs.push({ item, digest: b.digest, part: b.part, parts: b.parts });
      blobData.push(b.data);
    }
    for (const s of extras.steps) {
      const row = JSON.stringify({
        item,
        id: s.id,
        parent_id: s.parentId,
        kind: s.kind,
        name: s.name,
        status: s.status,
        namespace: s.namespace,
        started_ms: s.startedMs,
        ended_ms: s.endedMs,
        error: s.error,
      });
      steps.push(s.usage === null ? row : `${row.slice(0, -1)},"usage":${s.usage}}`);
    }
  });
  return [
    checkpoints.length > 0 ? JSON.stringify(checkpoints) : null,
    heads,
    metadata,
    views,
    writes.length > 0 ? JSON.stringify(writes) : null,
    writeData,
    blobs.length > 0 ? JSON.stringify(blobs) : null,
    blobData,
    steps.length > 0 ? `[${steps.join(",")}]` : null,
  ];
}

/** A checkpoint that is sent again in the same batch counts once, in its first place and with its last contents: one statement writes a row once. */
function onceEach(checkpoints: readonly CheckpointPut[]): Iterable<CheckpointPut> {
  if (checkpoints.length < 2) return checkpoints;
  const byName = new Map<string, CheckpointPut>();
  for (const checkpoint of checkpoints) {
    const name = `${checkpoint.namespace}\0${checkpoint.id}`;
    byName.set(name, { ...checkpoint, view: checkpoint.view ?? byName.get(name)?.view ?? null });
  }
  return byName.values();
}
