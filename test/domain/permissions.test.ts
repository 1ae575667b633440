import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { allows, exceeding, permissions, permissionTable, refusal } from "../../src/domain/permissions.js";
import { type Role, roles, roleTitles } from "../../src/domain/roles.js";
import { type ApiScope, apiScopes } from "../../src/domain/scope.js";

const golden = new URL("../../docs/permissions.md", import.meta.url);
const all = new Set(apiScopes);

/** The table as people read it: a line an action, a column a role. */
function printed(): string {
  const head = ["resource", "action", "which means", ...roles.map((role) => roleTitles[role]), "API keys need"];
  const lines = permissions.map((name) => {
    const { resource, action, does, scope } = permissionTable[name];
    const marks = roles.map((role) => (allows({ scopes: all, role }, name) ? "yes" : "–"));
    return [resource, action, does, ...marks, scope ?? "nothing"];
  });
  const table = [head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`);
  return `# Who may do what

Everybody who works in a tenant is a member with one role. This table is printed from \`src/domain/permissions.ts\`, by which the plane decides.

An API key may do what its scope (last column) **and** its owner's role allow, now and not only when it was made: a role that is lowered or a member who
is removed takes their keys along, everywhere within five seconds. The owner is a member or a service account; keys made at the command line, and keys that
those make, belong to the tenant itself and have only their scopes to limit them. A key that is bound to agents sees those agents, their runs and the
threads on which no other agent has worked; it works on the Agent Protocol only.

Nobody gives away what they may not do themselves: neither a role nor a key. Nobody makes or rotates a key of another member. Only Owners make and unmake
Owners, and the last one stays.

${table.join("\n")}
`;
}

test("docs/permissions.md is the table by which the plane decides (UPDATE_GOLDEN=1 rewrites it)", () => {
  if (process.env["UPDATE_GOLDEN"] === "1") writeFileSync(golden, printed());
  expect(printed()).toBe(readFileSync(golden, "utf8"));
});

describe("a permission", () => {
  test.each(permissions)("%s needs both the key's scope and the owner's role", (name) => {
    const { scope, roles: may }: { scope: ApiScope | null; roles: readonly Role[] } = permissionTable[name];
    for (const role of roles) {
      expect(allows({ scopes: all, role }, name)).toBe(may.includes(role));
      const without = new Set(apiScopes.filter((one) => one !== scope));
      expect(allows({ scopes: without, role }, name)).toBe(scope === null && may.includes(role));
    }
    expect(allows({ scopes: all, role: null }, name)).toBe(true);
  });
});

test("an Owner may everything, and nobody else may unmake one", () => {
  expect(permissions.filter((name) => !allows({ scopes: all, role: "owner" }, name))).toEqual([]);
  expect(roles.filter((role) => allows({ scopes: all, role }, "owners:write"))).toEqual(["owner"]);
});

test("who only looks changes nothing, and who minds the money changes budgets", () => {
  const changes = (role: Role) =>
    permissions.filter((name) => !name.endsWith(":read") && allows({ scopes: all, role }, name));
  for (const role of ["viewer", "auditor", "approver"] as const) expect(changes(role)).toEqual([]);
  expect(changes("billing_admin")).toEqual(["budgets:write"]);
});

test("rights that are given away are the giver's own", () => {
  const admin = { scopes: all, role: "admin" } as const;
  expect(exceeding(admin, { scopes: all, role: "owner" })).toEqual(["owners:write"]);
  for (const role of roles.filter((one) => one !== "owner"))
    expect(exceeding(admin, { scopes: all, role })).toEqual([]);
  expect(exceeding(admin, { scopes: all, role: null })).toEqual(["owners:write"]);
  expect(
    exceeding({ scopes: new Set<ApiScope>(["admin:write"]), role: "owner" }, { scopes: all, role: "viewer" }),
  ).toContain("runs:read");
});

test("a refusal names what is missing", () => {
  expect(refusal({ scopes: new Set(), role: "owner" }, "runs:read")?.message).toContain('"runs:read"');
  expect(refusal({ scopes: all, role: "viewer" }, "members:write")?.message).toMatch(/Viewer.*members:write/);
});
