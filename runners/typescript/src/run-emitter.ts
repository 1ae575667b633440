import { randomUUID } from "node:crypto";
import type { Execution } from "./agent.js";
import { eventHead } from "./event-encoding.js";
import { type Assignment, Family } from "./generated/fairlead/runner/v1/runner.js";
import { toJson } from "./json.js";
import { addText, finishMessage, type OpenMessage, openBlock, startMessage } from "./message-grammar.js";
import type { OutgoingEvent } from "./outbox.js";

// How an agent function speaks while it runs. Each call answers with a promise that waits when events are made faster than they can be sent;
// awaiting it is what keeps memory bounded.

export interface Emitter {
  /** The whole state of the thread as it is now. */
  values(values: unknown): Promise<void>;
  /** Anything. An object with `name` can be subscribed to by that name. */
  custom(data: unknown): Promise<void>;
  /** What a node of the agent has changed. */
  updates(node: string, delta: unknown): Promise<void>;
  /** The next piece of a streamed message. Pieces with the same id, or without one, belong to the same message. */
  messages(text: string, options?: MessageOptions): Promise<void>;
}

export interface MessageOptions {
  /** Use it again for the message in the final values, so that clients see one message and not two. */
  readonly id?: string;
  readonly node?: string;
}

/** What the function's runtime needs beside. */
export interface RunEmitter extends Emitter {
  /** Was this state the last thing that was emitted? Then it need not be repeated at the end. */
  hasJustSaid(values: string): boolean;
  /** The run stops at these questions. */
  interrupted(values: string, questions: readonly { readonly id: string; readonly json: string }[]): void;
  /** Ends an open message. */
  settle(): void;
}

interface Streaming {
  readonly open: OpenMessage;
  readonly node: string;
  readonly bodyHead: Uint8Array;
  readonly tupleHead: Uint8Array;
  readonly partialHead: Uint8Array;
  text: string;
  /** The legacy chunk is this, the JSON text, and `chunkEnd`. */
  readonly chunkEnd: string;
  readonly metadata: string;
}

const modes = ["values", "custom", "updates", "messages-tuple", "messages"] as const;

const valuesHead = eventHead({ family: Family.FAMILY_VALUES });
const valuesLegacyHead = eventHead({ family: Family.FAMILY_VALUES, mode: "values" });
const inputHead = eventHead({ family: Family.FAMILY_INPUT });
const customHead = eventHead({ family: Family.FAMILY_CUSTOM });
const customLegacyHead = eventHead({ family: Family.FAMILY_CUSTOM, mode: "custom" });

export function valuesEvent(assignment: Assignment, json: string, legacyBody = ""): OutgoingEvent {
  const asked = assignment.streamModes.includes("values");
  return { head: asked ? valuesLegacyHead : valuesHead, body: json, legacyBody: asked ? legacyBody : "", delta: false };
}

