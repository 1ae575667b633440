import { randomUUID } from "node:crypto";
import type { PolicyAsk, PolicyDecision, RunRef } from "./generated/fairlead/runner/v1/runner.js";

// Questions to the plane, whether a tool may be called. Nothing but an answer that says so permits a call: neither silence nor a stream that ends.

const ANSWER_WITHIN_MS = 15_000;
const undecided = { allowed: false, message: "Whether this tool may be called could not be decided.", args: "" };

export interface ToolQuestion {
  readonly tool: string;
  readonly schemaDigest: Buffer;
  /** JSON text. */
  readonly args: string;
}

export interface ToolVerdict {
  readonly allowed: boolean;
  /** What the model may be told. */
  readonly message: string;
  /** What was judged, as JSON text: the tool gets this. */
  readonly args: string;
}

export interface Asks {
  ask(run: RunRef, question: ToolQuestion): Promise<ToolVerdict>;
  answered(decision: PolicyDecision): void;
  /** The stream is gone, and with it what was asked on it. */
  lost(): void;
}

/** `send` says whether there is a stream. */
export function createAsks(send: (ask: PolicyAsk) => boolean, withinMs = ANSWER_WITHIN_MS): Asks {
  const open = new Map<string, (verdict: ToolVerdict) => void>();
  return {
    ask: (run, { tool, schemaDigest, args }) =>
      new Promise((resolve) => {
        const askId = randomUUID();
        const timer = setTimeout(() => settle(undecided), withinMs);
        const settle = (verdict: ToolVerdict): void => {
          clearTimeout(timer);
          open.delete(askId);
          resolve(verdict);
        };
        open.set(askId, settle);
        if (!send({ run, askId, tool, schemaDigest, arguments: Buffer.from(args) })) settle(undecided);
      }),
    answered: ({ askId, allowed, message, arguments: args }) => {
      open.get(askId)?.({ allowed: allowed === true, message, args: args.toString("utf8") });
    },
    lost: () => {
      for (const settle of [...open.values()]) settle(undecided);
    },
  };
}
