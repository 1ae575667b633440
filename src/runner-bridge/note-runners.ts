import type { RunnerId, TenantId } from "../domain/ids.js";
import { repeat, type Service } from "../platform/lifecycle.js";
import type { Plane } from "../runs/plane.js";
import { noteRunners } from "../store/runners.js";
import type { Sessions } from "./sessions.js";

// Who is connected is written down for people every few seconds, and only when somebody came, went or spoke.

const noteEveryMs = 10_000;

export function startRunnerNotes(plane: Plane, sessions: Sessions): Service {
  let lastTick = plane.clock.monotonic();
  const known = new Map<RunnerId, TenantId>();
  return repeat(
    "runner notes",
    noteEveryMs,
    async () => {
      const since = lastTick;
      lastTick = plane.clock.monotonic();
      const seen = new Map<TenantId, RunnerId[]>();
      const present = new Set<RunnerId>();
      for (const session of sessions.all()) {
        const isOpen = session.eventStreams.size + session.cancelStreams.size + session.parkedCalls > 0;
        if (!isOpen) continue;
        present.add(session.runnerId);
        if (session.heardAt < since && known.has(session.runnerId)) continue;
        seen.set(session.queue.poolId, [...(seen.get(session.queue.poolId) ?? []), session.runnerId]);
        known.set(session.runnerId, session.queue.poolId);
      }
      const gone = new Map<TenantId, RunnerId[]>();
      for (const [runnerId, poolId] of known) {
        if (present.has(runnerId)) continue;
        known.delete(runnerId);
        gone.set(poolId, [...(gone.get(poolId) ?? []), runnerId]);
      }
      for (const poolId of new Set([...seen.keys(), ...gone.keys()])) {
        await noteRunners(plane.stores, poolId, seen.get(poolId) ?? [], gone.get(poolId) ?? []);
      }
    },
    (error) => plane.log.warn({ err: (error as Error).message }, "connected runners could not be noted"),
  );
}
