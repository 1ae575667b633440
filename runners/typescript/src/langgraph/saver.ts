import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
} from "@langchain/langgraph";
import type { Assignment, PendingWrite, Checkpoint as WireCheckpoint } from "../generated/fairlead/runner/v1/runner.js";
import {
  assembleBlobs,
  blobParts,
  type Cargo,
  type ChannelBytes,
  channelBytes,
  LINEAGE,
  SCHEMA_VERSION,
} from "./checkpoint-wire.js";
import { dumps, dumpsAtOnce } from "./serializer.js";

// The checkpoints of one run: what the assignment brought, and what the run adds. LangGraph reads and writes them here, in memory; every addition
// goes to the plane as well, and is durable there. No other run sees this saver.
//
// A channel whose version did not change since the parent is not serialised again, and a blob that the plane has is not sent again.

type Config = RunnableConfig;
type Versions = Record<string, number | string>;
type Write = [channel: string, value: unknown];

/** The writes that LangGraph keeps once per task, whatever their position. */
const specialIndex: Record<string, number> = { __error__: -1, __scheduled__: -2, __interrupt__: -3, __resume__: -4 };
/** They say what happened to a task; everything else is its output. */
const controlChannels = new Set(["__error__", "__error_source_node__", "__interrupt__", "__resume__"]);
const NULL_TASK = "00000000-0000-0000-0000-000000000000";
/** Remembers that an answer was used, which LangGraph keeps in memory only: a second attempt must not use it again for the next question. */
const ANSWERED = "__fairlead_answered__";
const ANSWERED_INDEX = -100;
/** An id that sorts behind all others. */
const AFTER_ALL = "ffffffff-ffff-6fff-bfff-ffffffffffff";
const none = Buffer.alloc(0);
const DELTA_SNAPSHOT = Buffer.from('{"lc":2,"type":"delta_snapshot"');

interface Saved {
  readonly id: string;
  readonly namespace: string;
  readonly parentId: string;
  readonly head: Omit<Checkpoint, "channel_values">;
  readonly metadata: CheckpointMetadata;
  /** As JSON. */
  readonly metadataText: string;
  readonly step: number;
  readonly channels: Map<string, ChannelBytes>;
  readonly writes: Map<string, SavedWrite>;
  /** Made once, although a checkpoint may be sent twice. */
  wire: WireCheckpoint | undefined;
}

interface SavedWrite {
  readonly taskId: string;
  readonly index: number;
  readonly channel: string;
  readonly type: string;
  readonly data: Uint8Array;
}

export interface SaverHooks {
  /** A checkpoint of the run itself, not of the assignment. */
  onCheckpoint(namespace: string, id: string, cargo: Cargo): Promise<void>;
  onWrites(namespace: string, checkpointId: string, writes: PendingWrite[]): Promise<void>;
}

export class FairleadSaver extends BaseCheckpointSaver {
  readonly #saved = new Map<string, Map<string, Saved>>();
  readonly #seeded = new Set<string>();
  /** Digests in hex of what the plane has. */
  readonly #atPlane = new Set<string>();
  readonly #inheritedBy = new Map<string, Record<string, unknown>>();
  readonly #hooks: SaverHooks;
  readonly #runId: string;
  #answered = false;
  #branchedAt: string | undefined;

