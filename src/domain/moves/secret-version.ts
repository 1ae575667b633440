import type { Moves } from "./machine.js";

/** What a version of a secret can be. Staged: given, not in use. Active: in use; one at most. Deprecated: was in use. Destroyed: its value is gone. */
export const secretVersionStates = ["staged", "active", "deprecated", "destroyed"] as const;
export type SecretVersionState = (typeof secretVersionStates)[number];

/** The legal moves. A deprecated version can come back: that is how a rotation is undone. */
export const secretVersionMoves = {
  activate: { by: "client", from: ["staged", "deprecated"], to: "active" },
  deprecate: { by: "client", from: ["active"], to: "deprecated" },
  destroy: { by: "client", from: ["staged", "active", "deprecated"], to: "destroyed" },
} as const satisfies Moves<SecretVersionState, "client">;
export type SecretVersionMove = keyof typeof secretVersionMoves;
