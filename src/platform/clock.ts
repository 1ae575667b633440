/** The only place that tells the time. Leases never use it: they are in the database's clock. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
  /** Milliseconds that only ever grow. */
  monotonic(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};
