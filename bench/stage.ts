import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { type CpuUse, cpuBetween, sampleCpu, waitForQuiet } from "./cpu.js";
import type { FromLoad, Job, JobResult } from "./load/jobs.js";
import { benchFolder } from "./place.js";
import type { Audit, System } from "./system.js";

/** A child that performs measured jobs. */
export interface LoadGenerator<Work extends object = Job> {
  readonly pid: number;
  run(job: Work, onStarted: () => void | Promise<void>, onMeasured: () => void | Promise<void>): Promise<JobResult>;
  stop(): void;
}

export function startLoadGenerator<Work extends object = Job>(file = "load/main.ts"): LoadGenerator<Work> {
  const child = fork(join(benchFolder, file), [], {
    execArgv: ["--import", "tsx"],
    env: { ...process.env, LANGSMITH_TRACING: "false" },
  });
  child.setMaxListeners(0);
  process.once("exit", () => child.kill("SIGKILL"));
  return {
    pid: child.pid ?? 0,
    run: (job, onStarted, onMeasured) =>
      new Promise((resolve, reject) => {
        const finish = (): void => {
          child.off("message", hear);
          child.off("exit", died);
        };
        const died = (): void => reject(new Error("the load generator ended"));
        const hear = (message: FromLoad): void => {
          if ("result" in message) {
            finish();
            resolve(message.result);
          } else if ("failed" in message) {
            finish();
            reject(new Error(message.failed));
          } else {
            Promise.resolve("started" in message ? onStarted() : onMeasured()).then(
              () => child.send("go on"),
              (error: Error) => reject(error),
            );
          }
        };
        child.on("message", hear);
        child.once("exit", died);
        child.send(job);
      }),
    stop: () => child.disconnect(),
  };
}

export interface StageResult extends JobResult {
  readonly system: string;
  readonly rate: number;
  /** Microseconds of CPU per operation by part, and of all parts together; the load generator is apart. */
  readonly cpu: Readonly<Record<string, number>>;
  readonly cpuTotal: number;
  readonly loadCpu: number;
  /** Share of one core that the load generator used, in percent: above 40 the stage says more about it than about the system. */
  readonly loadPercent: number;
  readonly foreignPercent: number;
  readonly stolenPercent: number;
  readonly quiet: boolean;
  readonly audit: Audit | null;
}

export interface StageOptions {
  /** Wait for a quiet machine, and repeat a stage that strangers disturbed. */
  readonly quietPercent: number;
  readonly quietCapMs: number;
  readonly maxForeignPercent: number;
  readonly attempts: number;
}

const cores = availableParallelism();

/** One measured stage: quiet gate, load, accounts at both edges of the window. Repeated while strangers took too much of the machine. */
export async function measure<Work extends object>(
  system: Pick<System, "name" | "groups" | "audit">,
  load: LoadGenerator<Work>,
  job: Work,
  options: StageOptions,
): Promise<StageResult> {
  for (let attempt = 1; ; attempt++) {
    const gate = await waitForQuiet(options.quietPercent, options.quietCapMs, cores);
    // A limit is measured in the very process that makes its load.
    const isApart = !Object.values(system.groups).some((pids) => pids.includes(load.pid));
    const groups = { ...system.groups, ...(isApart ? { load: [load.pid] } : {}) };
    let use: CpuUse = { groups: {}, foreignPercent: 0, stolenPercent: 0 };
    let from = sampleCpu(groups);
    const result = await load.run(
      job,
      () => {
        from = sampleCpu(groups);
      },
      () => {
        use = cpuBetween(from, sampleCpu(groups), cores);
      },
    );
    if (use.foreignPercent > options.maxForeignPercent && attempt < options.attempts) continue;
    return summarise(system, result, use, gate.quiet, await system.audit());
  }
}

function summarise(
  system: Pick<System, "name">,
  result: JobResult,
  use: CpuUse,
  quiet: boolean,
  audit: Audit | null,
): StageResult {
  const { load = 0, ...parts } = use.groups;
  const per = (micros: number): number => Math.round((10 * micros) / Math.max(1, result.operations)) / 10;
  const cpu = Object.fromEntries(Object.entries(parts).map(([name, micros]) => [name, per(micros)]));
  return {
    ...result,
    system: system.name,
    rate: Math.round((10 * result.operations) / result.seconds) / 10,
    cpu,
    cpuTotal: per(Object.values(parts).reduce((sum, micros) => sum + micros, 0)),
    loadCpu: per(load),
    loadPercent: Math.round(load / result.seconds / 10_000),
    foreignPercent: Math.round(use.foreignPercent * 10) / 10,
    stolenPercent: Math.round(use.stolenPercent * 10) / 10,
    quiet,
    audit,
  };
}
