import { AIMessage, AIMessageChunk } from "@langchain/core/messages";
import { FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

// The graphs that the official JS dev server (`@langchain/langgraph-api` 1.5.1 with langgraph 1.7.3 and core 1.4.0) ran when
// recorded/langgraph-api-1.5.1.json was taken down, statement for statement.

const EchoState = Annotation.Root({
  ...MessagesAnnotation.spec,
  steps: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  ask: Annotation<boolean>(),
  answer: Annotation<unknown>(),
});

export const echo = new StateGraph(EchoState)
  .addNode("gate", async (state, config) => {
    config.writer?.({ gate: true });
    if (!state.ask) return { steps: ["gate"] };
    const answer: unknown = interrupt({ question: "go?" });
    return { answer, steps: ["gate"] };
  })
  .addNode("say", async (state) => ({
    steps: ["say"],
    messages: [new AIMessage({ content: `echo ${state.messages.at(-1)?.text ?? ""}`, id: "fixed-ai" })],
  }))
  .addEdge(START, "gate")
  .addEdge("gate", "say")
  .addEdge("say", END)
  .compile();

function fakeModel(): FakeStreamingChatModel {
  const pieces = ["Hello", " there", ",", " friend"];
  return new FakeStreamingChatModel({
    sleep: 5,
    chunks: pieces.map((content) => new AIMessageChunk({ content, id: "m-1" })),
  });
}

export const agent = new StateGraph(MessagesAnnotation)
  .addNode("model", async (state, config) => ({ messages: [await fakeModel().invoke(state.messages, config)] }))
  .addEdge(START, "model")
  .addEdge("model", END)
  .compile();

const inner = new StateGraph(MessagesAnnotation)
  .addNode("model", async (state, config) => ({ messages: [await fakeModel().invoke(state.messages, config)] }))
  .addNode("tail", async () => ({}))
  .addEdge(START, "model")
  .addEdge("model", "tail")
  .addEdge("tail", END)
  .compile();

export const nested = new StateGraph(MessagesAnnotation)
  .addNode("inner", inner)
  .addNode("after", async () => ({ messages: [new AIMessage({ content: "done", id: "after-1" })] }))
  .addEdge(START, "inner")
  .addEdge("inner", "after")
  .addEdge("after", END)
  .compile();
