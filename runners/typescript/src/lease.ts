// For how long a run is safe with this runner. All times are on the monotone clock (performance.now()), because a wall clock that is set back
// would keep a run alive that the plane has given away.
//
// Trust counts from the moment a heartbeat was *sent*: the renewal happened some time after that, so the plane's lease ends later than our
// trust in it. Before the first answer there is only the offer, which lapses after a few seconds.

export const OFFER_MS = 5_000;

export interface Lease {
  trustedSince: number;
  trustedMs: number;
  /** A plane that cannot reach its store takes no run from anybody: its saying so is a reason to go on with what has begun, not to begin more. */
  heldUntil: number;
  /** Work that waits for the next renewal, or for the end. */
  waiting: (() => void)[];
}

export function offeredLease(now: number, leaseMs: number): Lease {
  return { trustedSince: now, trustedMs: Math.min(OFFER_MS, leaseMs), heldUntil: 0, waiting: [] };
}

export function renew(lease: Lease, sentAt: number, trustedMs: number): void {
  // An answer that arrives out of order must not shorten what a later one gave.
  if (sentAt + trustedMs <= lease.trustedSince + lease.trustedMs) return;
  lease.trustedSince = sentAt;
  lease.trustedMs = trustedMs;
  wake(lease);
}

export function leaseEnd(lease: Lease): number {
  return Math.max(lease.trustedSince + lease.trustedMs, lease.heldUntil);
}

/** The plane answered at `now` that its store is away. After it is back, nothing is taken for one whole lease. */
export function holdOn(lease: Lease, now: number, leaseMs: number): void {
  if (isTrusted(lease, now)) lease.heldUntil = Math.max(lease.heldUntil, now + leaseMs);
}

export function isTrusted(lease: Lease, now: number): boolean {
  return now < leaseEnd(lease);
}

/** A new side effect is started only in the first two thirds: what takes longer than it should must still end before somebody else begins. */
export function mayStartWork(lease: Lease, now: number): boolean {
  return now < lease.trustedSince + (lease.trustedMs * 2) / 3;
}

/** Resolves with the next renewal, or when the lease is given up. */
export function nextRenewal(lease: Lease): Promise<void> {
  return new Promise((resolve) => lease.waiting.push(resolve));
}

export function wake(lease: Lease): void {
  const waiting = lease.waiting;
  lease.waiting = [];
  for (const go of waiting) go();
}
