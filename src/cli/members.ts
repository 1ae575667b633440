import { type Role, roles } from "../domain/roles.js";
import { changeMemberRole, inviteMember, removeMember } from "../governance/edit-members.js";
import { listMembers } from "../store/members.js";
import { withTenantReads } from "../store/reads.js";
import { type Arguments, readArguments, UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import { byVerb } from "./credential-commands.js";
import { asOperator } from "./operator.js";
import { day, printJson, printTable } from "./printing.js";

async function invite(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "email", "role"]);
  const tenantName = args.need("tenant", "the slug or id of a tenant");
  const email = args.need("email", "the address that they sign in with");
  const role = readRole(args);
  const id = await asOperator(async ({ office, inTenant }) => {
    const { scope } = await inTenant(tenantName);
    return inviteMember(office, scope, { email, role }, null);
  });
  if (args.flag("json")) printJson({ id, email, role });
  else process.stdout.write(`Invited ${email} as ${role} (${id}): they join when they first sign in at /auth/login.\n`);
  return 0;
}

async function list(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant"], ["all"]);
  const tenantName = args.need("tenant", "the slug or id of a tenant");
  const all = await asOperator(async ({ stores, inTenant }) => {
    const { scope } = await inTenant(tenantName);
    return withTenantReads(stores, scope, listMembers);
  });
  const shown = args.flag("all") ? all : all.filter(({ status }) => status !== "removed");
  if (args.flag("json")) printJson(shown);
  else if (shown.length === 0)
    process.stdout.write(`No members. Invite one: fairlead members invite --tenant ${tenantName} --help\n`);
  else
    printTable(
      ["id", "email", "role", "status", "invited", "joined"],
      shown.map(({ id, email, role, status, createdAt, joinedAt }) => [
        ...[id, email, role, status],
        ...[day(createdAt), day(joinedAt)],
      ]),
    );
  return 0;
}

async function setRole(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "role"]);
  const given = idOf("role", args);
  const tenantName = args.need("tenant", "the slug or id of a tenant");
  const role = readRole(args);
  const id = await asOperator(async ({ office, inTenant }) => {
    const { scope } = await inTenant(tenantName);
    return changeMemberRole(office, scope, { id: given, role, expectedVersion: null });
  });
  if (args.flag("json")) printJson({ id, role });
  else process.stdout.write(`${id} is ${role} now, everywhere within five seconds.\n`);
  return 0;
}

async function remove(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant"]);
  const given = idOf("remove", args);
  const tenantName = args.need("tenant", "the slug or id of a tenant");
  const id = await asOperator(async ({ office, inTenant }) => {
    const { scope } = await inTenant(tenantName);
    return removeMember(office, scope, { id: given, expectedVersion: null });
  });
  if (args.flag("json")) printJson({ id, removed: true });
  else process.stdout.write(`Removed ${id}: their keys and sessions are refused everywhere within five seconds.\n`);
  return 0;
}

function readRole(args: Arguments): Role {
  const text = args.need("role", `one of ${roles.join(", ")}`).replaceAll("-", "_");
  const role = roles.find((name) => name === text);
  if (!role) throw new UsageError(`--role: there is no "${text}"; choose from ${roles.join(", ")}.`);
  return role;
}

function idOf(verb: string, { words }: Arguments): string {
  const [id, ...rest] = words;
  if (id === undefined || rest.length > 0)
    throw new UsageError(`Name one member: fairlead members ${verb} <id> --tenant <slug>`);
  return id;
}

export const membersCommand: Command = {
  summary: "Members of a tenant: invite, list, role, remove. The first Owner is made here.",
  usage: `fairlead members invite --tenant <slug> --email <address> --role <role> [--json]
fairlead members list   --tenant <slug> [--all] [--json]
fairlead members role   <id> --tenant <slug> --role <role> [--json]
fairlead members remove <id> --tenant <slug> [--json]

  fairlead members invite --tenant acme --email ada@example.com --role owner

Roles: ${roles.join(", ")}. docs/permissions.md says what each may do.`,
  run: byVerb({ invite, list, role: setRole, remove }),
};
