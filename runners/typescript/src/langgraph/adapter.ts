import type { StateSnapshot } from "@langchain/langgraph";
import type { Agent, Ending, Execution } from "../agent.js";
import { type AgentOptions, offerOf } from "../agent-options.js";
import { commandOf, configOf, contextOf, stateUpdateOf, threadValuesOf } from "../assignment.js";
import { RunnerError } from "../errors.js";
import { eventHead } from "../event-encoding.js";
import { type Assignment, Family, Purpose } from "../generated/fairlead/runner/v1/runner.js";
import { fromJson, messagesToJson } from "../json.js";
import { valuesEvent, withInterrupts } from "../run-emitter.js";
import { type CheckpointSender, createCheckpointSender } from "./checkpoint-sender.js";
import { cargoEvents } from "./checkpoint-wire.js";
import { type ChunkTranslator, createChunkTranslator } from "./chunks.js";
import { type CompiledGraph, type GraphSource, graphSource } from "./graph.js";
import { messageCallbacks } from "./message-callbacks.js";
import { type GraphConfig, graphCommand, graphConfig } from "./run-config.js";
import { FairleadSaver } from "./saver.js";
import { schemasOf } from "./schemas.js";
import { type CallHistory, shouldWatch, stepCallbacks } from "./step-callbacks.js";
import { streamGraph } from "./stream.js";
import { spareRunTrees } from "./untraced.js";
import { type GraphTask, isSnapshot, openInterrupts, tasksJson, viewJson, withoutAnswered } from "./view.js";

// A LangGraph.js graph as an agent. Each run gets its own saver, so the graph itself stays shared and unchanged.

export async function langgraphAgent(graphId: string, graph: unknown, options: AgentOptions): Promise<Agent> {
  const { source, sample } = await graphSource(graphId, graph);
  spareRunTrees();
  const history: CallHistory = { runs: 0, seen: false };
  return {
    offer: offerOf(graphId, { ...(sample && schemasOf(sample)), ...options }, "checkpoint"),
    execute: async (execution) => {
      const run = await prepare(execution, source);
      const edits = execution.assignment.purpose === Purpose.PURPOSE_UPDATE_STATE;
      const ending = edits ? await updateState(run) : await execute(run, history);
      // A large checkpoint may still be on its way to the outbox, which closes when this returns.
      await run.sender.settled();
      return ending;
    },
  };
}

interface GraphRun {
  readonly execution: Execution;
  readonly graph: CompiledGraph;
  readonly config: GraphConfig;
  readonly saver: FairleadSaver;
  readonly sender: CheckpointSender;
  readonly chunks: ChunkTranslator;
}

async function prepare(execution: Execution, source: GraphSource): Promise<GraphRun> {
  const { assignment } = execution;
  const clientConfig = configOf(assignment);
  const context = contextOf(assignment);
  const config = graphConfig(assignment, clientConfig, context);
  // The hooks are called during the run only, when everything below exists.
  const sender: CheckpointSender = createCheckpointSender(
    execution,
    (id, view) => saver.toWire("", id, view),
    (namespace) => subgraphStep(chunks, namespace),
  );
  const saver: FairleadSaver = new FairleadSaver(assignment, sender);
  const asked = new Set(assignment.streamModes);
  const chunks: ChunkTranslator = createChunkTranslator({ execution, saver, sender, asked });
  const shared = await source(clientConfig, context);
  // Inherits everything and replaces one property: a copy would cost a validation of the whole graph per run.
  const graph: CompiledGraph = Object.create(shared, { checkpointer: { value: saver } });
  return { execution, graph, config, saver, sender, chunks };
}

/** A task turns out to be a sub-graph when the first checkpoint of its namespace is saved. */
function subgraphStep(chunks: ChunkTranslator, namespace: string): ReturnType<ChunkTranslator["stepOfTask"]> {
  const step = chunks.stepOfTask(taskId(namespace));
  if (step === undefined || step.kind === "agent") return undefined;
  step.kind = "agent";
  return { ...step };
}

/** Of the innermost task in a namespace such as `outer:id|inner:id`. */
function taskId(namespace: string): string {
  return namespace.slice(namespace.lastIndexOf(":") + 1);
}

async function execute(run: GraphRun, history: CallHistory): Promise<Ending> {
  const { execution, saver, sender, chunks } = run;
  const wanted = run.config.configurable["checkpoint_id"];
  if (typeof wanted === "string" && !saver.has(wanted)) {
    throw new RunnerError("unsupported", `checkpoint: ${wanted} is not a checkpoint of this agent on this thread.`);
  }
  const input = await inputOf(run);
  if (input === null && (await stopsAtBreakpoint(run))) return wait(run);
  if (await branchesOff(run)) {
    run.config.configurable["checkpoint_id"] = saver.head!.id;
    saver.branchOff();
  }
  try {
    await stream(run, input, history);
  } catch (error) {
    sender.end();
    if (!execution.signal.aborted) await showFailure(run);
    await sender.settled().catch(() => {});
    throw error;
  }
  sender.end();
  chunks.end();
  if (chunks.interrupted) return wait(run);
  await sendWithoutView(run);
  const values = chunks.values || messagesToJson((await snapshot(run)).values, "values");
  return { outcome: "success", values };
}

