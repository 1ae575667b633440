import path from "node:path";
import { type DevFile, devFilePath } from "./dev-file.js";
import { checkout } from "./options.js";

/** What to try next. Every line can be pasted as it stands. */
export function greeting(dev: DevFile, directory: string, agents: readonly string[]): string {
  const file = devFilePath(directory);
  const agent = agents.includes("echo") ? "echo" : (agents[0] ?? "echo");
  const key = `$(node -p 'require(${JSON.stringify(file)}).tenants[0].apiKey')`;
  const body = JSON.stringify({ assistant_id: agent, input: { messages: [{ role: "user", content: "hello" }] } });
  return `
  Agents       ${agents.join(", ")}
  Keys         ${file} (of this user alone)
  For runners  ${dev.grpcAddress}

  Try it with curl:

    curl -sN ${dev.url}/runs/stream -H "x-api-key: ${key}" \\
      -H 'content-type: application/json' -d '${body}'

  or, here in ${checkout}, with the LangGraph SDK (save it as hello.mjs, run: node hello.mjs):

    import { readFileSync } from "node:fs";
    import { Client } from "@langchain/langgraph-sdk";
    const { url, tenants } = JSON.parse(readFileSync(${JSON.stringify(file)}, "utf8"));
    const client = new Client({ apiUrl: url, apiKey: tenants[0].apiKey });
    const thread = await client.threads.create();
    const input = { messages: [{ role: "user", content: "hello" }] };
    for await (const event of client.runs.stream(thread.thread_id, "${agent}", { input })) console.log(event);

  Your own agent, and everything else: ${path.join(checkout, "README.md")}
  Stop with Ctrl-C. The data stays in ${directory}.
`;
}
