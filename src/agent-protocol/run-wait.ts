import type { FastifyReply } from "fastify";
import type { RunId } from "../domain/ids.js";
import { elementSlices, topLevelSlices } from "../domain/raw-json.js";
import type { Scope } from "../domain/scope.js";
import type { RunResult } from "../runs/feeds.js";
import { awaitOutcome } from "../runs/follow-run.js";
import type { FrontDoor } from "./front-door.js";
import { cancelUnlessRejoined } from "./run-stream.js";

/** Answers with the run's final values. While it runs, a newline every few seconds keeps proxies from closing; JSON parsers skip it. The status is sent
 *  at once, so a failure travels in the body, as `__error__`, which the SDKs raise. */
export async function waitForRun(
  door: FrontDoor,
  scope: Scope,
  reply: FastifyReply,
  runId: RunId,
  location: string,
  cancelOnDisconnect: boolean,
): Promise<void> {
  const gone = new AbortController();
  let ended = false;
  let started = false;
  const { raw } = reply;
  const headers: Record<string, string> = {
    "content-type": "application/json; charset=utf-8",
    "content-location": location,
    // Where a client that lost the connection asks again.
    location: `${location}/join`,
  };
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) headers[name] = String(value);
  reply.hijack();
  const start = (): void => {
    if (started) return;
    started = true;
    raw.writeHead(200, headers);
  };
  const keepAlive = setInterval(() => {
    start();
    raw.write("\n");
  }, door.plane.limits.keepAliveMs);
  keepAlive.unref();
  const onClose = (): void => {
    clearInterval(keepAlive);
    if (ended || gone.signal.aborted) return;
    gone.abort();
    if (cancelOnDisconnect && !door.streams.isStopping()) cancelUnlessRejoined(door, scope, { id: runId });
  };
  raw.once("close", onClose);
  // The client may have gone while its run was made: then nothing is going to say so.
  if (raw.destroyed || raw.socket?.destroyed) onClose();
  try {
    const outcome = await awaitOutcome(door.plane, scope, runId, gone.signal);
    ended = true;
    start();
    raw.end(toWireOutcome(outcome));
  } catch (error) {
    if (gone.signal.aborted) return;
    ended = true;
    door.plane.log.warn({ err: (error as Error).message, runId }, "a wait could not be answered");
    // Nothing about the run is known: break off, so that the client asks again.
    raw.destroy();
  } finally {
    clearInterval(keepAlive);
  }
}

/** The final values; with what the run waits for, or what went wrong, beside them. */
export function toWireOutcome(outcome: RunResult): Buffer {
  if (outcome.status === "error" || outcome.status === "timeout") {
    return Buffer.from(`{"__error__":${outcome.error ?? '{"error":"Error","message":"The run failed."}'}}`);
  }
  if (outcome.status === "waiting" && outcome.interrupts) return withInterrupts(outcome.values, outcome.interrupts);
  return outcome.values ?? Buffer.from("null");
}

/** {…values, "__interrupt__": [...]}, spliced together without parsing the state. */
function withInterrupts(values: Buffer | null, interrupts: Buffer): Buffer {
  const list = [...topLevelSlices(interrupts.toString()).values()].flatMap(elementSlices);
  const key = `"__interrupt__":[${list.join(",")}]`;
  const text = values?.toString().trim() ?? "{}";
  if (!text.startsWith("{")) return Buffer.from(`{${key}}`);
  const members = topLevelSlices(text);
  if (members.has("__interrupt__")) return Buffer.from(text);
  return Buffer.from(members.size === 0 ? `{${key}}` : `${text.slice(0, -1)},${key}}`);
}