/**
 * Null continues from the newest checkpoint. That is what a client may ask for, and what an attempt does that finds a checkpoint of its own run:
 * an earlier attempt has taken the input, or used the answer, already.
 */
async function inputOf(run: GraphRun): Promise<unknown> {
  const { assignment } = run.execution;
  if (run.saver.head?.runId === assignment.run!.runId || run.saver.answered) return null;
  const command = commandOf(assignment);
  if (command !== undefined) return graphCommand(command);
  const input = fromJson(assignment.input, "input") ?? null;
  if (run.saver.head === undefined) await startFromThreadValues(run, assignment);
  return input;
}

/**
 * A run may start from an older checkpoint of its thread, for example to have an answer made anew. The plane sends that one alone, with what its
 * tasks gave when the thread went on from there. Continuing would repeat that; the tasks have to run again.
 */
async function branchesOff({ graph, config, saver, execution }: GraphRun): Promise<boolean> {
  if (saver.head?.runId === execution.assignment.run!.runId || saver.answered || !saver.headHasOutput) return false;
  const { next, tasks } = await graph.getState(pick(config));
  return tasks.length > 0 && next.length === 0;
}

/** The thread was used by agents of another kind only: their state is where this one begins. */
async function startFromThreadValues(run: GraphRun, assignment: Assignment): Promise<void> {
  const { graph, config } = run;
  const values = threadValuesOf(assignment);
  if (typeof values !== "object" || values === null || Array.isArray(values)) return;
  const known = Object.entries(values).filter(([key]) => Object.hasOwn(graph.channels, key));
  if (known.length === 0) return;
  await graph.updateState(pick(config), Object.fromEntries(known), "__start__");
  await sendWithoutView(run);
}

/** An earlier attempt may have stopped at a breakpoint without being able to say so; continuing would run past it. */
async function stopsAtBreakpoint({ graph, config, saver, execution }: GraphRun): Promise<boolean> {
  const before = config.interruptBefore ?? graph.interruptBefore ?? [];
  if (before.length === 0 || saver.head?.runId !== execution.assignment.run!.runId) return false;
  const { next } = await graph.getState(pick(config));
  return next.some((node) => before === "*" || before.includes(node));
}

async function stream(run: GraphRun, input: unknown, history: CallHistory): Promise<void> {
  const { execution, graph, chunks, config } = run;
  const { streamModes, streamSubgraphs } = execution.assignment;
  const modes = new Set(["values", "updates", "checkpoints", "tasks", "custom"]);
  if (streamModes.includes("debug")) modes.add("debug");
  const withMessages = streamModes.includes("messages") || streamModes.includes("messages-tuple");
  const withTools = streamModes.includes("tools");
  const watch = shouldWatch(history) || withMessages || withTools;
  const handlers = watch ? [callHandler(run, history, withMessages, withTools)] : undefined;
  await streamGraph(graph, input, {
    options: {
      ...config,
      signal: execution.signal,
      subgraphs: streamSubgraphs,
      ...(handlers && { callbacks: handlers }),
    },
    modes,
    withEvents: streamModes.includes("events"),
    chunks,
  });
}

function callHandler(run: GraphRun, history: CallHistory, withMessages: boolean, withTools: boolean): object {
  const { execution, chunks } = run;
  const { streamSubgraphs } = execution.assignment;
  const onTool = (namespace: readonly string[], payload: object): void => {
    if (namespace.length === 0 || streamSubgraphs) void chunks.chunk(namespace, "tools", payload);
  };
  return stepCallbacks({
    history,
    mayStartWork: () => execution.mayStartWork(),
    onStep: (step) => chunks.onStep(step),
    // The tasks of a sub-graph are steps only when its stream was asked for; otherwise the task that runs the sub-graph stands for them.
    parentOf: (namespace) => taskId(namespace.at(streamSubgraphs ? -1 : 0) ?? ""),
    messages: withMessages ? messageCallbacks(chunks.messages, streamSubgraphs) : undefined,
    onTool: withTools ? onTool : undefined,
    room: chunks.room,
  });
}

const checkpointHead = eventHead({ family: Family.FAMILY_CHECKPOINTS });
const inputHead = eventHead({ family: Family.FAMILY_INPUT });

