// A plain function as an agent: it answers with the last human message, word by word, and needs no framework.

/** @param {import("@fairlead/runner").RunContext} run */
export async function echo(run) {
  const before = run.values?.messages ?? [];
  const sent = [run.input?.messages ?? []].flat().map(withId(run));
  const asked = sent.findLast((message) => message.type === "human" || message.role === "user");
  const text = textOf(asked?.content ?? "Say something and I will repeat it.");
  await run.emit.custom({ name: "progress", payload: { words: text.split(" ").length } });
  const id = `${run.runId}-answer`;
  for (const [index, word] of text.split(" ").entries()) {
    await run.emit.messages(index === 0 ? word : ` ${word}`, { id, node: "echo" });
  }
  return { messages: [...before, ...sent, { type: "ai", content: text, id }] };
}

/** A message that comes without an id gets one that is the same in every attempt. */
function withId(run) {
  return (message, index) => {
    const { role, ...rest } = typeof message === "string" ? { role: "user", content: message } : message;
    const type = rest.type ?? { user: "human", assistant: "ai" }[role] ?? role ?? "human";
    return { ...rest, type, id: rest.id ?? `${run.runId}-${index}` };
  };
}

function textOf(content) {
  if (typeof content === "string") return content;
  return content.map((block) => block.text ?? "").join("");
}
