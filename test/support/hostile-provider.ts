import { createSign, generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

// Looks like an OpenID provider and answers every code with a token of the test's choice: what a conformant one never issues.

export interface HostileProvider {
  readonly issuer: string;
  /** What the next token says; `alg` and `key` are how it is signed. */
  token: { readonly claims: Record<string, unknown>; readonly alg?: string; readonly isForged?: boolean };
  stop(): Promise<void>;
}

export async function startHostileProvider(): Promise<HostileProvider> {
  const [own, forged] = [0, 1].map(() => generateKeyPairSync("rsa", { modulusLength: 2048 }));
  const server = createServer((request, response) => {
    const path = (request.url ?? "").split("?")[0];
    const send = (body: unknown): void => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(body));
    };
    if (path === "/.well-known/openid-configuration")
      send({
        issuer: hostile.issuer,
        authorization_endpoint: `${hostile.issuer}/authorize`,
        token_endpoint: `${hostile.issuer}/token`,
        jwks_uri: `${hostile.issuer}/jwks`,
        id_token_signing_alg_values_supported: ["RS256"],
      });
    else if (path === "/jwks")
      send({ keys: [{ ...own?.publicKey.export({ format: "jwk" }), kid: "own", use: "sig", alg: "RS256" }] });
    else if (path === "/token") {
      const { claims, alg = "RS256", isForged = false } = hostile.token;
      const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
      const head = `${part({ alg, kid: "own" })}.${part(claims)}`;
      const key = (isForged ? forged : own)?.privateKey;
      const signature = alg === "none" || !key ? "" : createSign("RSA-SHA256").update(head).sign(key, "base64url");
      send({ access_token: "x", token_type: "Bearer", id_token: `${head}.${signature}` });
    } else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const hostile: HostileProvider = {
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: { claims: {} },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return hostile;
}