  constructor(assignment: Assignment, hooks: SaverHooks) {
    super();
    this.#hooks = hooks;
    this.#runId = assignment.run!.runId;
    const blobs = assembleBlobs(assignment.blobs);
    for (const digest of blobs.keys()) this.#atPlane.add(digest);
    for (const checkpoint of assignment.checkpoints) {
      if (checkpoint.lineage === LINEAGE) this.#seed(checkpoint, blobs);
    }
    if (this.#answered) this.#dropAnswer();
  }

  /** Did an earlier attempt of this run use the answer that the run was started with? */
  get answered(): boolean {
    return this.#answered;
  }

  isSeeded(id: string): boolean {
    return this.#seeded.has(id);
  }

  /** The newest checkpoint of the thread itself, as the assignment brought it or the run left it. */
  get head(): { readonly id: string; readonly runId: unknown } | undefined {
    const newest = this.#newest("");
    return newest && { id: newest.id, runId: (newest.metadata as Record<string, unknown>)["run_id"] };
  }

  has(id: string): boolean {
    return this.#saved.get("")?.has(id) === true;
  }

  /** The checkpoint for the wire; its blobs are sent by the hook that announced it. */
  toWire(namespace: string, id: string, view: string): WireCheckpoint | undefined {
    const saved = this.#saved.get(namespace)?.get(id);
    return saved && { ...wireCheckpoint(saved), view: Buffer.from(view) };
  }

  /** Tasks of a checkpoint that have given their output: what they had asked is answered. */
  finishedTasks(namespace: string, id: string): Set<string> {
    const finished = new Set<string>();
    for (const { taskId, channel } of this.#saved.get(namespace)?.get(id)?.writes.values() ?? []) {
      if (!controlChannels.has(channel)) finished.add(taskId);
    }
    return finished;
  }

  createdAt(id: string): string | undefined {
    return this.#saved.get("")?.get(id)?.head.ts;
  }

  metadataOf(id: string): CheckpointMetadata | undefined {
    return this.#saved.get("")?.get(id)?.metadata;
  }

  /** The same as JSON text, which each checkpoint has written anyway. */
  metadataTextOf(id: string): string {
    return this.#saved.get("")?.get(id)?.metadataText ?? "{}";
  }

  parentOf(id: string): string {
    return this.#saved.get("")?.get(id)?.parentId ?? "";
  }

  /** Have tasks of the newest checkpoint given output? */
  get headHasOutput(): boolean {
    const newest = this.#newest("");
    return newest !== undefined && this.finishedTasks("", newest.id).size > 0;
  }

  /** The thread has gone on from the newest checkpoint that this run was given: the run starts a new branch there. */
  branchOff(): void {
    this.#branchedAt = this.#newest("")?.id;
  }

  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const { checkpoint_ns: namespace = "", checkpoint_id: id } = config.configurable ?? {};
    const saved = id ? this.#saved.get(namespace)?.get(id) : this.#newest(namespace);
    if (saved === undefined) return undefined;
    const tuple = await this.#tuple(config, saved);
    // LangGraph asks for the newest to see whether the one that it was sent to is older. What has come after is not here; that it has, is enough.
    if (!id && namespace === "" && saved.id === this.#branchedAt) tuple.checkpoint.id = AFTER_ALL;
    return tuple;
  }

  override async *list(
    config: Config,
    options: { limit?: number; before?: Config; filter?: Record<string, unknown> } = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { checkpoint_ns: only, checkpoint_id: id } = config.configurable ?? {};
    const before: string | undefined = options.before?.configurable?.["checkpoint_id"];
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    for (const [namespace, checkpoints] of this.#saved) {
      if (only !== undefined && namespace !== only) continue;
      for (const saved of [...checkpoints.values()].sort((a, b) => (a.id < b.id ? 1 : -1))) {
        if ((id && saved.id !== id) || (before !== undefined && saved.id >= before)) continue;
        const metadata = saved.metadata as Record<string, unknown>;
        if (!Object.entries(options.filter ?? {}).every(([key, value]) => metadata[key] === value)) continue;
        if (left <= 0) return;
        left -= 1;
        yield await this.#tuple(config, saved);
      }
    }
  }

  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: Versions,
  ): Promise<Config> {
    const { thread_id, checkpoint_ns: namespace = "", checkpoint_id: parentId = "" } = config.configurable ?? {};
    const { channel_values: values, ...head } = checkpoint;
    const parent = this.#saved.get(namespace)?.get(parentId);
    const channels = new Map<string, ChannelBytes>();
    const fresh: ChannelBytes[] = [];
    for (const [name, value] of Object.entries(values)) {
      const version = head.channel_versions[name];
      const before =
        parent?.head.channel_versions[name] === version && !(name in newVersions)
          ? parent?.channels.get(name)
          : undefined;
      const bytes = before ?? dumpedAtOnce(value) ?? channelBytes(...(await dumps(this.serde, value)));
      channels.set(name, bytes);
      if (before === undefined) fresh.push(bytes);
    }
    // A DeltaChannel that did not change is left out of the checkpoint; its last snapshot still holds.
    for (const [name, bytes] of parent?.channels ?? []) {
      const same = parent?.head.channel_versions[name] === head.channel_versions[name];
      if (same && !channels.has(name) && isDeltaSnapshot(bytes)) channels.set(name, bytes);
    }
    const full = { ...this.#inherited(config, namespace), ...metadata } as CheckpointMetadata;
    const saved: Saved = {
      id: checkpoint.id,
      namespace,
      parentId,
      head,
      metadata: full,
      metadataText: JSON.stringify(full),
      step: metadata.step,
      channels,
      writes: new Map(),
      wire: undefined,
    };
    this.#keep(saved);
    await this.#hooks.onCheckpoint(namespace, saved.id, {
      checkpoint: wireCheckpoint(saved),
      blobs: this.#newBlobs(fresh),
    });
    return { configurable: { thread_id, checkpoint_ns: namespace, checkpoint_id: saved.id } };
  }

  override async putWrites(config: Config, writes: Write[], taskId: string): Promise<void> {
    const { checkpoint_ns: namespace = "", checkpoint_id: checkpointId = "" } = config.configurable ?? {};
    const saved = this.#saved.get(namespace)?.get(checkpointId);
    const wire: PendingWrite[] = [];
    for (const [position, [channel, value]] of writes.entries()) {
      const index = specialIndex[channel] ?? position;
      const key = `${taskId},${index}`;
      if (index >= 0 && saved?.writes.has(key)) continue;
      const text = dumpsAtOnce(value);
      const [type, data] = text === undefined ? await dumps(this.serde, value) : (["json", Buffer.from(text)] as const);
      saved?.writes.set(key, { taskId, index, channel, type, data });
      wire.push({ namespace, checkpointId, taskId, index, channel, type, data });
      if (channel === "__resume__" && taskId !== NULL_TASK) wire.push(this.#answeredWrite(namespace, checkpointId));
    }
    if (wire.length > 0) await this.#hooks.onWrites(namespace, checkpointId, wire);
  }

  override async deleteThread(): Promise<void> {
    throw new Error("A run cannot delete its thread. Use the Agent Protocol.");
  }

  #seed(wire: WireCheckpoint, blobs: ReadonlyMap<string, Buffer>): void {
    const channels = new Map<string, ChannelBytes>();
    for (const { name, digest, type } of wire.channels) {
      const data = blobs.get(digest.toString("hex"));
      if (data === undefined)
        throw new Error(`The plane sent checkpoint ${wire.id} without the value of its channel "${name}".`);
      channels.set(name, { type, digest, data });
    }
    const writes = new Map<string, SavedWrite>();
    for (const { taskId, index, channel, type, data } of wire.writes) {
      if (channel !== ANSWERED) writes.set(`${taskId},${index}`, { taskId, index, channel, type, data });
      else if (data.toString("utf8") === JSON.stringify(this.#runId)) this.#answered = true;
    }
    this.#seeded.add(wire.id);
    this.#keep({
      id: wire.id,
      namespace: wire.namespace,
      parentId: wire.parentId,
      head: JSON.parse(wire.head.toString("utf8")),
      metadata: JSON.parse(wire.metadata.toString("utf8") || "{}"),
      metadataText: wire.metadata.toString("utf8") || "{}",
      step: wire.step,
      channels,
      writes,
      wire: undefined,
    });
  }

  /** The answer itself stays among the pending writes when it is used; whoever asks next would get it once more. */
  #dropAnswer(): void {
    for (const checkpoints of this.#saved.values()) {
      for (const { writes } of checkpoints.values()) writes.delete(`${NULL_TASK},${specialIndex["__resume__"]}`);
    }
  }

  #keep(saved: Saved): void {
    const checkpoints = this.#saved.get(saved.namespace) ?? new Map<string, Saved>();
    checkpoints.set(saved.id, saved);
    this.#saved.set(saved.namespace, checkpoints);
  }

  #newest(namespace: string): Saved | undefined {
    let newest: Saved | undefined;
    for (const saved of this.#saved.get(namespace)?.values() ?? [])
      if (newest === undefined || saved.id > newest.id) newest = saved;
    return newest;
  }

  async #tuple(config: Config, saved: Saved): Promise<CheckpointTuple> {
    const { namespace, parentId, head } = saved;
    const threadId = config.configurable?.["thread_id"];
    const values: Record<string, unknown> = {};
    for (const [name, { type, data }] of saved.channels) values[name] = await this.serde.loadsTyped(type, data);
    const ordered = [...saved.writes.values()].sort((a, b) =>
      a.taskId === b.taskId ? a.index - b.index : a.taskId < b.taskId ? -1 : 1,
    );
    const pendingWrites: CheckpointTuple["pendingWrites"] = [];
    for (const { taskId, channel, type, data } of ordered) {
      pendingWrites.push([taskId, channel, await this.serde.loadsTyped(type, data)]);
    }
    const at = (id: string): Config => ({
      configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: id },
    });
    const tuple: CheckpointTuple = {
      config: at(saved.id),
      // LangGraph changes what it gets.
      checkpoint: { ...structuredClone(head), channel_values: values },
      metadata: structuredClone(saved.metadata),
      pendingWrites,
    };
    if (parentId !== "") tuple.parentConfig = at(parentId);
    return tuple;
  }

  /** The same for all checkpoints of a graph in a run. */
  #inherited(config: Config, namespace: string): Record<string, unknown> {
    let found = this.#inheritedBy.get(namespace);
    if (found === undefined) {
      found = inherited(config);
      this.#inheritedBy.set(namespace, found);
    }
    return found;
  }

  #newBlobs(channels: readonly ChannelBytes[]): ReturnType<typeof blobParts> {
    return channels.flatMap((channel) => {
      const digest = channel.digest.toString("hex");
      if (this.#atPlane.has(digest)) return [];
      this.#atPlane.add(digest);
      return blobParts(channel);
    });
  }

  #answeredWrite(namespace: string, checkpointId: string): PendingWrite {
    const data = Buffer.from(JSON.stringify(this.#runId));
    return {
      namespace,
      checkpointId,
      taskId: NULL_TASK,
      index: ANSWERED_INDEX,
      channel: ANSWERED,
      type: "json",
      data,
    };
  }
}

