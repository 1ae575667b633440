import { setTimeout as pause } from "node:timers/promises";

const POLL_MS = 15;

/** Waits until a condition of the outside world holds that announces itself in no other way; false when the deadline came first. */
export async function waitFor(condition: () => boolean | Promise<boolean>, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    if (await condition()) return true;
    if (performance.now() >= deadline) return false;
    await pause(POLL_MS);
  }
}
