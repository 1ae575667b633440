import { DomainError } from "../domain/errors.js";
import type { QueueName } from "../domain/ids.js";
import type { PolicyAsk, PolicyDecision } from "../generated/proto/fairlead/runner/v1/runner.js";
import { askForTool } from "../governance/tool-policy/ask.js";
import type { Plane } from "../runs/plane.js";
import { isAway, isBadData } from "../store/client.js";
import { fromWireRun, toBuffer } from "./wire.js";

const empty = Buffer.alloc(0);
// One sentence for what is forbidden, what is unknown and what is somebody else's: a model learns nothing from trying.
const unavailable = "This tool is not available for this call.";
const undecided = "Whether this tool may be called could not be decided: try again later.";

/** The answer to one ask. Whatever goes wrong, it permits nothing. */
export async function answerAsk(plane: Plane, queue: QueueName, ask: PolicyAsk): Promise<PolicyDecision> {
  const deny = (message: string, decisionId = ""): PolicyDecision => ({
    ...{ run: ask.run, askId: ask.askId, allowed: false, message, arguments: empty, decisionId },
  });
  const run = fromWireRun(ask.run, queue);
  if ("complaint" in run) return deny(run.complaint);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(ask.askId)) return deny("ask_id: 1 to 64 characters of A-Z a-z 0-9 _ -");
  if (ask.schemaDigest.length !== 32) return deny("schema_digest: 32 bytes");
  try {
    const answer = await askForTool(plane.tools, {
      ...run.ok,
      ...{ askId: ask.askId, tool: ask.tool, schemaDigest: toBuffer(ask.schemaDigest), arguments: ask.arguments },
    });
    if (!answer?.allowed) return deny(unavailable, answer?.decisionId);
    const { decisionId } = answer;
    return { ...deny(""), allowed: true, arguments: Buffer.from(answer.arguments), decisionId };
  } catch (error) {
    const isBusy = error instanceof DomainError && error.code === "OVERLOADED";
    if (!isBusy && !isAway(error) && !isBadData(error)) throw error;
    plane.log.warn({ err: (error as Error).message, runId: run.ok.runId }, "a tool call could not be decided");
    return deny(undecided);
  }
}
