import type { FastifyReply, FastifyRequest } from "fastify";
import { DomainError } from "../domain/errors.js";
import type { Permission } from "../domain/permissions.js";
import type { Scope } from "../domain/scope.js";
import type { Plane } from "../runs/plane.js";
import type { SseStreams } from "./sse.js";

export interface FrontDoor {
  readonly plane: Plane;
  readonly streams: SseStreams;
  /** The caller of a request that passed authentication; throws FORBIDDEN when they may not. */
  scopeOf(request: FastifyRequest, needs: Permission): Scope;
}

/** The credential of a request: `x-api-key`, or `Authorization: Bearer`. */
export function credentialOf(request: { headers: FastifyRequest["headers"] }): string {
  const key = request.headers["x-api-key"];
  if (typeof key === "string" && key !== "") return key;
  const match = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? "");
  if (match) return match[1] as string;
  throw new DomainError("UNAUTHENTICATED", "Send an API key as x-api-key, or as Authorization: Bearer.");
}

/** Sends JSON that is text already. */
export function sendJson(reply: FastifyReply, text: string): FastifyReply {
  return reply.type("application/json; charset=utf-8").send(text);
}
