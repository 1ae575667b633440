import type { Phases } from "../load/closed-loop.js";
import type { JobResult } from "../load/jobs.js";
import { createTally, type Tally } from "../load/tally.js";

/** What the parts can do alone on this machine: nothing that uses them can be faster. */
export type LimitJob =
  /** Add a job, take it with a worker of the same process, know that it is done. */
  | {
      readonly kind: "bullmq";
      readonly redisUrl: string;
      readonly clients: number;
      readonly warmUpMs: number;
      readonly measureMs: number;
    }
  /** Durable inserts: what arrives during a flush is written by the next one, one statement each, on one connection. */
  | {
      readonly kind: "commits";
      readonly databaseUrl: string;
      readonly clients: number;
      readonly warmUpMs: number;
      readonly measureMs: number;
    }
  /** The echo graph alone, without any server. */
  | { readonly kind: "graph"; readonly clients: number; readonly warmUpMs: number; readonly measureMs: number };

/** Runs `once` in so many loops; only what ends inside the window counts. */
export async function loops(
  job: { clients: number; warmUpMs: number; measureMs: number },
  phases: Phases,
  once: (client: number) => Promise<void>,
): Promise<JobResult> {
  const tally: Tally = createTally();
  let open = false;
  let over = false;
  const running = Array.from({ length: job.clients }, async (_, client) => {
    while (!over) {
      const from = performance.now();
      await once(client);
      if (!open) continue;
      tally.operations++;
      tally.time("whole", performance.now() - from);
    }
  });
  await new Promise((resolve) => setTimeout(resolve, job.warmUpMs));
  await phases.started();
  open = true;
  const from = performance.now();
  await new Promise((resolve) => setTimeout(resolve, job.measureMs));
  tally.seconds = (performance.now() - from) / 1_000;
  open = false;
  await phases.measured();
  over = true;
  await Promise.all(running);
  return tally.result();
}
