/** Exponential backoff with full jitter in its upper half, so that the runners of a plane that restarts do not come back in one wave. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
  failures: number;
}

export function createBackoff(firstMs: number, maxMs: number): Backoff {
  return { firstMs, maxMs, failures: 0 };
}

export function nextDelayMs(backoff: Backoff): number {
  const ceiling = Math.min(backoff.maxMs, backoff.firstMs * 2 ** Math.min(backoff.failures, 20));
  backoff.failures += 1;
  return ceiling * (0.5 + Math.random() / 2);
}

export function succeeded(backoff: Backoff): void {
  backoff.failures = 0;
}

/** Waits, or returns at once when the signal says that nobody is interested any more. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