/** Nearly every value; a promise for each would cost more than writing it. */
function dumpedAtOnce(value: unknown): ChannelBytes | undefined {
  const text = dumpsAtOnce(value);
  return text === undefined ? undefined : channelBytes("json", Buffer.from(text));
}

function isDeltaSnapshot({ data }: ChannelBytes): boolean {
  return data.subarray(0, DELTA_SNAPSHOT.length).equals(DELTA_SNAPSHOT);
}

function wireCheckpoint(saved: Saved): WireCheckpoint {
  saved.wire ??= {
    namespace: saved.namespace,
    id: saved.id,
    parentId: saved.parentId,
    lineage: LINEAGE,
    schemaVersion: SCHEMA_VERSION,
    step: saved.step,
    head: Buffer.from(JSON.stringify(saved.head)),
    metadata: Buffer.from(saved.metadataText),
    channels: [...saved.channels].map(([name, { digest, type }]) => ({ name, digest, type })),
    view: none,
    writes: [],
  };
  return saved.wire;
}

const ownedByCheckpoint = new Set(["checkpoint_ns", "checkpoint_id", "run_id", "thread_id"]);

/** What the run's config adds to the metadata of its checkpoints, as the official server does it. */
function inherited(config: Config): Record<string, unknown> {
  const added: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(config.configurable ?? {})) {
    const kind = typeof value;
    const plain = kind === "string" || kind === "number" || kind === "boolean";
    if (plain && !key.startsWith("__") && !ownedByCheckpoint.has(key)) added[key] = value;
  }
  return { ...added, ...config.metadata };
}
