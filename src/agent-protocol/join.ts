import type { FastifyRequest } from "fastify";
import { invalidInput } from "../domain/errors.js";
import { isFinalRunState } from "../domain/moves/run.js";
import type { Run } from "../store/runs.js";
import { queryFlag, queryList } from "./parameters.js";
import { streamModes } from "./run-request.js";

/** Where a joining reader starts. A number of ours: behind it. Something unknown, or -1: from the first event, rather than nothing. No header: only what
 *  is still to come is owed, yet the whole log of a live run is what makes a page reload complete, so it gets that too; of a run that ended it gets the
 *  end alone. */
export function cursorOf(header: string | string[] | undefined, run: Pick<Run, "status" | "lastSeq">): number {
  const text = Array.isArray(header) ? header.at(-1) : header;
  const isOver = isFinalRunState(run.status);
  // A failure is told in two frames: what went wrong, and the end.
  const last = run.status === "error" || run.status === "timeout" ? run.lastSeq - 2 : run.lastSeq - 1;
  if (text === undefined || text === "") return isOver ? last : 0;
  const given = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (given < run.lastSeq) return given;
  // Behind the end there is only the end; a number that was never given out is unknown.
  if (isOver) return run.lastSeq - 1;
  return given === run.lastSeq ? given : 0;
}

/** A join sees the modes that the run was created with, or those of them that it asks for; sub-graph events as the run was set, unless it says. */
export function joinFilter(request: FastifyRequest, run: Run): { modes: readonly string[]; subgraphs: boolean } {
  const asked = queryList(request, "stream_mode");
  const unknown = asked?.find((mode) => !(streamModes as readonly string[]).includes(mode));
  if (unknown !== undefined)
    throw invalidInput("stream_mode", `does not know ${JSON.stringify(unknown)}; use any of ${streamModes.join(", ")}`);
  return {
    modes: asked && asked.length > 0 ? run.streamModes.filter((mode) => asked.includes(mode)) : run.streamModes,
    subgraphs: queryFlag(request, "stream_subgraphs", run.streamSubgraphs),
  };
}
