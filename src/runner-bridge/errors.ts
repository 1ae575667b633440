import { Metadata, type ServerErrorResponse, status } from "@grpc/grpc-js";
import { DomainError, errorTable } from "../domain/errors.js";
import type { Log } from "../platform/log.js";
import { isAway } from "../store/client.js";

/** A row of the error table as a gRPC status. Anything else is logged and masked; an unreachable store is UNAVAILABLE, which says nothing about a run. */
export function toWireError(error: unknown, log: Log): ServerErrorResponse {
  const metadata = new Metadata();
  if (error instanceof DomainError) {
    metadata.set("fairlead-code", error.code);
    if (errorTable[error.code].http >= 500)
      log.warn({ code: error.code, cause: String((error.cause as Error | undefined)?.message ?? "") }, "call failed");
    return {
      name: error.name,
      message: error.message,
      code: status[errorTable[error.code].grpc],
      details: error.message,
      metadata,
    };
  }
  if (isAway(error)) return toWireError(new DomainError("UNAVAILABLE", undefined, {}, error), log);
  log.error({ err: error }, "call failed");
  metadata.set("fairlead-code", "INTERNAL");
  const title = errorTable.INTERNAL.title;
  return { name: "Error", message: title, code: status.INTERNAL, details: title, metadata };
}
