import type { Agent, Ending, Execution } from "./agent.js";
import { type AgentOptions, offerOf } from "./agent-options.js";
import { commandOf, stateUpdateOf, threadValuesOf } from "./assignment.js";
import { RunnerError } from "./errors.js";
import { type Episode, episodeOf, interruptId, viewCheckpoint } from "./function-state.js";
import { Purpose } from "./generated/fairlead/runner/v1/runner.js";
import { toJson } from "./json.js";
import { createRunContext, type RunContext } from "./run-context.js";
import { createRunEmitter, type RunEmitter, valuesEvent } from "./run-emitter.js";

export type AgentFunction = (run: RunContext) => unknown;

export interface FunctionOptions extends AgentOptions {
  /** Keep the state after each run in the thread's history. On unless switched off. */
  readonly history?: boolean;
}

/** Thrown by `interrupt`; whoever catches everything must let it pass. */
class Question extends Error {
  override readonly name = "Question";
  readonly id: string;
  readonly value: unknown;

  constructor(id: string, value: unknown) {
    super("The run stops here to ask a person. Let this error pass: do not catch it.");
    this.id = id;
    this.value = value;
  }
}

/** A plain async function as an agent: its result becomes the thread's state. */
export function functionAgent(graphId: string, work: AgentFunction, options: FunctionOptions = {}): Agent {
  return {
    offer: offerOf(graphId, options, "restart"),
    execute: (execution) => {
      if (execution.assignment.purpose === Purpose.PURPOSE_UPDATE_STATE) return updateState(execution);
      return run(execution, work, options.history !== false);
    },
  };
}

async function run(execution: Execution, work: AgentFunction, history: boolean): Promise<Ending> {
  const { assignment } = execution;
  const command = assignment.command.length === 0 ? undefined : commandOf(assignment);
  refuseUnsupported(command);
  // Made when somebody speaks: a function that only returns its result needs none.
  let emitter: RunEmitter | undefined;
  const speak = (): RunEmitter => {
    emitter ??= createRunEmitter(execution);
    return emitter;
  };
  if (command !== undefined && ends(command.goto))
    return succeed(execution, emitter, keptValues(execution), undefined, history);
  const episode = episodeOf(assignment, command?.resume);
  let asked = 0;
  const interrupt = (value: unknown): unknown => {
    const index = asked;
    asked += 1;
    if (index < episode.answers.length) return episode.answers[index];
    throw new Question(interruptId(assignment, episode, index), value);
  };
  try {
    const result = await work(createRunContext(execution, speak, interrupt, episode.input));
    const values = result === undefined ? execution.remembered() : toJson(result, "The result of the agent function");
    return succeed(execution, emitter, values, episode, history);
  } catch (error) {
    if (!(error instanceof Question)) throw error;
    return wait(execution, speak(), episode, error);
  }
}

function succeed(
  execution: Execution,
  emitter: RunEmitter | undefined,
  values: string,
  episode: Episode | undefined,
  history: boolean,
): Ending {
  emitter?.settle();
  // After an interrupt the history must move on even when it is switched off: the thread would stay at its question.
  if (values !== "" && (history || episode?.continued === true)) {
    if (!execution.assignment.ephemeral) void execution.emit(viewCheckpoint(execution.assignment, values, undefined));
  }
  if (values !== "" && !emitter?.hasJustSaid(values)) void execution.emit(valuesEvent(execution.assignment, values));
  return { outcome: "success", values };
}

function wait(execution: Execution, emitter: RunEmitter, episode: Episode, question: Question): Ending {
  const { assignment } = execution;
  const value = toJson(question.value ?? null, "The question of interrupt()");
  const values = keptValues(execution) || "{}";
  emitter.settle();
  const interrupt = { id: question.id, namespace: [], taskId: assignment.run!.runId, value: Buffer.from(value) };
  void execution.emit(viewCheckpoint(assignment, values, { episode, interrupt }));
  emitter.interrupted(values, [{ id: question.id, json: value }]);
  return { outcome: "waiting", values, interrupts: [interrupt], next: [assignment.graphId] };
}

/** The newest state that is known: what the function emitted, or what the thread had before. */
function keptValues(execution: Execution): string {
  return execution.remembered() || execution.assignment.threadValues.toString("utf8");
}

function refuseUnsupported(command: { update?: unknown; goto?: unknown } | undefined): void {
  if (command === undefined) return;
  if (command.update !== undefined && command.update !== null) {
    throw new RunnerError(
      "unsupported",
      "command.update: a plain function has no reducers. Pass an input, or edit the thread's state.",
    );
  }
  if (command.goto !== undefined && command.goto !== null && !ends(command.goto)) {
    throw new RunnerError("unsupported", 'command.goto: a plain function has no nodes. Only "__end__" is understood.');
  }
}

function ends(goto: unknown): boolean {
  return goto === "__end__" || (Array.isArray(goto) && goto.length === 1 && goto[0] === "__end__");
}

/** An edit of the thread's state: keys are replaced, because nothing here knows a better way to merge them. */
async function updateState(execution: Execution): Promise<Ending> {
  const { assignment } = execution;
  const { values } = stateUpdateOf(assignment);
  const before = threadValuesOf(assignment);
  const both = isRecord(before) && isRecord(values);
  const after = values === undefined || values === null ? (before ?? {}) : both ? { ...before, ...values } : values;
  const json = toJson(after, "values");
  void execution.emit(viewCheckpoint(assignment, json, undefined, "update"));
  void execution.emit(valuesEvent(assignment, json));
  return { outcome: "success", values: json };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
