// Told once to stop, we stop in order; told again, we are already at it. A Ctrl-C in a terminal arrives several times anyway: the terminal sends
// it to the whole group, npm and the starting script pass it on.

const ENDINGS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export interface StopSignal {
  readonly signal: AbortSignal;
  /** Resolves when somebody wants us to stop. */
  readonly wanted: Promise<void>;
  /** Gives the signals back to the system. */
  release(): void;
}

export function listenForStop(onFirst: () => void): StopSignal {
  const controller = new AbortController();
  const stop = (): void => {
    if (controller.signal.aborted) return;
    onFirst();
    controller.abort();
  };
  for (const name of ENDINGS) process.on(name, stop);
  return {
    signal: controller.signal,
    wanted: new Promise((resolve) => {
      controller.signal.addEventListener("abort", () => resolve(), { once: true });
    }),
    release: () => {
      for (const name of ENDINGS) process.off(name, stop);
    },
  };
}

// A Ctrl-C also hits the programs that we started, and their failure may reach us before our own signal does. The event loop reads signals between
// its timers and its immediates, so after a long synchronous step a timer alone may fire first.
const SIGNAL_LATE_MS = 50;

/** Whether the step that just failed failed because we are to stop. */
export async function isStopping(stop: StopSignal): Promise<boolean> {
  if (!stop.signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, SIGNAL_LATE_MS));
    await new Promise((resolve) => setImmediate(resolve));
  }
  return stop.signal.aborted;
}
