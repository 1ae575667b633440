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

/** Bytes of a whole batch as one parameter; the statement cuts them out by position. */
export interface Bytes {
  /** Adds some and answers where they begin, counted from 1. */
  add(...parts: readonly (Uint8Array | null)[]): number;
  all(): Buffer;
}

export function gatherBytes(): Bytes {
  const gathered: Uint8Array[] = [];
  let length = 0;
  return {
    add: (...parts) => {
      const at = length + 1;
      for (const part of parts) {
        if (part === null || part.length === 0) continue;
        gathered.push(part);
        length += part.length;
      }
      return at;
    },
    all: () => Buffer.concat(gathered, length),
  };
}

/** The four lists of run_extras_v2 as JSON text, null where no item of the batch has any. */
export function extrasParameters(items: readonly { readonly extras: Extras }[], bytes: Bytes): (string | null)[] {
  const checkpoints: object[] = [];
  const writes: object[] = [];
  const blobs: object[] = [];
  const steps: string[] = [];
  items.forEach(({ extras }, at) => {
    const item = at + 1;
    for (const c of oneEach(extras.checkpoints, nameOfCheckpoint, (old, c) => ({ ...c, view: c.view ?? old.view }))) {
      checkpoints.push({
        item,
        namespace: c.namespace,
        id: c.id,
        parent_id: c.parentId,
        lineage: c.lineage,
        schema_version: c.schemaVersion,
        step: c.step,
        channels: c.channels,
        at: bytes.add(c.head, c.metadata, c.view),
        head: c.head.length,
        metadata: c.metadata.length,
        ...(c.view && { view: c.view.length }),
      });
    }
    // A task's output stays as it was told first; what happened to it is known better later.
    for (const w of oneEach(extras.writes, nameOfWrite, (old, w) => (w.index < 0 ? w : old))) {
      writes.push({
        item,
        namespace: w.namespace,
        checkpoint_id: w.checkpointId,
        task_id: w.taskId,
        idx: w.index,
        channel: w.channel,
        type: w.type,
        at: bytes.add(w.data),
        bytes: w.data.length,
      });
    }
    for (const b of extras.blobs) {
      blobs.push({
        item,
        digest: b.digest,
        part: b.part,
        parts: b.parts,
        at: bytes.add(b.data),
        bytes: b.data.length,
      });
    }
    for (const s of oneEach(
      extras.steps,
      (step) => step.id,
      (old, s) => ({ ...s, usage: s.usage ?? old.usage }),
    )) {
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
  return [jsonList(checkpoints), jsonList(writes), jsonList(blobs), steps.length > 0 ? `[${steps.join(",")}]` : null];
}

function jsonList(rows: readonly object[]): string | null {
  return rows.length > 0 ? JSON.stringify(rows) : null;
}

const nameOfCheckpoint = (c: CheckpointPut): string => `${c.namespace}\0${c.id}`;
const nameOfWrite = (w: WritePut): string => `${w.namespace}\0${w.checkpointId}\0${w.taskId}\0${w.index}`;

/** One statement writes a row once: what is told again in the same batch takes the place of the first telling, as `merged` decides. */
function oneEach<Row>(
  rows: readonly Row[],
  name: (row: Row) => string,
  merged: (old: Row, row: Row) => Row,
): Iterable<Row> {
  if (rows.length < 2) return rows;
  const byName = new Map<string, Row>();
  for (const row of rows) {
    const key = name(row);
    const old = byName.get(key);
    byName.set(key, old === undefined ? row : merged(old, row));
  }
  return byName.values();
}
