import * as oidc from "openid-client";

// OpenID Connect, as much of it as a sign-in takes: authorization code with PKCE, state and nonce. The library checks issuer, audience, times, signature
// and what belongs together; here is only what is asked of it.

/** What must come back unchanged, kept with the browser that began. */
export interface PendingSignIn {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** Who signed in, as the provider says. */
export interface ProvenIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Only when the provider says that it has verified it. */
  readonly verifiedEmail: string | null;
  readonly name: string | null;
}

export interface OidcProvider {
  begin(callbackUrl: string): Promise<{ url: string; pending: PendingSignIn }>;
  /** `current` is the URL that the browser came back with. */
  complete(current: URL, pending: PendingSignIn): Promise<ProvenIdentity>;
}

/** The provider could not be reached, or is not set up as this plane is: nothing is wrong with who signs in. */
export class ProviderAway extends Error {
  override readonly name = "ProviderAway";
}

/** What came back proves nobody. */
export class NotProven extends Error {
  override readonly name = "NotProven";
}

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | undefined;
}

const timeoutSeconds = 10;
const claimsLength = 300;

export function createOidcProvider(settings: OidcSettings): OidcProvider {
  let known: Promise<oidc.Configuration> | undefined;

  // Asked for at the first sign-in and kept: a provider that is away must not keep a plane from starting.
  const configuration = (): Promise<oidc.Configuration> => {
    known ??= discover(settings).catch((error: unknown) => {
      known = undefined;
      throw new ProviderAway(`The provider ${settings.issuer} cannot be used.`, { cause: error });
    });
    return known;
  };

  return {
    begin: async (callbackUrl) => {
      const config = await configuration();
      const pending = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
      };
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: callbackUrl,
        scope: "openid email profile",
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: "S256",
      });
      return { url: url.href, pending };
    },
    complete: async (current, pending) => {
      const config = await configuration();
      try {
        const tokens = await oidc.authorizationCodeGrant(config, current, {
          expectedState: pending.state,
          expectedNonce: pending.nonce,
          pkceCodeVerifier: pending.verifier,
          idTokenExpected: true,
        });
        const claims = tokens.claims() as oidc.IDToken;
        // Many providers put the address into the token, others only behind it.
        const known =
          claims["email"] === undefined && config.serverMetadata().userinfo_endpoint
            ? await oidc.fetchUserInfo(config, tokens.access_token, claims.sub)
            : claims;
        return {
          issuer: claims.iss,
          subject: claims.sub,
          verifiedEmail: known["email_verified"] === true ? textOf(known["email"]) : null,
          name: textOf(known["name"]),
        };
      } catch (error) {
        throw isAway(error)
          ? new ProviderAway(`The provider ${settings.issuer} cannot be used.`, { cause: error })
          : new NotProven("The sign-in cannot be completed.", { cause: error });
      }
    },
  };
}

function discover({ issuer, clientId, clientSecret }: OidcSettings): Promise<oidc.Configuration> {
  const url = new URL(issuer);
  return oidc.discovery(url, clientId, undefined, clientSecret ? oidc.ClientSecretBasic(clientSecret) : oidc.None(), {
    timeout: timeoutSeconds,
    // The library trusts the connection to the token endpoint unless told to check signatures as well. Plain http the configuration allows on this
    // machine only.
    execute: [oidc.enableNonRepudiationChecks, ...(url.protocol === "http:" ? [oidc.allowInsecureRequests] : [])],
  });
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" && !value.includes("\0") ? value.slice(0, claimsLength) : null;
}

/** No answer, or one that says that the provider itself failed. */
function isAway(error: unknown): boolean {
  if (error instanceof TypeError) return true;
  const { code, status } = error as { code?: string; status?: number };
  return code === "OAUTH_TIMEOUT" || (status !== undefined && status >= 500);
}
