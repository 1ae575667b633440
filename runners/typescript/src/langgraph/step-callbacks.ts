import { describeFailure } from "../errors.js";
import type { Step } from "../generated/fairlead/runner/v1/runner.js";
import { endedStep, type StepKind, startedStep } from "../steps.js";

// Model and tool calls, seen through LangChain's callbacks. The handler is awaited before a model or a tool starts, so it is also the place where
// a run whose lease is in doubt waits.
//
// A callback handler costs LangGraph about half a millisecond per run, whatever it does. Graphs that never call a model or a tool through
// LangChain should not pay for it: see `shouldWatch`.

const ALWAYS_FOR = 50;
const THEN_EVERY = 10;

/** What was learned about one graph in this process. */
export interface CallHistory {
  runs: number;
  seen: boolean;
}

export function shouldWatch(history: CallHistory): boolean {
  history.runs += 1;
  return history.seen || history.runs <= ALWAYS_FOR || history.runs % THEN_EVERY === 0;
}

type Metadata = Record<string, unknown> | undefined;

interface LlmOutput {
  readonly generations?: readonly (readonly { readonly message?: { readonly usage_metadata?: unknown } }[])[];
  readonly llmOutput?: { readonly tokenUsage?: unknown };
}

export interface StepCallbackOptions {
  readonly history: CallHistory;
  readonly mayStartWork: () => Promise<void> | undefined;
  readonly onStep: (step: Step) => void;
  /** The step of the task in which a call happens. */
  readonly parentOf: (namespace: readonly string[]) => string;
}

/** A handler as LangChain takes it; not a class of LangChain's, so that nothing of it must be imported. */
export function stepCallbacks(options: StepCallbackOptions): object {
  const running = new Map<string, Step>();
  const counts = new Map<string, number>();

  async function start(kind: StepKind, name: string, runId: string, metadata: Metadata): Promise<void> {
    options.history.seen = true;
    await options.mayStartWork();
    const place = metadata?.["langgraph_checkpoint_ns"];
    const namespace = typeof place === "string" ? place.split("|") : [];
    const parentId = options.parentOf(namespace);
    const label = `${parentId}:${kind}:${name}`;
    const nth = (counts.get(label) ?? 0) + 1;
    counts.set(label, nth);
    const step = startedStep({ id: `${label}:${nth}`, kind, name, parentId, namespace: namespace.slice(0, -1) });
    running.set(runId, step);
    options.onStep(step);
  }

  function end(runId: string, status: "success" | "error", more: { error?: string; usage?: unknown } = {}): void {
    const step = running.get(runId);
    if (step === undefined) return;
    running.delete(runId);
    options.onStep(endedStep(step, status, more));
  }

  function fail(error: unknown, runId: string): void {
    const { type, message } = describeFailure(error);
    end(runId, "error", { error: `${type}: ${message}` });
  }

  return {
    name: "FairleadSteps",
    awaitHandlers: true,
    // A run that must stop starts no tool: the error of the gate has to reach the caller.
    raiseError: true,
    ignoreChain: true,
    ignoreRetriever: true,
    ignoreCustomEvent: true,
    handleChatModelStart: (
      llm: object,
      _messages: unknown,
      runId: string,
      _parent: unknown,
      _extra: unknown,
      _tags: unknown,
      metadata: Metadata,
      name?: string,
    ) => start("model", name ?? modelName(llm, metadata), runId, metadata),
    handleLLMStart: (
      llm: object,
      _prompts: unknown,
      runId: string,
      _parent: unknown,
      _extra: unknown,
      _tags: unknown,
      metadata: Metadata,
      name?: string,
    ) => start("model", name ?? modelName(llm, metadata), runId, metadata),
    handleLLMEnd: (output: LlmOutput, runId: string) => {
      const usage = output.generations?.[0]?.[0]?.message?.usage_metadata ?? output.llmOutput?.tokenUsage;
      end(runId, "success", { usage });
    },
    handleLLMError: fail,
    handleToolStart: (
      _tool: unknown,
      _input: unknown,
      runId: string,
      _parent: unknown,
      _tags: unknown,
      metadata: Metadata,
      name?: string,
    ) => start("tool", name ?? "tool", runId, metadata),
    handleToolEnd: (_output: unknown, runId: string) => end(runId, "success"),
    handleToolError: fail,
  };
}

function modelName(llm: object, metadata: Metadata): string {
  const named = metadata?.["ls_model_name"];
  if (typeof named === "string") return named;
  const id = (llm as { id?: readonly string[] }).id;
  return id?.[id.length - 1] ?? "model";
}
