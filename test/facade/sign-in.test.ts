import { createClient } from "graphql-ws";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { compose, type RunningPlane } from "../../src/compose.js";
import type { MemberId } from "../../src/domain/ids.js";
import type { Role } from "../../src/domain/roles.js";
import { systemScope } from "../../src/domain/scope.js";
import { inviteMember, removeMember } from "../../src/governance/edit-members.js";
import { readConfig } from "../../src/platform/config.js";
import { freePort } from "../../src/platform/free-port.js";
import { createLog } from "../../src/platform/log.js";
import { createOidcProvider, ProviderAway } from "../../src/platform/oidc.js";
import { Browser } from "../support/browser.js";
import { forged } from "../support/forged.js";
import { type HostileProvider, startHostileProvider } from "../support/hostile-provider.js";
import { officeOf } from "../support/members.js";
import { clientSecret, type OpenIdProvider, startOpenIdProvider } from "../support/openid-provider.js";
import { withAdmin } from "../support/template-database.js";
import { until } from "../support/until.js";
import { startWorld, type TestTenant, testRootKey, type World } from "../support/world.js";

// A plane that people sign in to at a real provider, and a second one on the same stores that trusts a hostile one.

let world: World;
let plane: RunningPlane;
let other: RunningPlane;
let origin: string;
let provider: OpenIdProvider;
let hostile: HostileProvider;
let tenant: TestTenant;
let slug: string;
let people = 0;

beforeAll(async () => {
  world = await startWorld();
  const start = async (port: number, oidcIssuer: string): Promise<RunningPlane> => {
    const stores = { databaseUrl: world.database.appUrl, sweeperDatabaseUrl: world.database.sweeperUrl };
    const signIn = { oidcIssuer, oidcClientId: "fairlead", oidcClientSecret: clientSecret };
    const place = { port, publicUrl: `http://127.0.0.1:${port}`, roles: ["api"], logLevel: "silent", limits: {} };
    return compose(readConfig({}, { ...stores, ...signIn, ...place, rootKey: testRootKey }), createLog("silent"));
  };
  const [port, otherPort] = [await freePort(), await freePort()];
  origin = `http://127.0.0.1:${port}`;
  provider = await startOpenIdProvider(`${origin}/auth/callback`);
  hostile = await startHostileProvider();
  plane = await start(port, provider.issuer);
  other = await start(otherPort, hostile.issuer);
});
afterAll(async () => {
  await Promise.all([plane.stop(), other.stop()]);
  await Promise.all([provider.stop(), hostile.stop()]);
  await world.stop();
});

beforeEach(async () => {
  tenant = await world.tenant();
  slug = (await rows("select slug from tenant where id = $1", [tenant.id]))[0]?.["slug"] as string;
});

const rows = (sql: string, values: unknown[]): Promise<Record<string, unknown>[]> =>
  withAdmin(
    world.database.adminUrl,
    async (admin) => (await admin.query(sql, values)).rows as Record<string, unknown>[],
  );
const invite = (email: string, role: Role = "admin"): Promise<MemberId> =>
  inviteMember(officeOf(world), systemScope(tenant.id), { email, role }, null);
const membersNow = () => rows("select status, subject from member where tenant_id = $1", [tenant.id]);
const sessionsNow = () => rows("select id from session where tenant_id = $1 and ended_at is null", [tenant.id]);

/** Somebody whom the provider knows. */
function person(isVerified = true): { sub: string; email: string } {
  const sub = `person-${++people}`;
  const email = `${sub}@example.com`;
  provider.people.set(sub, { email, email_verified: isVerified, name: "Ada" });
  return { sub, email };
}

/** As far as the provider's way back. */
async function begin(browser: Browser, sub: string, query = ""): Promise<string> {
  const { status, location } = await browser.visit(`/auth/login${query}`);
  expect(status).toBe(302);
  return provider.signIn(location as string, sub);
}
async function signIn(browser: Browser, sub: string, query = "") {
  return browser.visit(await begin(browser, sub, query));
}
async function signedIn(role: Role = "admin"): Promise<{ browser: Browser; id: MemberId; sub: string; email: string }> {
  const who = person();
  const id = await invite(who.email, role);
  const browser = new Browser(origin);
  expect((await signIn(browser, who.sub)).status).toBe(302);
  return { browser, id, ...who };
}
const who = "{ viewer { role member { email name } tenant { slug } } }";

