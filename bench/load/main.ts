import { acknowledgeLoop, type Phases, waitLoop } from "./closed-loop.js";
import { flood } from "./flood.js";
import type { Job, JobResult } from "./jobs.js";
import { serveJobs } from "./serve-jobs.js";
import { fanOut, pace, streamLoop } from "./streams.js";

// The load generator: a process of its own, so that its time is its own account.

function perform(job: Job, phases: Phases): Promise<JobResult> {
  switch (job.kind) {
    case "wait":
      return waitLoop(job, phases);
    case "acknowledge":
      return acknowledgeLoop(job, phases);
    case "stream":
      return streamLoop(job, phases);
    case "pace":
      return pace(job, phases);
    case "flood":
      return flood(job, phases);
    case "fanOut":
      return fanOut(job, phases);
  }
}

serveJobs(perform);
