import type { Duplex } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { DomainError, type ErrorCode, errorTable } from "../domain/errors.js";
import { classifyFailure } from "../store/client.js";

export interface ErrorResponse {
  readonly status: number;
  /** Everything that the known clients read: `message` (JS v2), `detail` (Python), `error` (older ones), `code`. */
  readonly body: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly detail: string;
    readonly error: string;
  } & Readonly<Record<string, unknown>>;
}

const publicFacts = ["field", "openInterrupts", "blockingRunId"] as const;
const names: Record<(typeof publicFacts)[number], string> = {
  field: "field",
  openInterrupts: "open_interrupts",
  blockingRunId: "blocking_run_id",
};

/** A row of the error table as the Agent Protocol's ErrorResponse. What is not ours is masked. */
export function toErrorResponse(error: unknown): ErrorResponse {
  const known = error instanceof DomainError ? error : fromOutside(error);
  const facts: Record<string, unknown> = {};
  for (const fact of publicFacts)
    if (known.facts[fact] !== undefined && known.facts[fact] !== null) facts[names[fact]] = known.facts[fact];
  const { message, code } = known;
  return { status: errorTable[code].http, body: { code, message, detail: message, error: message, ...facts } };
}

function fromOutside(error: unknown): DomainError {
  const { statusCode, code } = error as { statusCode?: number; code?: string };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE" || statusCode === 413) return new DomainError("BODY_TOO_LARGE");
  if (statusCode === 415) return new DomainError("MALFORMED_JSON", "Send the body as application/json.");
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new DomainError("MALFORMED_JSON", (error as Error).message);
  // A text with a zero byte or a value that the database refuses is the caller's.
  if (code === "22P05" || code === "22021")
    return new DomainError("INVALID_INPUT", "The text contains a character that cannot be stored here (U+0000).");
  if (typeof code === "string" && classifyFailure(error) !== "refused")
    return new DomainError("UNAVAILABLE", undefined, {}, error);
  return new DomainError("INTERNAL", undefined, {}, error);
}

/** What a connection gets that did not send HTTP: an answer like every other, and the connection is over. */
export function refuseConnection(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const [status, reason, message] =
    error.code === "HPE_HEADER_OVERFLOW"
      ? [431, "Request Header Fields Too Large", "The headers are larger than 16 KiB; send fewer or shorter ones."]
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? [408, "Request Timeout", "The request was not sent completely in time; send it again."]
        : [400, "Bad Request", "The request is not valid HTTP."];
  const body = JSON.stringify({ code: "INVALID_INPUT", message, detail: message, error: message });
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** What the router refuses before any hook runs, for example a path that cannot be decoded. */
export function refuseRequest(error: Error, _request: FastifyRequest, reply: FastifyReply): void {
  const { body } = toErrorResponse(
    new DomainError("INVALID_INPUT", `The path is not valid: ${error.message.slice(0, 300)}`, { field: "path" }),
  );
  reply.status(400).type("application/json").send(JSON.stringify(body));
}
