import type { IncomingHttpHeaders } from "node:http";
import { DomainError } from "../domain/errors.js";

// The cookie of a signed-in member. Browsers send it along with whatever another site makes them send (SameSite=Lax holds back most of it, not all), so
// it counts only in requests that another site cannot make: those with a header that needs a preflight, or from our own origin.

/** Where browsers find this installation. The origin is set once the port is known. */
export interface Site {
  origin: string;
}

export const requestHeader = "x-fairlead-request";

export function sessionCookieName(site: Site): string {
  return isSecure(site) ? "__Host-fairlead_session" : "fairlead_session";
}

export function isSecure(site: Site): boolean {
  return site.origin.startsWith("https:");
}

/** The first cookie of this name, or null. */
export function readCookie(headers: IncomingHttpHeaders, name: string): string | null {
  for (const part of (headers.cookie ?? "").split(";")) {
    const at = part.indexOf("=");
    if (at > 0 && part.slice(0, at).trim() === name) return part.slice(at + 1).trim() || null;
  }
  return null;
}

/** The session of a request that its own site made; null when there is no cookie. */
export function sessionOf(headers: IncomingHttpHeaders, site: Site, transport: "http" | "websocket"): string | null {
  const session = readCookie(headers, sessionCookieName(site));
  if (session !== null) demandOwnSite(headers, site, transport);
  return session;
}

/** Browsers name their origin in every request that another site could abuse; pages can set no header on a WebSocket, so there the origin must be there. */
export function demandOwnSite(headers: IncomingHttpHeaders, site: Site, transport: "http" | "websocket"): void {
  const { origin } = headers;
  if (origin !== undefined && origin !== site.origin)
    throw new DomainError("UNAUTHENTICATED", `The session counts only in requests from ${site.origin}.`);
  if (transport === "websocket" ? origin === undefined : !headers[requestHeader])
    throw new DomainError(
      "UNAUTHENTICATED",
      transport === "websocket"
        ? "The session counts only in requests that name their origin."
        : `The session counts only in requests with the header ${requestHeader}; set it to any text.`,
    );
}
