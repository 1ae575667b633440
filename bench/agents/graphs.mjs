// The very file that the JS dev server and our runner both load, so that a row compares servers and not agents.
import { setTimeout as pause } from "node:timers/promises";
import { AIMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

/** @type {() => import("@langchain/langgraph").LastValue<number>} */
const number = () => Annotation();
const State = Annotation.Root({ ...MessagesAnnotation.spec, n: number(), gap: number() });

export const echo = new StateGraph(MessagesAnnotation)
  .addNode("say", (state) => ({ messages: [new AIMessage(`echo ${state.messages.at(-1)?.text ?? ""}`)] }))
  .addEdge(START, "say")
  .addEdge("say", END)
  .compile();

/** `n` custom events, `gap` milliseconds apart; each says when it was made. */
export const tokens = new StateGraph(State)
  .addNode("speak", async (state, config) => {
    for (let i = 0; i < state.n; i++) {
      if (state.gap > 0 && i > 0) await pause(state.gap);
      config.writer?.({ i, at: performance.timeOrigin + performance.now(), text: "token " });
    }
    return { messages: [new AIMessage("done")] };
  })
  .addEdge(START, "speak")
  .addEdge("speak", END)
  .compile();
