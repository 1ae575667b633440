import type { RunnerId, TenantId } from "../domain/ids.js";
import { repeat, type Service } from "../platform/lifecycle.js";
import type { Plane } from "../runs/plane.js";
import { noteRunners } from "../store/runners.js";
import type { Sessions } from "./sessions.js";

// Who is connected is written down for people: who came or went within a second, who spoke every few seconds. When nothing happens, nothing is written.

const lookEveryMs = 1_000;
const noteEveryMs = 10_000;

export function startRunnerNotes(plane: Plane, sessions: Sessions): Service {
  let notedAt = plane.clock.monotonic();
  const known = new Map<RunnerId, TenantId>();
  return repeat(
    "runner notes",
    lookEveryMs,
    async () => {
      const now = plane.clock.monotonic();
      const isDue = now - notedAt >= noteEveryMs;
      const seen = new Map<TenantId, RunnerId[]>();
      const present = new Set<RunnerId>();
      for (const session of sessions.all()) {
        const isOpen = session.eventStreams.size + session.cancelStreams.size + session.parkedCalls > 0;
        if (!isOpen) continue;
        present.add(session.runnerId);
        if (known.has(session.runnerId) && !(isDue && session.heardAt >= notedAt)) continue;
        seen.set(session.queue.poolId, [...(seen.get(session.queue.poolId) ?? []), session.runnerId]);
      }
      const gone = new Map<TenantId, RunnerId[]>();
      for (const [runnerId, poolId] of known)
        if (!present.has(runnerId)) gone.set(poolId, [...(gone.get(poolId) ?? []), runnerId]);
      for (const poolId of new Set([...seen.keys(), ...gone.keys()])) {
        await noteRunners(plane.stores, poolId, seen.get(poolId) ?? [], gone.get(poolId) ?? []);
        // What could not be written is tried again at the next look.
        for (const runnerId of seen.get(poolId) ?? []) known.set(runnerId, poolId);
        for (const runnerId of gone.get(poolId) ?? []) known.delete(runnerId);
      }
      if (isDue) notedAt = now;
    },
    (error) => plane.log.warn({ err: (error as Error).message }, "connected runners could not be noted"),
  );
}
