import { isGraphBubbleUp } from "@langchain/langgraph";
import { describeFailure } from "../errors.js";
import type { Step } from "../generated/fairlead/runner/v1/runner.js";
import { endedStep, type StepKind, startedStep, stepId } from "../steps.js";
import { graphNamespace, type MessageCallbacks } from "./message-callbacks.js";

// Model and tool calls, and messages, seen through LangChain's callbacks. The handler is awaited before a model or a tool starts, so it is also
// the place where a run whose lease is in doubt waits.
//
// A callback handler costs LangGraph about half a millisecond per run, whatever it does. Graphs that never call a model or a tool through
// LangChain should not pay for it unless messages were asked for: see `shouldWatch`.

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
type Tags = readonly string[] | undefined;

interface ToolCall {
  readonly namespace: readonly string[];
  readonly toolCallId: string | undefined;
  readonly name: string;
}

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
  /** When messages were asked for. */
  readonly messages: MessageCallbacks | undefined;
  /** When the mode `tools` was asked for. */
  readonly onTool: ((namespace: readonly string[], payload: object) => void) | undefined;
  /** What the last event waits for: a model that is awaited makes no more tokens than can be sent. */
  readonly room: () => Promise<void> | undefined;
}

/** A handler as LangChain takes it; not a class of LangChain's, so that nothing of it must be imported. */
export function stepCallbacks(options: StepCallbackOptions): object {
  const { messages, onTool } = options;
  const running = new Map<string, Step>();
  const tools = new Map<string, ToolCall>();
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
    const step = startedStep({ id: stepId(label, nth), kind, name, parentId, namespace: namespace.slice(0, -1) });
    running.set(runId, step);
    options.onStep(step);
  }

  function end(
    runId: string,
    status: "success" | "error" | "interrupted",
    more: { error?: string; usage?: unknown } = {},
  ): void {
    const step = running.get(runId);
    if (step === undefined) return;
    running.delete(runId);
    options.onStep(endedStep(step, status, more));
  }

  function fail(error: unknown, runId: string): void {
    const { type, message } = describeFailure(error);
    end(runId, "error", { error: `${type}: ${message}` });
  }

  async function startModel(llm: object, runId: string, tags: Tags, metadata: Metadata, name?: string): Promise<void> {
    await start("model", name ?? modelName(llm, metadata), runId, metadata);
    messages?.chatModelStart(runId, tags, metadata, name);
  }

  async function startTool(
    input: unknown,
    runId: string,
    tags: Tags,
    metadata: Metadata,
    name = "unknown",
    callId?: string,
  ) {
    await start("tool", name, runId, metadata);
    if (onTool === undefined || metadata === undefined || tags?.includes("langsmith:hidden")) return;
    const at = metadata["langgraph_checkpoint_ns"];
    const call = { namespace: typeof at === "string" ? graphNamespace(at, metadata) : [], toolCallId: callId, name };
    tools.set(runId, call);
    tell(call, "on_tool_start", { input });
  }

  function tell({ namespace, toolCallId, name }: ToolCall, event: string, more: object): void {
    onTool?.(namespace, { event, toolCallId, name, ...more });
  }

  function tellEnd(runId: string, event: string, more: object): void {
    const call = tools.get(runId);
    tools.delete(runId);
    if (call !== undefined) tell(call, event, more);
  }

  return {
    name: "FairleadSteps",
    awaitHandlers: true,
    // A run that must stop starts no tool: the error of the gate has to reach the caller.
    raiseError: true,
    // Models that can stream do so when somebody reads the pieces.
    lc_prefer_streaming: messages !== undefined,
    ignoreChain: messages === undefined,
    ignoreRetriever: true,
    handleChatModelStart: (
      llm: object,
      _messages: unknown,
      runId: string,
      _parent: unknown,
      _extra: unknown,
      tags: Tags,
      metadata: Metadata,
      name?: string,
    ) => startModel(llm, runId, tags, metadata, name),
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
    handleLLMNewToken: (
      token: string,
      _index: unknown,
      runId: string,
      _parent: unknown,
      _tags: unknown,
      fields?: { chunk?: { message?: unknown } },
    ) => {
      messages?.newToken(token, runId, fields);
      return options.room();
    },
    handleLLMEnd: (output: LlmOutput, runId: string) => {
      messages?.modelEnd(output, runId);
      const usage = output.generations?.[0]?.[0]?.message?.usage_metadata ?? output.llmOutput?.tokenUsage;
      end(runId, "success", { usage });
    },
    handleLLMError: (error: unknown, runId: string) => {
      messages?.failed(runId);
      fail(error, runId);
    },
    handleChainStart: (
      _chain: unknown,
      inputs: unknown,
      runId: string,
      _parent: unknown,
      tags: Tags,
      metadata: Metadata,
      _type: unknown,
      name?: string,
    ) => {
      messages?.nodeStart(inputs, runId, tags, metadata, name);
    },
    handleChainEnd: (outputs: unknown, runId: string) => messages?.nodeEnd(outputs, runId),
    handleChainError: (_error: unknown, runId: string) => messages?.failed(runId),
    handleToolStart: (
      _tool: unknown,
      input: unknown,
      runId: string,
      _parent: unknown,
      tags: Tags,
      metadata: Metadata,
      name?: string,
      callId?: string,
    ) => startTool(input, runId, tags, metadata, name, callId),
    handleToolEvent: (data: unknown, runId: string) => {
      const call = tools.get(runId);
      if (call !== undefined) tell(call, "on_tool_event", { data });
    },
    handleToolEnd: (output: unknown, runId: string) => {
      tellEnd(runId, "on_tool_end", { output });
      end(runId, "success");
    },
    handleToolError: (error: unknown, runId: string) => {
      if (isGraphBubbleUp(error)) {
        tools.delete(runId);
        return end(runId, "interrupted");
      }
      tellEnd(runId, "on_tool_error", { error });
      return fail(error, runId);
    },
  };
}

function modelName(llm: object, metadata: Metadata): string {
  const named = metadata?.["ls_model_name"];
  if (typeof named === "string") return named;
  const id = (llm as { id?: readonly string[] }).id;
  return id?.[id.length - 1] ?? "model";
}
