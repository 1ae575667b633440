import { createHash } from "node:crypto";
import type { Agent } from "./agent.js";
import { AgentOffer } from "./generated/fairlead/runner/v1/runner.js";

export interface Announcement {
  readonly digest: string;
  readonly offers: AgentOffer[];
}

/** The plane remembers announcements by digest, so the agents are sent once and not with every poll. */
export function announce(agents: Iterable<Agent>): Announcement {
  const offers = [...agents].map((agent) => agent.offer).sort((a, b) => (a.graphId < b.graphId ? -1 : 1));
  const hash = createHash("sha256");
  for (const offer of offers) {
    const bytes = AgentOffer.encode(offer).finish();
    hash.update(`${bytes.length}:`).update(bytes);
  }
  return { digest: hash.digest("hex"), offers };
}
