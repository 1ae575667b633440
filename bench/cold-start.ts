import type { Session } from "./compare.js";
import { residentMiB, waitForQuiet } from "./cpu.js";
import { startDevServer } from "./dev-server.js";
import { echoBody } from "./load/closed-loop.js";
import { cores } from "./options.js";
import { startPlane } from "./plane.js";
import { printTable, saveLine } from "./report.js";
import { spread } from "./statistics.js";
import type { System } from "./system.js";

interface ColdStart {
  readonly ready: number;
  /** From the start of the process to the end of the first run; the runner was started when the plane was ready. */
  readonly firstRun: number;
  readonly residentMiB: number;
}

/** Process start → ready → first run done, and memory when idle. Migrated databases and installed packages are there. */
export async function measureColdStart({ stores, options, about }: Session): Promise<void> {
  const rows: { name: string; times: ColdStart[] }[] = [];
  for (const agents of options.agents) {
    rows.push({
      name: `fairlead ${agents}`,
      times: await repeat(options.pairs, async () => {
        const plane = await startPlane(stores, { agents });
        const firstRun = plane.startedMs.runner + (await firstRunMs(plane));
        const result = { ready: plane.startedMs.ready, firstRun, residentMiB: residentMiB(plane.plane.pid) };
        await plane.stop();
        return result;
      }),
    });
  }
  if (options.peers) {
    rows.push({
      name: "JS dev server",
      times: await repeat(options.pairs, async () => {
        const server = await startDevServer();
        const firstRun = server.startedMs.ready + (await firstRunMs(server));
        const result = { ready: server.startedMs.ready, firstRun, residentMiB: residentMiB(server.servingPid()) };
        await server.stop();
        return result;
      }),
    });
  }
  process.stdout.write("\nW14 cold start (ms; median, and least to most)\n");
  printTable(
    ["system", "ready", "", "first run done", "", "MiB"],
    rows.map(({ name, times }) => {
      const ready = spread(times.map((one) => one.ready));
      const first = spread(times.map((one) => one.firstRun));
      const memory = spread(times.map((one) => one.residentMiB));
      if (options.save) saveLine({ ...about, workload: "W14", row: name, ready, firstRun: first, residentMiB: memory });
      return [
        name,
        ready.median,
        `${ready.min} to ${ready.max}`,
        first.median,
        `${first.min} to ${first.max}`,
        memory.median,
      ];
    }),
  );
}

async function repeat(times: number, once: () => Promise<ColdStart>): Promise<ColdStart[]> {
  const results: ColdStart[] = [];
  for (let n = 0; n < times; n++) {
    await waitForQuiet(35, 5_000, cores);
    results.push(await once());
  }
  return results;
}

async function firstRunMs(system: System): Promise<number> {
  const from = performance.now();
  const answer = await fetch(`${system.url}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json", ...system.headers },
    body: echoBody("first"),
  });
  const text = await answer.text();
  if (!answer.ok || !text.includes("first"))
    throw new Error(`The first run of ${system.name} failed: ${answer.status} ${text.slice(0, 200)}`);
  return Math.round(performance.now() - from);
}
