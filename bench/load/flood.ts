import type { Phases } from "./closed-loop.js";
import { type Connection, openConnection } from "./http.js";
import type { Job, JobResult } from "./jobs.js";
import { streamOnce } from "./streams.js";
import { clockMs, createTally } from "./tally.js";

/**
 * A flood that goes on: who has read a run to its end begins the next. Probes come at a fixed pace, so that a slow one hides none of those behind
 * it, and their tokens are counted apart. Tokens and probes that ended before or after the window count as owed, not as measured.
 */
export async function flood(job: Extract<Job, { kind: "flood" }>, phases: Phases): Promise<JobResult> {
  const tally = createTally();
  const probes = createTally();
  let open = false;
  let over = false;
  const connections = Array.from({ length: job.runs }, () => openConnection(job.target.url));
  const flooding = connections.map(async (connection) => {
    while (!over) {
      const wanted = { tokens: job.tokens, gapMs: 0 };
      const good = await streamOnce(connection, job.target, tally, wanted, (made, at) => {
        if (!open) return;
        tally.operations++;
        tally.time("token", at - made.at);
      });
      // A refused connection must not become a busy loop.
      if (!good) await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });

  const idle: Connection[] = [];
  const probing = new Set<Promise<void>>();
  const probe = async (): Promise<void> => {
    const connection = idle.pop() ?? openConnection(job.target.url);
    const from = clockMs();
    const isMeasured = open;
    let first = true;
    const good = await streamOnce(connection, job.target, probes, { tokens: 1, gapMs: 0 }, (_made, at) => {
      if (first && isMeasured) tally.time("newRunFirstEvent", at - from);
      first = false;
    });
    if (!good) tally.error("a probe failed");
    idle.push(connection);
  };
  const pace = setInterval(() => {
    const one = probe().finally(() => probing.delete(one));
    probing.add(one);
  }, job.probeEveryMs);

  await new Promise((resolve) => setTimeout(resolve, job.warmUpMs));
  await phases.started();
  open = true;
  const from = performance.now();
  await new Promise((resolve) => setTimeout(resolve, job.measureMs));
  open = false;
  tally.seconds = (performance.now() - from) / 1_000;
  await phases.measured();
  over = true;
  clearInterval(pace);
  await Promise.all([...flooding, ...probing]);
  tally.acknowledged += probes.acknowledged;
  await Promise.all([...connections, ...idle].map((connection) => connection.close()));
  const { owed, delivered, doubled, disordered, errors, ...result } = tally.result();
  return {
    ...result,
    owed: owed + probes.owed,
    delivered: delivered + probes.delivered,
    doubled: doubled + probes.doubled,
    disordered: disordered + probes.disordered,
    errors: { ...probes.result().errors, ...errors },
  };
}
