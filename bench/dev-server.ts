import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startChild } from "./child.js";
import { processTree, residentMiB } from "./cpu.js";
import { benchFolder, built } from "./place.js";
import type { System } from "./system.js";

/** LangGraph's JS dev server on the very graph file that our runner loads. It keeps everything in memory and in one JSON file. */
export async function startDevServer(): Promise<
  System & { readonly startedMs: { readonly ready: number }; servingPid(): number }
> {
  // Below bench/, so that the graph file finds its packages; fresh, so that no runs of earlier stages slow it down.
  const state = join(benchFolder, ".state");
  mkdirSync(state, { recursive: true });
  const folder = mkdtempSync(join(state, "dev-server-"));
  for (const file of ["graphs.mjs", "langgraph.json"])
    copyFileSync(join(benchFolder, "agents", file), join(folder, file));
  const { freePort } = await built<{ freePort(): Promise<number> }>("platform/free-port.js");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const startedAt = performance.now();
  const cli = join(benchFolder, "node_modules/@langchain/langgraph-cli/dist/cli/cli.mjs");
  const server = startChild(
    process.execPath,
    [cli, "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", String(port)],
    { cwd: folder, env: { LANGGRAPH_CLI_NO_ANALYTICS: "1", LANGSMITH_TRACING: "false" } },
  );
  const stop = async (): Promise<void> => {
    // The process that serves is a grandchild, which does not end with the command.
    for (const pid of processTree(server.pid).reverse()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended with its parent.
      }
    }
    await server.stop("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  const deadline = performance.now() + 60_000;
  for (;;) {
    const up = await fetch(`${url}/ok`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (up) break;
    if (performance.now() > deadline) {
      await stop();
      throw new Error(`The JS dev server did not come up:\n${server.output()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    name: "JS dev server",
    url,
    headers: {},
    groups: { server: [server.pid] },
    startedMs: { ready: Math.round(performance.now() - startedAt) },
    // Of the chain of processes that the command starts, the one that holds the graphs is the biggest.
    servingPid: () => biggest(processTree(server.pid)),
    audit: () => Promise.resolve(null),
    stop,
  };
}

function biggest(pids: readonly number[]): number {
  return [...pids].sort((a, b) => residentMiB(b) - residentMiB(a))[0] ?? 0;
}
