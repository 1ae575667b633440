import { AsyncLocalStorage } from "node:async_hooks";
import type { Execution } from "./agent.js";
import {
  type Command,
  commandOf,
  configOf,
  contextOf,
  metadataOf,
  type RunConfig,
  threadValuesOf,
} from "./assignment.js";
import { describeFailure } from "./errors.js";
import { toJson } from "./json.js";
import type { Logger } from "./log.js";
import type { Emitter } from "./run-emitter.js";
import { endedStep, isStepKind, type StepKind, startedStep, stepEvent, stepId } from "./steps.js";
import type { Tool, ToolDenied } from "./tools.js";

/** Agents know the shapes of their own data; the SDK does not. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Anything = any;

/** What an agent function gets. Everything is read lazily: what it does not look at is not parsed. */
export interface RunContext<Input = Anything, Values = Anything> {
  readonly input: Input;
  readonly config: RunConfig;
  readonly context: Anything;
  readonly metadata: Record<string, unknown>;
  readonly threadId: string;
  readonly runId: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly graphId: string;
  /** 1 for the first; a lost runner raises it. */
  readonly attempt: number;
  /** Aborted when the run must stop; its reason says why. */
  readonly signal: AbortSignal;
  /** The thread's state as the last run left it; undefined on a new thread. */
  readonly values: Values | undefined;
  /** The answer that this run was started with; undefined when it was started with an input. */
  readonly resume: unknown;
  readonly emit: Emitter;
  readonly log: Logger;
  /**
   * Runs a piece of work as a step of its own: it is shown, timed, and not started while it is in doubt whether this runner still holds the run.
   */
  step<Result>(kind: StepKind, name: string, work: (step: StepInfo) => Result | Promise<Result>): Promise<Result>;
  /**
   * Calls a tool when the tenant's policy allows it, as a step of its own. A denial comes back as data for the model: look with `isDenied`. The tool gets the
   * arguments that were judged.
   */
  tool<Args, Result>(tool: Tool<Args, Result>, args: Args): Promise<Result | ToolDenied>;
  /**
   * Asks a person. The first time, it ends the run as waiting. The run that brings the answer starts the function from its beginning, with the
   * input that it had then, and this call returns the answer. Calls are matched with answers in order, so ask the same questions in the same order each time.
   */
  interrupt<Answer = Anything>(question: unknown): Answer;
}

export interface StepInfo {
  /** The same for the same piece of work in every attempt. */
  readonly id: string;
  /** For services that can tell a repeated request from a new one. */
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  /** What a model call used, for example `{input_tokens: 12, output_tokens: 3}`. */
  usage(usage: Record<string, unknown>): void;
}

const currentStep = new AsyncLocalStorage<string>();

export function createRunContext(
  execution: Execution,
  emitter: () => Emitter,
  interrupt: (question: unknown) => unknown,
  input: string,
): RunContext {
  const { assignment } = execution;
  const run = assignment.run!;
  const seen = new Map<string, number>();

  async function step<Result>(
    kind: StepKind,
    name: string,
    work: (step: StepInfo) => Result | Promise<Result>,
  ): Promise<Result> {
    if (!isStepKind(kind)) {
      throw new TypeError(
        `step: the kind "${String(kind)}" is unknown. Use model, tool, agent, node, guardrail, handoff or function.`,
      );
    }
    await execution.mayStartWork();
    const label = `${kind}:${name}`;
    const nth = (seen.get(label) ?? 0) + 1;
    seen.set(label, nth);
    const id = stepId(kind, name, nth);
    const started = startedStep({ id, kind, name, parentId: currentStep.getStore() });
    void execution.emit(stepEvent(started));
    let usage: unknown;
    const info: StepInfo = {
      id,
      idempotencyKey: `${run.runId}:${id}`,
      get signal() {
        return execution.signal;
      },
      usage: (used) => {
        usage = used;
      },
    };
    try {
      const result = await currentStep.run(id, () => work(info));
      await execution.emit(stepEvent(endedStep(started, "success", { usage })));
      return result;
    } catch (error) {
      const { type, message } = describeFailure(error);
      void execution.emit(stepEvent(endedStep(started, "error", { error: `${type}: ${message}`, usage })));
      throw error;
    }
  }

  const callTool = <Args, Result>(tool: Tool<Args, Result>, args: Args): Promise<Result | ToolDenied> =>
    step("tool", tool.name, async ({ signal }) => {
      const { name, schemaDigest } = tool;
      const question = { tool: name, schemaDigest, args: toJson(args, `The arguments of ${name}`) };
      const verdict = await execution.ask(question);
      if (!verdict.allowed) return { denied: true, message: verdict.message } as const;
      // The answer may have come late: whoever has lost the run meanwhile calls nothing.
      await execution.mayStartWork();
      return tool.call(JSON.parse(verdict.args) as Args, signal);
    });

  return {
    get input() {
      return once(this, "input", input === "" ? null : (JSON.parse(input) as unknown));
    },
    get config() {
      return once(this, "config", configOf(assignment));
    },
    get context() {
      return once(this, "context", contextOf(assignment) ?? {});
    },
    get metadata() {
      return once(this, "metadata", metadataOf(assignment));
    },
    get values() {
      return once(this, "values", threadValuesOf(assignment));
    },
    get resume() {
      return once(this, "resume", (commandOf(assignment) as Command | undefined)?.resume);
    },
    get signal() {
      return execution.signal;
    },
    threadId: assignment.threadId,
    runId: run.runId,
    tenantId: run.tenantId,
    agentId: assignment.agentId,
    graphId: assignment.graphId,
    attempt: assignment.attempt,
    get emit() {
      return emitter();
    },
    log: execution.log,
    step,
    tool: callTool,
    interrupt: interrupt as RunContext["interrupt"],
  };
}

/** Replaces a getter by what it found, so that changes which the function makes to its input are kept. */
function once<Value>(target: object, key: string, value: Value): Value {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  return value;
}
