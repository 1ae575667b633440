import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Provider, { type Configuration } from "oidc-provider";

// A conformant OpenID provider in this process, whose people sign in by naming themselves.

export interface Person {
  readonly email: string;
  readonly email_verified: boolean;
  readonly name?: string;
}

export interface OpenIdProvider {
  readonly issuer: string;
  readonly people: Map<string, Person>;
  /** Goes through the provider's pages as this person; the URL that it sends the browser back with. */
  signIn(authorizationUrl: string, subject: string): Promise<string>;
  stop(): Promise<void>;
}

export const clientSecret = "a secret of the client that is long enough";

export async function startOpenIdProvider(redirectUri: string, more: Configuration = {}): Promise<OpenIdProvider> {
  const people = new Map<string, Person>();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = { client_secret: clientSecret, redirect_uris: [redirectUri], response_types: ["code" as const] };
  const provider = new Provider(issuer, {
    clients: ["fairlead", "somebody-else"].map((client_id) => ({ client_id, ...client })),
    claims: { email: ["email", "email_verified"], profile: ["name"] },
    pkce: { required: () => true },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, ...people.get(sub) }),
    }),
    cookies: { keys: ["of a test"] },
    ...more,
  });
  const answer = provider.callback();
  server.on("request", (request, response) => void answer(request, response));

  return {
    issuer,
    people,
    signIn: async (authorizationUrl, subject) => {
      const jar = new Map<string, string>();
      const visit = async (url: string, body?: string): Promise<Response> => {
        const response = await fetch(url, {
          redirect: "manual",
          headers: {
            cookie: [...jar].map(([name, value]) => `${name}=${value}`).join("; "),
            ...(body === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" }),
          },
          ...(body === undefined ? {} : { method: "POST", body }),
        });
        for (const cookie of response.headers.getSetCookie()) {
          const [name, value] = (cookie.split(";")[0] as string).split(/=(.*)/s) as [string, string];
          jar.set(name, value);
        }
        return response;
      };
      let url = authorizationUrl;
      for (let step = 0; step < 12; step++) {
        let response = await visit(url);
        // The pages of the provider's own demonstration: first who one is, then whether the client may know.
        if (response.status === 200) {
          const prompt = /name="prompt" value="(\w+)"/.exec(await response.text())?.[1];
          const answer = prompt === "login" ? `prompt=login&login=${subject}&password=x` : `prompt=${prompt}`;
          response = await visit(url, answer);
        }
        url = new URL(response.headers.get("location") ?? "", url).href;
        if (url.startsWith(redirectUri)) return url;
      }
      throw new TypeError(`The provider leads nowhere: ${url}`);
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
