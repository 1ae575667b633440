// A LangGraph.js agent that runs without network and keys: its model repeats the last human message, token by token. With `ask` in the input it
// stops before answering and waits for a person; resume it with the answer.

import { SimpleChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

class ParrotModel extends SimpleChatModel {
  _llmType() {
    return "parrot";
  }

  async _call(messages) {
    return `You said: ${messages.findLast((message) => message.getType() === "human")?.text ?? "nothing"}`;
  }

  async *_streamResponseChunks(messages, _options, runManager) {
    for (const text of (await this._call(messages)).match(/\s*\S+/g) ?? []) {
      const chunk = new ChatGenerationChunk({ text, message: new AIMessageChunk({ content: text }) });
      yield chunk;
      await runManager?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

const State = Annotation.Root({ ...MessagesAnnotation.spec, ask: Annotation(), approval: Annotation() });
const parrot = new ParrotModel({});

async function gate(state) {
  if (!state.ask) return {};
  return { approval: interrupt({ question: "May I answer?" }) };
}

async function model(state, config) {
  return { messages: [await parrot.invoke(state.messages, config)] };
}

export const agent = new StateGraph(State)
  .addNode("gate", gate)
  .addNode("model", model)
  .addEdge(START, "gate")
  .addEdge("gate", "model")
  .addEdge("model", END)
  .compile();
