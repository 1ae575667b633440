import { type JobResult, percentiles } from "./jobs.js";

/** Counts of one job. What must not happen is counted as carefully as what should. */
export interface Tally {
  operations: number;
  acknowledged: number;
  owed: number;
  delivered: number;
  doubled: number;
  disordered: number;
  seconds: number;
  error(reason: string): void;
  time(name: string, ms: number): void;
  result(): JobResult;
}

export function createTally(): Tally {
  const errors: Record<string, number> = {};
  const times: Record<string, number[]> = {};
  return {
    operations: 0,
    acknowledged: 0,
    owed: 0,
    delivered: 0,
    doubled: 0,
    disordered: 0,
    seconds: 0,
    error: (reason) => {
      errors[reason] = (errors[reason] ?? 0) + 1;
    },
    time: (name, ms) => {
      let list = times[name];
      if (!list) {
        list = [];
        times[name] = list;
      }
      list.push(ms);
    },
    result() {
      const { operations, acknowledged, owed, delivered, doubled, disordered, seconds } = this;
      const latencies = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, percentiles(list)]));
      return { operations, acknowledged, owed, delivered, doubled, disordered, seconds, errors, latencies };
    },
  };
}

/** Takes the tokens of one reader: each exactly once, in order. */
export function tokenCounter(tally: Tally): (i: number) => void {
  const seen = new Set<number>();
  let last = -1;
  return (i) => {
    if (seen.has(i)) tally.doubled++;
    else {
      seen.add(i);
      tally.delivered++;
    }
    if (i <= last) tally.disordered++;
    last = Math.max(last, i);
  };
}

export const clockMs = (): number => performance.timeOrigin + performance.now();
