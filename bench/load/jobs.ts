/** What the load generator is told to do, and what it answers. Everything is plain data, because it travels between processes. */

export interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export type Job =
  /** Closed loop: each client creates a run and waits for its end, again and again. */
  | {
      readonly kind: "wait";
      readonly target: Target;
      readonly clients: number;
      readonly warmUpMs: number;
      readonly measureMs: number;
    }
  /** One client creates runs and does not wait for them: how long is an acknowledgement under way? */
  | { readonly kind: "acknowledge"; readonly target: Target; readonly warmUpMs: number; readonly measureMs: number }
  /** Closed loop of streamed runs. */
  | {
      readonly kind: "stream";
      readonly target: Target;
      readonly clients: number;
      readonly tokens: number;
      readonly gapMs: number;
      readonly warmUpMs: number;
      readonly measureMs: number;
    }
  /** So many runs at once, each once. */
  | {
      readonly kind: "pace";
      readonly target: Target;
      readonly runs: number;
      readonly tokens: number;
      readonly gapMs: number;
    }
  /** So many runs at any time, flat out; meanwhile short runs are started, one every `probeEveryMs`, however long the others take. */
  | {
      readonly kind: "flood";
      readonly target: Target;
      readonly runs: number;
      readonly tokens: number;
      readonly probeEveryMs: number;
      readonly warmUpMs: number;
      readonly measureMs: number;
    }
  /** One run with many followers. */
  | {
      readonly kind: "fanOut";
      readonly target: Target;
      readonly followers: number;
      readonly tokens: number;
      readonly gapMs: number;
    };

export interface Percentiles {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface JobResult {
  /** Operations that ended inside the measured window. */
  readonly operations: number;
  readonly seconds: number;
  readonly errors: Readonly<Record<string, number>>;
  /** Runs that were acknowledged, warm-up included. */
  readonly acknowledged: number;
  readonly owed: number;
  readonly delivered: number;
  readonly doubled: number;
  readonly disordered: number;
  readonly latencies: Readonly<Record<string, Percentiles>>;
}

export type FromLoad =
  | { readonly started: true }
  | { readonly measured: true }
  | { readonly result: JobResult }
  | { readonly failed: string };

export function percentiles(values: number[]): Percentiles {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number): number => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
    return Math.round(value * 100) / 100;
  };
  return { count: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}
