/** Something that runs until it is stopped. */
export interface Service {
  readonly name: string;
  stop(): Promise<void> | void;
}

/** Stops services in the reverse order of their start; one that fails does not keep the others up. */
export async function stopAll(
  services: readonly Service[],
  onError: (name: string, error: unknown) => void,
): Promise<void> {
  for (const service of [...services].reverse()) {
    try {
      await service.stop();
    } catch (error) {
      onError(service.name, error);
    }
  }
}

/** Runs `tick` again and again, `everyMs` after the last one ended; `kick` runs it at once. A tick that fails is reported and tried again. */
export function repeat(
  name: string,
  everyMs: number,
  tick: () => Promise<void>,
  onError: (error: unknown) => void,
): Service & { kick(): void } {
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let again = false;
  let stopped = false;
  const run = (): void => {
    if (timer) clearTimeout(timer);
    timer = undefined;
    if (running) {
      again = true;
      return;
    }
    again = false;
    running = tick()
      .catch(onError)
      .finally(() => {
        running = undefined;
        if (stopped) return;
        if (again) run();
        else timer = setTimeout(run, everyMs);
      });
  };
  timer = setTimeout(run, everyMs);
  return {
    name,
    kick: () => {
      if (!stopped) run();
    },
    stop: async () => {
      stopped = true;
      if (timer) clearTimeout(timer);
      await running;
    },
  };
}