/** The graph stopped to ask. What it asks is not part of the last checkpoint's view yet, so the view is sent again. */
async function wait(run: GraphRun): Promise<Ending> {
  const { execution, sender } = run;
  const state = await snapshot(run);
  const values = messagesToJson(state.values, "values");
  const interrupts = openInterrupts(state);
  await sendView(run, state, values);
  await sendWithoutView(run);
  const list = interrupts.map(({ id, value }) => `{"id":${JSON.stringify(id)},"value":${value.toString("utf8")}}`);
  for (const { id, namespace, value } of interrupts) {
    const json = value.toString("utf8");
    const body = `{"interrupt_id":${JSON.stringify(id)},"payload":${json},"value":${json}}`;
    const head = namespace.length === 0 ? inputHead : eventHead({ family: Family.FAMILY_INPUT, namespace });
    void sender.send([{ head, body, legacyBody: "", delta: false }]);
  }
  execution.remember(values);
  await sender.send([valuesEvent(execution.assignment, values, withInterrupts(values, list.join(",")))]);
  return { outcome: "waiting", values, interrupts, next: [...state.next] };
}

async function snapshot({ graph, config, saver }: GraphRun): Promise<StateSnapshot> {
  const state = await graph.getState(pick(config), { subgraphs: true });
  return withoutAnswered(state, (namespace, id) => saver.finishedTasks(namespace, id));
}

/** The keys with which a state is found: a checkpoint that the run was started from is not where it is now. */
function pick(config: GraphConfig): { configurable: Record<string, unknown> } {
  const { checkpoint_id: _id, checkpoint_map: _map, ...configurable } = config.configurable;
  return { configurable };
}

async function sendView({ saver, sender }: GraphRun, state: StateSnapshot, values: string): Promise<void> {
  const id = state.config.configurable?.["checkpoint_id"];
  if (typeof id !== "string") return;
  const tasks = tasksJson(state.tasks as GraphTask[]);
  const view = viewJson({
    values,
    next: state.next,
    tasks,
    metadata: saver.metadataTextOf(id),
    createdAt: state.createdAt,
  });
  const { source, step } = saver.metadataOf(id) ?? {};
  const body = JSON.stringify({ id, parent_id: saver.parentOf(id) || undefined, step, source });
  await sender.complete(id, view, { head: checkpointHead, body, legacyBody: "" });
  await sendNestedViews(saver, sender, state.tasks as GraphTask[]);
}

/** Where a graph stops, the sub-graphs that it stopped in have a state to be looked at too. */
async function sendNestedViews(saver: GraphRun["saver"], sender: GraphRun["sender"], tasks: readonly GraphTask[]) {
  for (const { state } of tasks) {
    if (!isSnapshot(state)) continue;
    const { checkpoint_ns: namespace, checkpoint_id: id } = (state.config.configurable ?? {}) as Record<string, string>;
    const view = viewJson({
      values: messagesToJson(state.values, "values"),
      next: state.next,
      tasks: tasksJson(state.tasks as GraphTask[]),
      metadata: JSON.stringify(state.metadata ?? {}),
      createdAt: state.createdAt,
    });
    const checkpoint = namespace && id ? saver.toWire(namespace, id, view) : undefined;
    if (checkpoint) await sender.send(cargoEvents({ checkpoint, blobs: [], writes: [] }));
    await sendNestedViews(saver, sender, state.tasks as GraphTask[]);
  }
}

/** LangGraph gives no view for the last checkpoint when it stops right after it, for example at a breakpoint or a limit. */
async function sendWithoutView(run: GraphRun): Promise<void> {
  if (!run.sender.isWaiting()) return;
  const state = await snapshot(run);
  await sendView(run, state, messagesToJson(state.values, "values"));
  for (const id of run.sender.waitingIds())
    await run.sender.complete(id, "", { head: checkpointHead, body: "", legacyBody: "" });
}

/** The state after a failure names the task that failed. The failure itself is more important than showing it. */
async function showFailure(run: GraphRun): Promise<void> {
  try {
    run.chunks.end();
    if (run.saver.head === undefined) return;
    const state = await snapshot(run);
    await sendView(run, state, messagesToJson(state.values, "values"));
    await sendWithoutView(run);
  } catch (error) {
    run.execution.log.debug(`The state after the failure could not be read: ${String(error)}`);
  }
}

/** An edit of the thread's state with the graph's own reducers. */
async function updateState(run: GraphRun): Promise<Ending> {
  const { execution, graph, config, saver, sender } = run;
  const { values, asNode } = stateUpdateOf(execution.assignment);
  if (saver.head === undefined) await startFromThreadValues(run, execution.assignment);
  await graph.updateState(
    { configurable: config.configurable, metadata: config.metadata },
    values as Record<string, unknown>,
    asNode,
  );
  const state = await snapshot(run);
  const json = messagesToJson(state.values, "values");
  await sendView(run, state, json);
  await sendWithoutView(run);
  sender.end();
  await sender.send([valuesEvent(execution.assignment, json)]);
  return { outcome: "success", values: json };
}
