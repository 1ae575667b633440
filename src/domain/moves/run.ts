import type { Moves } from "./machine.js";

export const runStates = ["pending", "running", "success", "waiting", "error", "timeout", "cancelled"] as const;
export type RunState = (typeof runStates)[number];
export type RunMoveBy = "runner" | "plane";

/** Every legal move of a run. A runner's move must prove the fence and keeps it; a move of the plane that takes the run away from whoever holds it
 *  raises the fence, so whatever that holder still sends is stale. `waiting` is an end: the answer starts a new run. */
export const runMoves = {
  claim: { by: "plane", from: ["pending"], to: "running" },
  requeue: { by: "plane", from: ["running"], to: "pending" },
  succeed: { by: "runner", from: ["running"], to: "success" },
  wait: { by: "runner", from: ["running"], to: "waiting" },
  fail: { by: "runner", from: ["running"], to: "error" },
  stop: { by: "runner", from: ["running"], to: "cancelled" },
  cancel: { by: "plane", from: ["pending", "running"], to: "cancelled" },
  giveUp: { by: "plane", from: ["pending", "running"], to: "error" },
  expire: { by: "plane", from: ["running"], to: "timeout" },
} as const satisfies Moves<RunState, RunMoveBy>;

export type RunMove = keyof typeof runMoves;

export const finalRunStates = [
  "success",
  "waiting",
  "error",
  "timeout",
  "cancelled",
] as const satisfies readonly RunState[];
export type FinalRunState = (typeof finalRunStates)[number];

export function isFinalRunState(state: RunState): state is FinalRunState {
  return state !== "pending" && state !== "running";
}

/** Why a run ended as it did, where the state alone does not say. */
export const runReasons = [
  "attempts_exhausted",
  "not_started",
  "rolled_back",
  "cancelled",
  "runner_invalid",
  "handbacks_exhausted",
  "run_timeout",
  "thread_deleted",
] as const;
export type RunReason = (typeof runReasons)[number];
