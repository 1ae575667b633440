// The first run, before the user's eyes: the same requests that any client sends, over the same port.
import type { DevFile } from "./dev-file.js";
import type { Say } from "./stores.js";

const TIMEOUT_MS = 20_000;
const LINE_WIDTH = 150;
const SAYS = "Hello, Fairlead! Who carries this message?";

export interface ListedAgent {
  readonly assistant_id: string;
  readonly graph_id: string;
}

interface Call {
  readonly url: string;
  readonly key: string;
  readonly signal: AbortSignal;
}

/** What the API key sees. This is also the proof that the key, the listener and the store work together. */
export function listAgents(call: Call): Promise<ListedAgent[]> {
  return post<ListedAgent[]>(call, "/assistants/search", { limit: 100 });
}

/** A failure is shown and ends nothing: the plane is up, and whoever sees the line can look further. */
export async function demonstrate(
  dev: DevFile,
  agents: readonly ListedAgent[],
  stop: AbortSignal,
  say: Say,
): Promise<void> {
  const agent = agents.find(({ graph_id }) => graph_id === "echo") ?? agents[0];
  const key = dev.tenants[0]?.apiKey;
  if (agent === undefined || key === undefined) return;
  const call = { url: dev.url, key, signal: AbortSignal.any([stop, AbortSignal.timeout(TIMEOUT_MS)]) };
  try {
    const thread = await post<{ thread_id: string }>(call, "/threads", {});
    say(`A first run. You say to the agent "${agent.graph_id}": ${SAYS}`);
    await streamRun(call, thread.thread_id, agent.assistant_id, say);
  } catch (error) {
    if (!stop.aborted) say(`The first run could not be shown: ${(error as Error).message}`);
  }
}

async function streamRun(call: Call, threadId: string, assistantId: string, say: Say): Promise<void> {
  const response = await request(call, `/threads/${threadId}/runs/stream`, {
    assistant_id: assistantId,
    input: { messages: [{ role: "user", content: SAYS }] },
    stream_mode: ["messages-tuple", "custom", "updates", "values"],
  });
  let text = "";
  for await (const frame of frames(response)) {
    say(shortened(`  ${frame.id.padStart(3)}  ${frame.event.padEnd(9)} ${frame.data}`));
    if (frame.event === "messages") text += textOf(frame.data);
    if (frame.event === "error") return;
  }
  if (text !== "") say(`The agent says: ${text}`);
}

function textOf(data: string): string {
  const [chunk] = JSON.parse(data) as [{ type?: string; content?: unknown }?];
  return chunk?.type === "ai" && typeof chunk.content === "string" ? chunk.content : "";
}

function shortened(line: string): string {
  return line.length <= LINE_WIDTH ? line : `${line.slice(0, LINE_WIDTH - 2)} …`;
}

interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** The plane writes each field of a frame on one line, and comments as keep-alives. */
async function* frames(response: Response): AsyncGenerator<Frame> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of response.body ?? []) {
    rest += decoder.decode(bytes as Uint8Array, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
      if (field("event") !== "") yield { id: field("id"), event: field("event"), data: field("data") };
    }
  }
}

async function post<Answer>(call: Call, route: string, body: unknown): Promise<Answer> {
  return (await request(call, route, body)).json() as Promise<Answer>;
}

async function request(call: Call, route: string, body: unknown): Promise<Response> {
  const response = await fetch(call.url + route, {
    method: "POST",
    headers: { "x-api-key": call.key, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: call.signal,
  });
  if (response.ok) return response;
  throw new UnexpectedAnswer(route, response.status, await response.text());
}

class UnexpectedAnswer extends Error {
  override readonly name = "UnexpectedAnswer";
  constructor(route: string, status: number, body: string) {
    super(`POST ${route} answered ${status}: ${body.slice(0, 200)}`);
  }
}