export function createRunEmitter(execution: Execution): RunEmitter {
  const { assignment } = execution;
  const asked = new Set(modes.filter((mode) => assignment.streamModes.includes(mode)));
  const heads = new Map<string, Uint8Array>();
  let streaming: Streaming | undefined;
  let lastValues: string | undefined;

  /** Heads with a node in them are made once per run and node. */
  function nodeHead(family: Family, node: string, mode = "", name = ""): Uint8Array {
    const key = `${family}|${mode}|${name}|${node}`;
    let head = heads.get(key);
    if (head === undefined) {
      head = eventHead({ family, mode, name, node });
      heads.set(key, head);
    }
    return head;
  }

  function send(head: Uint8Array, body: string, legacyBody = "", delta = false): Promise<void> {
    return execution.emit({ head, body, legacyBody, delta, paced: true });
  }

  function sendValues(json: string): Promise<void> {
    settle();
    lastValues = json;
    execution.remember(json);
    return execution.emit(valuesEvent(assignment, json));
  }

  function custom(data: unknown): Promise<void> {
    const json = toJson(data, "custom");
    const named = typeof data === "object" && data !== null && !Array.isArray(data) && "name" in data;
    lastValues = undefined;
    const body = named ? json : `{"payload":${json}}`;
    return asked.has("custom") ? send(customLegacyHead, body, named ? "" : json) : send(customHead, body);
  }

  function updates(node: string, delta: unknown): Promise<void> {
    const json = toJson(delta, "updates");
    settle();
    lastValues = undefined;
    if (!asked.has("updates")) return send(nodeHead(Family.FAMILY_UPDATES, node), json);
    return send(nodeHead(Family.FAMILY_UPDATES, node, "updates"), json, `{${JSON.stringify(node)}:${json}}`);
  }

  function messages(text: string, options: MessageOptions = {}): Promise<void> {
    if (typeof text !== "string") {
      return Promise.reject(new TypeError(`emit.messages: the piece must be a string, it is ${typeof text}.`));
    }
    lastValues = undefined;
    if (streaming !== undefined && options.id !== undefined && options.id !== streaming.open.id) settle();
    streaming ??= begin(options);
    const current = streaming;
    current.text += text;
    for (const { body } of openBlock(current.open, "text")) void send(current.bodyHead, body);
    const body = addText(current.open, text);
    if (asked.has("messages")) {
      void send(current.partialHead, "", `[{"content":${JSON.stringify(current.text)}${current.chunkEnd}]`, true);
    }
    if (!asked.has("messages-tuple")) return send(current.bodyHead, body, "", true);
    return send(
      current.tupleHead,
      body,
      `[{"content":${JSON.stringify(text)}${current.chunkEnd},${current.metadata}]`,
      true,
    );
  }

  function begin({ id = `run-${randomUUID()}`, node = assignment.graphId }: MessageOptions): Streaming {
    const { runId } = assignment.run!;
    const metadata = JSON.stringify({
      tags: [],
      graph_id: assignment.graphId,
      assistant_id: assignment.agentId,
      run_attempt: assignment.attempt,
      thread_id: assignment.threadId,
      run_id: runId,
      langgraph_step: 1,
      langgraph_node: node,
      langgraph_checkpoint_ns: `${node}:${runId}`,
    });
    const [open, start] = startMessage(id, "ai", { run_id: runId, thread_id: assignment.threadId });
    void send(nodeHead(Family.FAMILY_MESSAGES, node), start.body);
    if (asked.has("messages")) {
      const head = nodeHead(Family.FAMILY_MESSAGES, node, "messages", "messages/metadata");
      void send(head, "", `{${JSON.stringify(id)}:{"metadata":${metadata}}}`);
    }
    const rest = {
      tool_calls: [],
      additional_kwargs: {},
      invalid_tool_calls: [],
      tool_call_chunks: [],
      response_metadata: {},
    };
    const chunkEnd = `,${JSON.stringify({ ...rest, id, type: "ai" }).slice(1)}`;
    return {
      open,
      node,
      bodyHead: nodeHead(Family.FAMILY_MESSAGES, node),
      tupleHead: nodeHead(Family.FAMILY_MESSAGES, node, "messages-tuple", "messages"),
      partialHead: nodeHead(Family.FAMILY_MESSAGES, node, "messages", "messages/partial"),
      text: "",
      chunkEnd,
      metadata,
    };
  }

  function settle(): void {
    const ending = streaming;
    if (ending === undefined) return;
    streaming = undefined;
    for (const { body } of finishMessage(ending.open)) void send(ending.bodyHead, body);
    if (!asked.has("messages")) return;
    const head = nodeHead(Family.FAMILY_MESSAGES, ending.node, "messages", "messages/complete");
    void send(head, "", `[{"content":${JSON.stringify(ending.text)}${ending.chunkEnd}]`);
  }

  return {
    values: (values) => sendValues(toJson(values, "values")),
    custom,
    updates,
    messages,
    hasJustSaid: (values) => values === lastValues,
    interrupted: (values, questions) => {
      settle();
      const list = questions.map(({ id, json }) => `{"id":"${id}","value":${json}}`).join(",");
      for (const { id, json } of questions) {
        void send(inputHead, `{"interrupt_id":"${id}","payload":${json},"value":${json}}`);
      }
      if (asked.has("updates")) {
        void send(eventHead({ family: Family.FAMILY_UPDATES, mode: "updates" }), "", `{"__interrupt__":[${list}]}`);
      }
      void execution.emit(valuesEvent(assignment, values, withInterrupts(values, list)));
    },
    settle,
  };
}

/** The full state plus the key: a client that takes an event of `values` for the state must not lose its messages at an interrupt. */
export function withInterrupts(values: string, list: string): string {
  if (!values.startsWith("{")) return `{"__interrupt__":[${list}]}`;
  return values === "{}" ? `{"__interrupt__":[${list}]}` : `${values.slice(0, -1)},"__interrupt__":[${list}]}`;
}
