import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { DomainError, errorTable, invalidInput } from "../domain/errors.js";
import type { Authenticator } from "../governance/authenticate.js";
import type { CredentialOffice } from "../governance/change-credentials.js";
import { demandOwnSite, isSecure, readCookie, type Site, sessionCookieName } from "../governance/session-cookie.js";
import { finishSession, startSession } from "../governance/sign-in.js";
import type { Log } from "../platform/log.js";
import { NotProven, type OidcProvider, ProviderAway } from "../platform/oidc.js";
import { openPending, type Pending, pendingLifeMs, sealPending } from "./pending-cookie.js";

export interface SignInDeps {
  readonly office: CredentialOffice;
  readonly authenticator: Authenticator;
  readonly site: Site;
  /** Null where no provider is configured. */
  readonly provider: OidcProvider | null;
  readonly sessionMs: number;
  readonly log: Log;
}

const pathMax = 2_000;

/** Signing in and out with a browser: /auth/login leads to the provider, which leads to /auth/callback, which sets the session's cookie. */
export async function registerSignIn(app: FastifyInstance, deps: SignInDeps): Promise<void> {
  const { office, authenticator, site, log } = deps;
  const providerOf = (): OidcProvider => {
    if (deps.provider) return deps.provider;
    throw new DomainError(
      "NOT_FOUND",
      "Signing in is not set up: configure an OpenID provider (FAIRLEAD_OIDC_ISSUER).",
    );
  };

  await app.register(async (scoped) => {
    scoped.removeAllContentTypeParsers();
    scoped.addContentTypeParser("*", { parseAs: "string" }, (_request, _body, done) => done(null, undefined));
    scoped.addHook("onRequest", async (_request, reply) => {
      reply.headers({ "cache-control": "no-store", "referrer-policy": "no-referrer" });
    });
    scoped.setErrorHandler((error, _request, reply) => {
      const { code, message } = known(error, log);
      reply.status(errorTable[code].http).type("application/json").send(JSON.stringify({ code, message }));
    });

    scoped.get("/auth/login", async (request, reply) => {
      const { return_to: returnTo = "/", tenant } = request.query as { return_to?: unknown; tenant?: unknown };
      const target = localUrl(returnTo, site);
      const { url, pending } = await providerOf().begin(callbackUrl(site));
      const kept: Pending = {
        ...pending,
        returnTo: target,
        tenant: typeof tenant === "string" && tenant !== "" ? tenant : null,
        startedAt: office.clock.now(),
      };
      setCookie(reply, site, pendingName(site), sealPending(office.rootKey, kept), pendingLifeMs);
      return reply.redirect(url, 302);
    });

    scoped.get("/auth/callback", async (request, reply) => {
      const sealed = readCookie(request.headers, pendingName(site));
      // One try each, whatever comes of it.
      setCookie(reply, site, pendingName(site), "", 0);
      const pending = sealed === null ? null : openPending(office.rootKey, sealed, office.clock.now());
      if (!pending)
        throw new DomainError(
          "UNAUTHENTICATED",
          "This sign-in did not begin in this browser, or too long ago; sign in again.",
        );
      const current = new URL(request.url, site.origin);
      const identity = await providerOf().complete(current, pending);
      const session = await startSession(office, {
        identity,
        tenant: pending.tenant,
        state: pending.state,
        lifeMs: deps.sessionMs,
      });
      await endOld(request);
      setCookie(reply, site, sessionCookieName(site), session.text, deps.sessionMs);
      return reply.redirect(pending.returnTo, 302);
    });

    scoped.post("/auth/logout", async (request, reply) => {
      demandOwnSite(request.headers, site, "http");
      await endOld(request);
      setCookie(reply, site, sessionCookieName(site), "", 0);
      return reply.status(204).send();
    });
  });

  const endOld = async (request: FastifyRequest): Promise<void> => {
    const text = readCookie(request.headers, sessionCookieName(site));
    const scope = text === null ? null : await authenticator.session(text).catch(notOver);
    if (text !== null && scope) await finishSession(office, scope, text);
  };
}

/** A session that does not work needs no end; one that cannot be looked at may still be open. */
function notOver(error: unknown): null {
  if (error instanceof DomainError && error.code === "UNAUTHENTICATED") return null;
  throw error;
}

function callbackUrl(site: Site): string {
  return `${site.origin}/auth/callback`;
}

function pendingName(site: Site): string {
  return isSecure(site) ? "__Host-fairlead_sign_in" : "fairlead_sign_in";
}

/** A place of this site, whole, so that no browser reads the path as another host. */
function localUrl(path: unknown, site: Site): string {
  const reason = `a path of this site that begins with /, of at most ${pathMax} characters`;
  if (typeof path !== "string" || !path.startsWith("/") || path.length > pathMax)
    throw invalidInput("return_to", reason);
  const url = URL.canParse(path, site.origin) ? new URL(path, site.origin) : null;
  if (url?.origin !== site.origin) throw invalidInput("return_to", reason);
  return url.href;
}

function setCookie(reply: FastifyReply, site: Site, name: string, value: string, lifeMs: number): void {
  const parts = [`${name}=${value}`, "Path=/", "HttpOnly", "SameSite=Lax", `Max-Age=${Math.floor(lifeMs / 1000)}`];
  if (isSecure(site)) parts.push("Secure");
  reply.header("set-cookie", parts.join("; "));
}

function known(error: unknown, log: Log): DomainError {
  if (error instanceof DomainError) return error;
  if (error instanceof NotProven) {
    log.warn({ err: (error.cause as Error).message }, "a sign-in was refused");
    return new DomainError("UNAUTHENTICATED", "The sign-in was refused; sign in again.");
  }
  log.error({ err: (error as Error).cause ?? error }, "a sign-in failed");
  if (error instanceof ProviderAway)
    return new DomainError("UNAVAILABLE", "The OpenID provider cannot be reached; try again shortly.");
  return new DomainError("INTERNAL");
}
