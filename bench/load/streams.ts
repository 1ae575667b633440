import { closedLoop, type Phases } from "./closed-loop.js";
import { frameReader } from "./frames.js";
import { type Connection, openConnection } from "./http.js";
import type { Job, JobResult, Target } from "./jobs.js";
import { clockMs, createTally, type Tally, tokenCounter } from "./tally.js";

interface Token {
  readonly i: number;
  readonly at: number;
}

function tokensBody(n: number, gap: number): string {
  return `{"assistant_id":"tokens","input":{"n":${n},"gap":${gap}},"stream_mode":["custom"]}`;
}

/** Streams one run to its end. `token` hears of each with its time of arrival. */
export async function streamOnce(
  connection: Connection,
  target: Target,
  tally: Tally,
  wanted: { tokens: number; gapMs: number },
  token: (token: Token, at: number) => void,
): Promise<boolean> {
  const count = tokenCounter(tally);
  tally.owed += wanted.tokens;
  let failure = "";
  const read = frameReader(({ event, data }) => {
    if (event === "error") failure = data;
    if (event !== "custom") return;
    const made = JSON.parse(data) as Token;
    count(made.i);
    token(made, clockMs());
  });
  try {
    const answer = await connection.send(
      "POST",
      "/runs/stream",
      target.headers,
      tokensBody(wanted.tokens, wanted.gapMs),
      read,
    );
    if (answer.status !== 200) failure = `status ${answer.status}`;
    else tally.acknowledged++;
  } catch (error) {
    failure = `stream: ${(error as Error).message}`;
  }
  if (failure !== "") tally.error(failure.slice(0, 160));
  return failure === "";
}

/** Time to the first token, and of each token from the agent to the reader. */
export function streamLoop(job: Extract<Job, { kind: "stream" }>, phases: Phases): Promise<JobResult> {
  const tally = createTally();
  return closedLoop(job, tally, phases, (connection) => {
    const from = clockMs();
    let first = true;
    return streamOnce(connection, job.target, tally, { tokens: job.tokens, gapMs: job.gapMs }, (made, at) => {
      tally.time("token", at - made.at);
      if (first) tally.time("firstToken", at - from);
      first = false;
    });
  });
}

/** All runs at once. The window is from the first request to the end of the last stream. */
export async function pace(job: Extract<Job, { kind: "pace" }>, phases: Phases): Promise<JobResult> {
  const tally = createTally();
  const connections = Array.from({ length: job.runs }, () => openConnection(job.target.url));
  await phases.started();
  const from = performance.now();
  await Promise.all(
    connections.map((connection) =>
      streamOnce(connection, job.target, tally, { tokens: job.tokens, gapMs: job.gapMs }, (made, at) =>
        tally.time("token", at - made.at),
      ),
    ),
  );
  tally.seconds = (performance.now() - from) / 1_000;
  tally.operations = tally.delivered;
  await phases.measured();
  await Promise.all(connections.map((connection) => connection.close()));
  return tally.result();
}

/** One run, many followers: created paused behind its first gap, followed, then counted to the last token. */
export async function fanOut(job: Extract<Job, { kind: "fanOut" }>, phases: Phases): Promise<JobResult> {
  const tally = createTally();
  const starter = openConnection(job.target.url);
  const created = await starter.send("POST", "/threads", job.target.headers, "{}");
  const { thread_id: threadId } = JSON.parse(created.body) as { thread_id: string };
  const connections = Array.from({ length: job.followers }, () => openConnection(job.target.url));
  const answer = await starter.send(
    "POST",
    `/threads/${threadId}/runs`,
    job.target.headers,
    `${tokensBody(job.tokens, job.gapMs).slice(0, -1)},"stream_resumable":true}`,
  );
  const { run_id: runId } = JSON.parse(answer.body) as { run_id: string };
  tally.acknowledged++;
  await phases.started();
  const from = performance.now();
  const firsts: number[] = [];
  await Promise.all(
    connections.map(async (connection) => {
      const count = tokenCounter(tally);
      tally.owed += job.tokens;
      let first = true;
      const read = frameReader(({ event, data }) => {
        if (event !== "custom") return;
        const made = JSON.parse(data) as Token;
        count(made.i);
        if (first) firsts.push(performance.now() - from);
        first = false;
        // The last hundred are late joiners' no more: what they take is the way from the agent to the reader.
        if (made.i >= job.tokens - 100) tally.time("token", clockMs() - made.at);
      });
      const followed = await connection
        .send("GET", `/threads/${threadId}/runs/${runId}/stream`, job.target.headers, null, read)
        .catch((error: Error) => {
          tally.error(`follow: ${error.message}`);
          return null;
        });
      if (followed && followed.status !== 200) tally.error(`status ${followed.status}`);
    }),
  );
  tally.seconds = (performance.now() - from) / 1_000;
  tally.operations = tally.delivered;
  for (const first of firsts) tally.time("firstOfFollower", first);
  await phases.measured();
  await Promise.all([starter, ...connections].map((connection) => connection.close()));
  return tally.result();
}
