import type { Job, Target } from "./load/jobs.js";
import type { BenchOptions } from "./options.js";
import type { AgentSet } from "./plane.js";

/** A row of the report: one job on one set of agents. Bare and graph rows are never mixed. */
export interface Row {
  readonly workload: string;
  readonly label: string;
  readonly agents: AgentSet;
  readonly runners: number;
  /** The unit of `operations`. */
  readonly unit: "run" | "token" | "delivery";
  /** The JS dev server is measured beside it. */
  readonly hasPeer: boolean;
  /** Which entries of `latencies` are shown; the first one is the row's own. */
  readonly latencies: readonly Latency[];
  readonly job: (target: Target) => Job;
}

/** Names in `latencies`, and what they are called in the report. */
export const latencyWords = {
  whole: "",
  token: "token ",
  firstToken: "first token ",
  newRunFirstEvent: "new run's first event ",
} as const;
export type Latency = keyof typeof latencyWords;

export const workloadNames = ["w1", "w2", "w3", "w4", "w5", "w6"] as const;

export function rowsOf(workload: string, options: BenchOptions): Row[] {
  const times = { warmUpMs: options.warmUpSeconds * 1_000, measureMs: options.seconds * 1_000 };
  const small = options.isQuick;
  return options.agents.flatMap((agents): Row[] => {
    const row = { workload: workload.toUpperCase(), agents, runners: 1, hasPeer: options.peers };
    switch (workload) {
      case "w1":
        return (options.clients ?? (small ? [1, 64] : [1, 16, 64, 100, 256])).map((clients) => ({
          ...row,
          label: `${clients} clients`,
          unit: "run",
          latencies: ["whole"],
          job: (target) => ({ kind: "wait", target, clients, ...times }),
        }));
      case "w2":
        return [
          {
            ...row,
            label: "whole run, 1 client",
            unit: "run",
            latencies: ["whole"],
            job: (target) => ({ kind: "wait", target, clients: 1, ...times }),
          },
          {
            ...row,
            label: "acknowledgement, 1 client",
            unit: "run",
            latencies: ["whole"],
            job: (target) => ({ kind: "acknowledge", target, ...times }),
          },
        ];
      case "w3":
        return [
          { clients: 1, tokens: 3, gapMs: 5 },
          { clients: 50, tokens: 10, gapMs: 20 },
        ].map((size) => ({
          ...row,
          label: `first token, ${size.clients} at once`,
          unit: "run",
          latencies: ["firstToken"],
          job: (target) => ({ kind: "stream", target, ...size, ...times }),
        }));
      case "w4":
        return [
          {
            ...row,
            label: "50 runs × 200 tokens, 20 ms apart",
            unit: "token",
            latencies: ["token"],
            job: (target) => ({ kind: "pace", target, runs: 50, tokens: small ? 50 : 200, gapMs: 20 }),
          },
        ];
      case "w5":
        return [
          {
            ...row,
            label: "100 runs × 1,000 tokens flat out",
            unit: "token",
            latencies: ["newRunFirstEvent", "token"],
            // The flood fills one runner's slots; new runs need some of their own.
            runners: 2,
            job: (target) => ({
              kind: "flood",
              target,
              runs: small ? 20 : 100,
              tokens: 1_000,
              probeEveryMs: 40,
              ...times,
            }),
          },
        ];
      case "w6":
        return (small ? [1, 100] : [1, 100, 1_000]).map((followers) => ({
          ...row,
          label: `1 run, ${followers} followers`,
          unit: "delivery",
          latencies: ["token"],
          job: (target) => ({ kind: "fanOut", target, followers, tokens: small ? 200 : 1_000, gapMs: 5 }),
        }));
      default:
        return [];
    }
  });
}