describe("signing in", () => {
  test("makes an invited person a member, with a session that is a keyed hash in the database and a strict cookie outside", async () => {
    const { sub, email } = person();
    await invite(email.toUpperCase());
    const browser = new Browser(origin);
    const answer = await signIn(browser, sub, "?return_to=/runs%3Fa%3D1");
    expect(answer).toMatchObject({ status: 302, location: `${origin}/runs?a=1` });
    const cookie = answer.cookies.find((text) => text.startsWith("fairlead_session="));
    expect(cookie).toMatch(/; Path=\/; HttpOnly; SameSite=Lax; Max-Age=43200$/);
    expect((await browser.graphql(who)).body).toEqual({
      data: { viewer: { role: "ADMIN", member: { email, name: "Ada" }, tenant: { slug } } },
    });
    const stored = JSON.stringify(await rows("select * from session where tenant_id = $1", [tenant.id]));
    const secret = (browser.jar.get("fairlead_session") as string).slice(20, 52);
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain(Buffer.from(secret).toString("hex"));
    const acts = await rows("select action, actor_kind from audit_event where tenant_id = $1 order by at", [tenant.id]);
    expect(acts.slice(-1)).toEqual([{ action: "member.join", actor_kind: "member" }]);
  });

  test("knows a person by issuer and subject afterwards, whatever becomes of the address", async () => {
    const { sub, email } = await signedIn();
    provider.people.set(sub, { email: "moved@example.com", email_verified: false });
    expect((await signIn(new Browser(origin), sub)).status).toBe(302);
    // Whoever gets the address now is somebody else.
    const heir = person();
    provider.people.set(heir.sub, { email, email_verified: true });
    expect(await signIn(new Browser(origin), heir.sub)).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
  });

  test.each(["not invited", "not verified", "removed"] as const)(
    "is refused to somebody who is %s, and nothing is written",
    async (why) => {
      const { sub, email } = person(why !== "not verified");
      if (why !== "not invited") {
        const id = await invite(email, "viewer");
        if (why === "removed")
          await removeMember(officeOf(world), systemScope(tenant.id), { id, expectedVersion: null });
      }
      const before = await membersNow();
      const browser = new Browser(origin);
      const answer = await signIn(browser, sub);
      expect(answer).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
      expect([...browser.jar.keys()]).toEqual([]);
      expect(await membersNow()).toEqual(before);
      expect(await sessionsNow()).toEqual([]);
    },
  );

  test("to several tenants goes where it is asked to", async () => {
    const { sub, email } = await signedIn();
    const first = slug;
    tenant = await world.tenant();
    await invite(email, "viewer");
    const second = (await rows("select slug from tenant where id = $1", [tenant.id]))[0]?.["slug"] as string;
    const browser = new Browser(origin);
    const slugNow = async () =>
      ((await browser.graphql(who)).body as { data: { viewer: { tenant: { slug: string } } } }).data.viewer.tenant.slug;
    await signIn(browser, sub);
    expect(await slugNow()).toBe(first);
    await signIn(browser, sub, `?tenant=${second}`);
    expect(await slugNow()).toBe(second);
    expect(await signIn(new Browser(origin), sub)).toMatchObject({ status: 422, body: { code: "INVALID_INPUT" } });
    expect((await signIn(new Browser(origin), sub, "?tenant=nobodys")).status).toBe(403);
  });

  test.each([
    [
      "https://evil.example",
      "//evil.example",
      "/\\evil.example",
      "/\t/evil.example",
      "evil",
      "javascript:alert(1)",
      "/%",
    ],
  ])("does not lead to another site", async (...places) => {
    for (const place of places) {
      const answer = await new Browser(origin).visit(`/auth/login?return_to=${encodeURIComponent(place)}`);
      if (place === "/%") expect(answer.status).toBe(302);
      else expect({ place, status: answer.status }).toEqual({ place, status: 422 });
    }
    const { browser, sub } = await signedIn();
    const { location } = await signIn(browser, sub, `?return_to=${encodeURIComponent("/.//evil.example")}`);
    expect(new URL(location as string, origin).origin).toBe(origin);
    expect(location).toMatch(/^http:\/\/127/);
  });
});

