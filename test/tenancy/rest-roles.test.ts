import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Permission } from "../../src/domain/permissions.js";
import { type Role, roles } from "../../src/domain/roles.js";
import { makeMember, rolesOf } from "../support/members.js";
import { pathOf, requestOf, restRoutes } from "../support/rest-routes.js";
import { startWorld, type World } from "../support/world.js";

// Every route in every role. The table of routes is compared with the registered ones elsewhere, so a new route is tried here too.

let world: World;
let keys: Record<Role, string>;
beforeAll(async () => {
  world = await startWorld();
  const made = roles.map(async (role) => [role, (await makeMember(world, world.home.id, role)).key] as const);
  keys = Object.fromEntries(await Promise.all(made)) as Record<Role, string>;
});
afterAll(() => world.stop());

/** What a route is about, said a second time: by its path, not by its handler. */
function permissionOf(route: string): Permission {
  const isRead = restRoutes[route]?.scope === "runs:read";
  if (route.includes("/assistants")) return "agents:read";
  if (route.endsWith("/cancel")) return "runs:cancel";
  if (/\/runs(\/|$)/.test(route)) return isRead ? "runs:read" : "runs:write";
  return isRead ? "threads:read" : "threads:write";
}

test.each(Object.entries(restRoutes))("%s is open to the roles that the table names", async (route, { body }) => {
  const asked = roles.map(async (role) => {
    const names = { thread: randomUUID(), run: randomUUID(), checkpoint: randomUUID(), assistant: "nobody" };
    const response = await world.fetch(pathOf(route, names), { ...requestOf(route, body), key: keys[role] });
    const answer = (await response.json().catch(() => ({}))) as { code?: string };
    const isRefused = response.status === 403 && answer.code === "FORBIDDEN";
    expect({ role, isRefused }).toEqual({ role, isRefused: !rolesOf(permissionOf(route)).includes(role) });
  });
  await Promise.all(asked);
});
