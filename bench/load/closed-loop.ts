import { type Connection, openConnection } from "./http.js";
import type { Job, JobResult, Target } from "./jobs.js";
import { createTally, type Tally } from "./tally.js";

export interface Phases {
  /** The warm-up is over and the accounts are open. Resolves when they have been read. */
  started(): Promise<void>;
  measured(): Promise<void>;
}

let nonce = 0;

export function echoBody(text: string): string {
  return `{"assistant_id":"echo","input":{"messages":[{"role":"user","content":"${text}"}]}}`;
}

/** One run through `/runs/wait`. Its answer must hold what was said to it. */
async function waitOnce(connection: Connection, target: Target, tally: Tally): Promise<boolean> {
  const said = `n-${process.pid}-${++nonce}`;
  try {
    const answer = await connection.send("POST", "/runs/wait", target.headers, echoBody(said));
    if (answer.status !== 200) {
      tally.error(`status ${answer.status}: ${answer.body.slice(0, 120)}`);
      return false;
    }
    tally.acknowledged++;
    if (answer.body.includes(said)) return true;
    tally.error(`wrong answer: ${answer.body.slice(0, 120)}`);
  } catch (error) {
    tally.error(`request: ${(error as Error).message}`);
  }
  return false;
}

/** Runs `once` in so many loops; only what ends inside the window counts. */
export async function closedLoop(
  job: { target: Target; clients: number; warmUpMs: number; measureMs: number },
  tally: Tally,
  phases: Phases,
  once: (connection: Connection) => Promise<boolean>,
): Promise<JobResult> {
  let open = false;
  let over = false;
  const connections = Array.from({ length: job.clients }, () => openConnection(job.target.url));
  const loops = connections.map(async (connection) => {
    while (!over) {
      const from = performance.now();
      const good = await once(connection);
      if (good && open) {
        tally.operations++;
        tally.time("whole", performance.now() - from);
      }
      // A refused connection must not become a busy loop.
      if (!good) await new Promise((resolve) => setTimeout(resolve, 50));
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
  await Promise.all(loops);
  await Promise.all(connections.map((connection) => connection.close()));
  return tally.result();
}

export function waitLoop(job: Extract<Job, { kind: "wait" }>, phases: Phases): Promise<JobResult> {
  const tally = createTally();
  return closedLoop(job, tally, phases, (connection) => waitOnce(connection, job.target, tally));
}

/** Creates runs on the background route, one after the other. */
export function acknowledgeLoop(job: Extract<Job, { kind: "acknowledge" }>, phases: Phases): Promise<JobResult> {
  const tally = createTally();
  return closedLoop({ ...job, clients: 1 }, tally, phases, async (connection) => {
    const answer = await connection.send("POST", "/runs", job.target.headers, echoBody(`a-${++nonce}`));
    if (answer.status !== 200) {
      tally.error(`status ${answer.status}: ${answer.body.slice(0, 120)}`);
      return false;
    }
    tally.acknowledged++;
    return true;
  });
}