describe("what comes back from the provider", () => {
  test("counts once: neither the same answer nor the same cookies work again", async () => {
    const { sub, email } = person();
    await invite(email);
    const browser = new Browser(origin);
    const back = await begin(browser, sub);
    const kept = new Map(browser.jar);
    expect((await browser.visit(back)).status).toBe(302);
    const thief = new Browser(origin);
    for (const [name, value] of kept) thief.jar.set(name, value);
    expect(await thief.visit(back)).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
    expect((await browser.visit(back)).status).toBe(401);
    expect(await sessionsNow()).toHaveLength(1);
  });

  test("counts only in the browser that began, and as it was sent", async () => {
    const { sub, email } = person();
    await invite(email);
    const [browser, victim] = [new Browser(origin), new Browser(origin)];
    const back = new URL(await begin(browser, sub));
    // A sign-in that somebody else began, handed to a browser that began none, or one of its own.
    expect((await victim.visit(back.href)).status).toBe(401);
    await victim.visit("/auth/login");
    expect((await victim.visit(back.href)).status).toBe(401);
    expect(victim.jar.has("fairlead_session")).toBe(false);
    for (const change of [
      (url: URL) => url.searchParams.set("state", "x"),
      (url: URL) => url.searchParams.delete("state"),
      (url: URL) => url.searchParams.set("code", "x"),
      (url: URL) => url.searchParams.set("iss", "https://evil.example"),
    ]) {
      const one = new Browser(origin);
      const url = new URL(await begin(one, sub));
      change(url);
      expect((await one.visit(url.href)).status).toBe(401);
    }
    const tampered = new Browser(origin);
    const url = await begin(tampered, sub);
    tampered.jar.set("fairlead_sign_in", forged(tampered.jar.get("fairlead_sign_in") as string));
    expect((await tampered.visit(url)).status).toBe(401);
    expect(await sessionsNow()).toEqual([]);
  });

  test("must be a token of this issuer, for this client, with this nonce, in time, and signed by the provider", async () => {
    const site = other.http?.url as string;
    await invite("eve@example.com", "owner");
    const now = Math.floor(performance.timeOrigin / 1000 + performance.now() / 1000);
    const attempt = async (
      wrong: Record<string, unknown>,
      how: { alg?: string; isForged?: boolean } = {},
    ): Promise<number> => {
      const browser = new Browser(site);
      const asked = new URL((await browser.visit("/auth/login")).location as string).searchParams;
      const right = {
        ...{ iss: hostile.issuer, aud: "fairlead", sub: "eve", nonce: asked.get("nonce"), iat: now, exp: now + 300 },
        ...{ email: "eve@example.com", email_verified: true },
      };
      hostile.token = { claims: { ...right, ...wrong }, ...how };
      return (await browser.visit(`/auth/callback?code=x&state=${asked.get("state")}`)).status;
    };
    for (const wrong of [
      { iss: provider.issuer },
      { aud: "somebody-else" },
      { aud: ["fairlead", "somebody-else"], azp: "somebody-else" },
      { nonce: "another" },
      { nonce: undefined },
      { exp: now - 300, iat: now - 600 },
      { sub: undefined },
    ])
      expect({ wrong, status: await attempt(wrong) }).toEqual({ wrong, status: 401 });
    expect(await attempt({}, { alg: "none" })).toBe(401);
    expect(await attempt({}, { isForged: true })).toBe(401);
    for (const email_verified of [false, "true", undefined]) expect(await attempt({ email_verified })).toBe(403);
    expect(await sessionsNow()).toEqual([]);
    // And it was none of these that refused all of them.
    expect(await attempt({})).toBe(302);
  });
});

