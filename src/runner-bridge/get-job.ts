import { DomainError, invalidInput } from "../domain/errors.js";
import type { RunnerId } from "../domain/ids.js";
import { isUuid } from "../domain/ids.js";
import type { RunnerScope } from "../domain/scope.js";
import { systemScope } from "../domain/scope.js";
import type { Assignment, GetJobRequest, GetJobResponse } from "../generated/proto/fairlead/runner/v1/runner.js";
import type { Plane } from "../runs/plane.js";
import { takeBack } from "../runs/take-back-run.js";
import { type AgentOffer, announceAgents } from "../store/agents.js";
import { continuation } from "../store/checkpoints.js";
import { withTenantReads } from "../store/reads.js";
import type { Claimed } from "../store/run-path/claim.js";
import { upsertRunner } from "../store/runners.js";
import type { Session, Sessions } from "./sessions.js";
import { complainAboutText, fromWireOffer, toAssignment } from "./wire.js";

const maxSlots = 100;
const maxAgents = 200;

/** Announces the runner, waits for work and turns it into assignments. `signal` fires when the caller has gone. */
export async function getJob(
  plane: Plane,
  sessions: Sessions,
  scope: RunnerScope,
  request: GetJobRequest,
  gone: AbortSignal,
): Promise<GetJobResponse> {
  if (!isUuid(request.runnerId)) throw invalidInput("runner_id", "must be a UUID, stable until the process exits");
  if (request.kind !== scope.kind)
    throw new DomainError("FORBIDDEN", `The token is for runners of kind "${scope.kind}", not "${request.kind}".`);
  if (request.freeSlots < 1 || request.freeSlots > maxSlots)
    throw invalidInput("free_slots", `must be 1 to ${maxSlots}`);
  if (request.agents.length > maxAgents) throw invalidInput("agents", `at most ${maxAgents}`);

  const { version, announcementDigest } = request;
  const text = complainAboutText({ version, announcementDigest });
  if (text) throw new DomainError("INVALID_INPUT", text);

  const queue = { poolId: scope.poolId, kind: scope.kind };
  const session = sessions.of(request.runnerId as RunnerId, queue);
  if (request.agents.length > 0) await announce(plane, session, scope, request);
  const announced = session.announcedDigest === request.announcementDigest && request.announcementDigest !== "";
  if (!announced) return { assignments: [], announce: true, draining: false };

  const waitMs = Math.min(request.waitMs, plane.limits.getJobWaitMs);
  session.parkedCalls++;
  let claimed: Claimed[];
  try {
    claimed = await plane.parked.park(
      { queue, graphIds: session.graphIds, runnerId: session.runnerId, slots: request.freeSlots },
      waitMs,
      gone,
    );
  } finally {
    session.parkedCalls--;
  }
  if (gone.aborted) {
    for (const run of claimed) void handBack(plane, run, "undelivered");
    return { assignments: [], announce: false, draining: false };
  }
  const assignments = await Promise.all(claimed.map((run) => assign(plane, sessions, session, run)));
  return {
    assignments: assignments.filter((assignment) => assignment !== null),
    announce: false,
    draining: plane.parked.isDraining(),
  };
}

async function assign(
  plane: Plane,
  sessions: Sessions,
  session: Session,
  claimed: Claimed,
): Promise<Assignment | null> {
  try {
    const continued = claimed.hasCheckpoints
      ? await withTenantReads(plane.stores, systemScope(claimed.tenantId), (tenant) =>
          continuation(tenant, claimed.threadId, claimed.runId, claimed.fromCheckpointId),
        )
      : { checkpoints: [], blobs: [] };
    const { tenantId, runId, threadId, fence, attempt, purpose } = claimed;
    sessions.hold(session, { tenantId, runId, threadId, fence, attempt, purpose });
    return toAssignment(claimed, continued, plane.limits);
  } catch (error) {
    plane.log.warn({ err: (error as Error).message, runId: claimed.runId }, "an assignment could not be made");
    void handBack(plane, claimed, "released");
    return null;
  }
}

/** Gives back what nobody will start; if that fails too, the offer lapses. */
export function handBack(plane: Plane, run: Claimed, cause: "released" | "undelivered"): Promise<void> {
  return takeBack(plane, run, cause).then(
    () => undefined,
    (error: unknown) =>
      plane.log.warn({ err: (error as Error).message, runId: run.runId }, "a run could not be handed back"),
  );
}

async function announce(plane: Plane, session: Session, scope: RunnerScope, request: GetJobRequest): Promise<void> {
  if (request.announcementDigest === "" || request.announcementDigest.length > 128) {
    throw invalidInput("announcement_digest", "1 to 128 characters, equal for equal agents");
  }
  if (session.announcedDigest === request.announcementDigest) return;
  const offers: AgentOffer[] = [];
  for (const offer of request.agents) {
    const checked = fromWireOffer(offer, plane.limits);
    if ("complaint" in checked) throw new DomainError("INVALID_INPUT", checked.complaint, { graphId: offer.graphId });
    if (offers.some((other) => other.graphId === checked.ok.graphId))
      throw invalidInput("agents.graph_id", `"${offer.graphId}" is offered twice`);
    offers.push(checked.ok);
  }
  const outcomes = await announceAgents(plane.stores.app, scope.poolId, scope.kind, offers);
  for (const { graphId, outcome } of outcomes) {
    if (outcome === "taken")
      plane.log.warn(
        { graphId, kind: scope.kind },
        "an agent of this name belongs to another pool or kind: the offer is skipped",
      );
  }
  await upsertRunner(plane.stores, scope, {
    id: session.runnerId,
    version: request.version.slice(0, 100),
    capacity: Math.min(request.capacity || request.freeSlots, maxSlots),
    announcementDigest: request.announcementDigest,
    graphIds: offers.map((offer) => offer.graphId),
  });
  const refused = new Set(outcomes.filter(({ outcome }) => outcome === "taken").map(({ graphId }) => graphId));
  session.graphIds = new Set(offers.map((offer) => offer.graphId).filter((graphId) => !refused.has(graphId)));
  session.announcedDigest = request.announcementDigest;
  plane.agents.forget();
}
