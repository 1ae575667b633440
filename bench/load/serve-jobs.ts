import type { Phases } from "./closed-loop.js";
import type { FromLoad, JobResult } from "./jobs.js";

/**
 * The child's side of a measured stage: one job at a time comes in; at the edges of the measured window it stops and lets its parent read the
 * accounts.
 */
export function serveJobs<Job extends object>(perform: (job: Job, phases: Phases) => Promise<JobResult>): void {
  const say = (message: FromLoad): void => {
    process.send?.(message);
  };
  let goOn: () => void = () => {};
  const edge = (message: FromLoad): Promise<void> =>
    new Promise((resolve) => {
      goOn = resolve;
      say(message);
    });
  const phases: Phases = { started: () => edge({ started: true }), measured: () => edge({ measured: true }) };
  process.on("message", (message: Job | "go on") => {
    if (message === "go on") return goOn();
    perform(message as Job, phases).then(
      (result) => say({ result }),
      (error: unknown) => say({ failed: (error as Error).stack ?? String(error) }),
    );
  });
  process.once("disconnect", () => process.exit(0));
}
