import { repeat, type Service } from "../platform/lifecycle.js";
import type { Plane } from "../runs/plane.js";

/** Once a second: the heads of everything that is followed here, in one statement. This, not a hint, guarantees that a follower sees the end. */
export function startFeedPoll(plane: Plane): Service {
  return repeat("feed poll", 1_000, plane.feeds.poll, (error) => {
    plane.log.warn({ err: (error as Error).message }, "the heads of followed runs could not be read");
  });
}