describe("a session", () => {
  test("that was planted before the sign-in is never the one that is signed in", async () => {
    const attacker = await signedIn("viewer");
    const planted = attacker.browser.jar.get("fairlead_session") as string;
    const { sub, email } = person();
    await invite(email, "owner");
    const victim = new Browser(origin);
    for (const text of [planted, "fls_live_AAAAAAAAAA_of-the-attacker"]) {
      victim.jar.set("fairlead_session", text);
      await signIn(victim, sub);
      expect(victim.jar.get("fairlead_session")).not.toBe(text);
      const thief = new Browser(origin);
      thief.jar.set("fairlead_session", text);
      await until("the planted one is over", async () => (await thief.graphql(who)).status === 401, 5_000);
    }
  });

  test("counts only in requests that its own site made (CSRF)", async () => {
    const { browser } = await signedIn("owner");
    const mutation =
      'mutation { memberInvite(input: {email: "evil@example.com", role: OWNER}) { userErrors { code } } }';
    const json = { "content-type": "application/json" };
    const form = { "content-type": "application/x-www-form-urlencoded" };
    for (const headers of [
      {},
      { origin: "https://evil.example" },
      { origin: "null" },
      { origin: "https://evil.example", "x-fairlead-request": "1" },
      { origin },
    ]) {
      expect((await browser.graphql(mutation, headers)).status).toBe(401);
      expect((await browser.graphql(mutation, { ...headers, "content-type": "text/plain" })).status).not.toBe(200);
      expect((await browser.visit("/auth/logout", { method: "POST", headers })).status).toBe(401);
    }
    const query = `query=${encodeURIComponent(mutation)}`;
    expect((await browser.visit(`/graphql?${query}`)).status).toBe(401);
    expect((await browser.visit("/graphql", { method: "POST", headers: form, body: query })).status).toBe(401);
    // Not even the site's own pages change anything with a GET.
    expect((await browser.visit(`/graphql?${query}`, { headers: { "x-fairlead-request": "1" } })).status).toBe(405);
    expect(
      (await browser.visit("/threads", { method: "POST", headers: { ...json, "x-fairlead-request": "1" }, body: "{}" }))
        .status,
    ).toBe(401);
    expect(await membersNow()).toHaveLength(1);
    expect((await browser.graphql(mutation, { origin, "x-fairlead-request": "1" })).status).toBe(200);
    expect(await membersNow()).toHaveLength(2);
  });

  test("opens a WebSocket for pages of its own site only", async () => {
    const { browser } = await signedIn();
    const cookie = [...browser.jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const connect = async (from: string | undefined): Promise<string> => {
      class FromPage extends WebSocket {
        constructor(url: string | URL, protocols?: string | string[]) {
          super(url, protocols, { headers: { cookie }, ...(from === undefined ? {} : { origin: from }) });
        }
      }
      const client = createClient({
        url: `${origin.replace("http", "ws")}/graphql`,
        webSocketImpl: FromPage,
        retryAttempts: 0,
      });
      const results = client.iterate({ query: "{ viewer { role } }" });
      const seen = await results.next().then(
        ({ value }) => JSON.stringify(value),
        () => "refused",
      );
      await client.dispose();
      return seen;
    };
    for (const from of [undefined, "https://evil.example", "null"]) expect(await connect(from)).toBe("refused");
    expect(await connect(origin)).toBe('{"data":{"viewer":{"role":"ADMIN"}}}');
  });

  test("is no API key, and an API key no session", async () => {
    const { browser } = await signedIn();
    const text = browser.jar.get("fairlead_session") as string;
    for (const headers of [{ "x-api-key": text }, { authorization: `Bearer ${text}` }]) {
      expect((await new Browser(origin).graphql(who, headers)).status).toBe(401);
      expect((await fetch(`${origin}/threads/search`, { method: "POST", headers })).status).toBe(401);
    }
    browser.jar.set("fairlead_session", tenant.key);
    expect((await browser.graphql(who)).status).toBe(401);
  });

  test.each(["logout", "removal", "idle", "age"] as const)(
    "is over within five seconds on every plane after %s",
    async (end) => {
      const { browser, id } = await signedIn();
      const elsewhere = new Browser(other.http?.url as string);
      elsewhere.jar.set("fairlead_session", browser.jar.get("fairlead_session") as string);
      const here = new Browser(origin);
      here.jar.set("fairlead_session", browser.jar.get("fairlead_session") as string);
      const statuses = () => Promise.all([here, elsewhere].map(async (one) => (await one.graphql(who)).status));
      expect(await statuses()).toEqual([200, 200]);
      const before = performance.now();
      if (end === "logout") {
        const answer = await browser.visit("/auth/logout", { method: "POST", headers: { "x-fairlead-request": "1" } });
        expect(answer.status).toBe(204);
        expect(browser.jar.has("fairlead_session")).toBe(false);
      } else if (end === "removal") {
        await removeMember(officeOf(world), systemScope(tenant.id), { id, expectedVersion: null });
      }
      const column = end === "idle" ? "last_used_at = now() - interval '2 hours 1 second'" : "expires_at = now()";
      const isOver = async (): Promise<boolean> => {
        // The uses that the test itself made are still being noted.
        if (end === "idle" || end === "age")
          await rows(`update session set ${column} where tenant_id = $1`, [tenant.id]);
        return (await statuses()).every((status) => status === 401);
      };
      await until("both planes refuse it", isOver, 6_000);
      expect(performance.now() - before).toBeLessThan(5_000);
    },
  );
});

test("a plane without a provider says so, and one whose provider is away says that", async () => {
  const plain = await fetch(`${world.url}/auth/login`, { redirect: "manual" });
  expect(plain.status).toBe(404);
  expect(((await plain.json()) as { message: string }).message).toContain("FAIRLEAD_OIDC_ISSUER");
  const away = createOidcProvider({
    issuer: `http://127.0.0.1:${await freePort()}`,
    clientId: "fairlead",
    clientSecret: undefined,
  });
  await expect(away.begin(`${origin}/auth/callback`)).rejects.toThrow(ProviderAway);
});

test.each([
  [{ oidcIssuer: "https://id.example.com" }, "go together"],
  [{ oidcIssuer: "http://id.example.com", oidcClientId: "x", publicUrl: "https://plane.example.com" }, "must be https"],
  [{ oidcIssuer: "https://id.example.com", oidcClientId: "x", publicUrl: "http://plane.example.com" }, "must be https"],
])("a configuration of signing in that is not safe is refused: %j", (given, why) => {
  const base = { databaseUrl: "postgres://a", sweeperDatabaseUrl: "postgres://b", rootKey: testRootKey, limits: {} };
  expect(() => readConfig({}, { ...base, ...given })).toThrow(why);
});
