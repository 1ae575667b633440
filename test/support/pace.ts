import { setTimeout as pause } from "node:timers/promises";

/** The pauses that are part of a load: between two requests of a client, and up to the moment that a seed chose. Nobody waits for a result with it. */
export function pace(ms: number): Promise<void> {
  return pause(ms);
}
