import { createTenant } from "../catalog/edit-tenants.js";
import { operatorScope } from "../domain/scope.js";
import { listTenants, type Tenant } from "../store/tenants.js";
import { readArguments, UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import { byVerb } from "./credential-commands.js";
import { asOperator } from "./operator.js";
import { day, printJson, printTable } from "./printing.js";

const pageSize = 500;

async function create(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["name"]);
  const [slug, ...rest] = args.words;
  if (slug === undefined || rest.length > 0) throw new UsageError("Name one tenant: fairlead tenants create <slug>");
  const tenant = await asOperator(({ stores }) =>
    createTenant(stores, { slug, name: args.text("name") ?? slug }, operatorScope),
  );
  if (args.flag("json")) printJson(tenant);
  else {
    process.stdout.write(`Made tenant ${tenant.slug} (${tenant.id}).\n`);
    process.stdout.write(`Next: fairlead keys create --tenant ${tenant.slug} --name admin --scopes all\n`);
  }
  return 0;
}

async function list(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, []);
  const tenants = await asOperator(async ({ stores }) => {
    const all: Tenant[] = [];
    for (let after: string | null = null; ; ) {
      const page = await listTenants(stores, after, pageSize);
      all.push(...page);
      if (page.length < pageSize) return all;
      after = page.at(-1)?.slug ?? null;
    }
  });
  if (args.flag("json")) printJson(tenants);
  else
    printTable(
      ["id", "slug", "name", "created"],
      tenants.map(({ id, slug, name, createdAt }) => [id, slug, name, day(createdAt)]),
    );
  return 0;
}

export const tenantsCommand: Command = {
  summary: "Tenants: create, list.",
  usage: `fairlead tenants create <slug> [--name <text>] [--json]
fairlead tenants list [--json]

  fairlead tenants create acme --name "Acme Ltd"`,
  run: byVerb({ create, list }),
};
