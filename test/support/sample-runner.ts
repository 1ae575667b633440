// A runner process with agents whose behaviour the run's input chooses, for tests that kill, stop and restart it.
import { agent, createRunner, type RunContext } from "@fairlead/runner";

interface Options {
  readonly address: string;
  readonly token: string;
  readonly kind: string;
  readonly capacity: number;
  readonly drainMs: number;
}

interface Task {
  /** Custom events to emit, one by one. */
  readonly events?: number;
  /** In the first attempt, stand still after this many events until told to stop. */
  readonly hangAfter?: number;
  /** Pause between events. */
  readonly everyMs?: number;
  /** Stand still this long after the last event. */
  readonly holdMs?: number;
  readonly fail?: string;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

const forever = 0x7fff_ffff;

async function count(run: RunContext): Promise<unknown> {
  const task = (run.input ?? {}) as Task;
  const events = task.events ?? 0;
  for (let n = 1; n <= events; n++) {
    if (run.attempt === 1 && task.hangAfter === n - 1) await pause(forever, run.signal);
    await run.emit.custom({ n, attempt: run.attempt, of: process.pid });
    if (task.everyMs) await pause(task.everyMs, run.signal);
  }
  if (run.attempt === 1 && task.hangAfter !== undefined && task.hangAfter >= events) await pause(forever, run.signal);
  if (task.holdMs) await pause(task.holdMs, run.signal);
  if (task.fail) throw new Error(task.fail);
  return { counted: events, attempt: run.attempt, runId: run.runId, tenantId: run.tenantId };
}

const options = JSON.parse(process.env["RUNNER_OPTIONS"] ?? "{}") as Options;
const runner = createRunner({
  address: options.address,
  token: options.token,
  kind: options.kind,
  capacity: options.capacity,
  agents: {
    count: agent(count, { recovery: "restart", maxAttempts: 5 }),
    // The plane may be killed or cut off any number of times while such a run goes on.
    patient: agent(count, { recovery: "restart", maxAttempts: 100 }),
    brittle: agent(count, { recovery: "restart", maxAttempts: 3 }),
  },
});
process.once("SIGTERM", () => {
  void runner.stop({ drainMs: options.drainMs }).then(() => process.exit(0));
});
await runner.start();
process.stdout.write(`runner ready ${runner.runnerId}\n`);
