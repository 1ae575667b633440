import { type ApiScope, apiScopes } from "../domain/scope.js";
import { createApiKey, keyLifeDefaultMs } from "../governance/edit-api-keys.js";
import { systemClock } from "../platform/clock.js";
import { readArguments, readExpiry, UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import {
  byVerb,
  type CredentialNoun,
  listCommand,
  printCreated,
  revokeCommand,
  rotateCommand,
} from "./credential-commands.js";
import { asOperator } from "./operator.js";

const noun: CredentialNoun = { table: "api_key", command: "keys", singular: "API key" };

async function create(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "name", "scopes", "expires"]);
  const tenantName = args.need("tenant", "the slug or id of a tenant");
  const name = args.need("name", "what the key is for");
  const scopes = readScopes(args.need("scopes", `some of ${apiScopes.join(",")}`));
  const expires = args.text("expires");
  const now = systemClock.now();
  const expiresAt = expires === undefined ? new Date(now + keyLifeDefaultMs) : readExpiry(expires, now);
  const made = await asOperator(async ({ stores, office, inTenant }) => {
    const { scope } = await inTenant(tenantName);
    return createApiKey(stores, office.rootKey, scope, { name, scopes, expiresAt });
  });
  printCreated(noun, args.flag("json"), { ...made, expiresAt });
  return 0;
}

function readScopes(text: string): ApiScope[] {
  if (text === "all") return [...apiScopes];
  const given = text.split(",").map((part) => part.trim());
  const unknown = given.filter((part) => !(apiScopes as readonly string[]).includes(part));
  if (unknown.length > 0)
    throw new UsageError(`--scopes: there is no "${unknown[0]}"; choose from ${apiScopes.join(", ")}, or all.`);
  return given as ApiScope[];
}

export const keysCommand: Command = {
  summary: "API keys of a tenant: create, list, rotate, revoke.",
  usage: `fairlead keys create --tenant <slug> --name <text> --scopes <list|all> [--expires 90d|<time>|never] [--json]
fairlead keys list   --tenant <slug> [--all] [--json]
fairlead keys rotate <id> --tenant <slug> [--overlap 24h] [--end-overlap] [--json]
fairlead keys revoke <id> --tenant <slug> [--json]

  fairlead keys create --tenant acme --name ci --scopes runs:read,runs:write
  KEY=$(fairlead keys create --tenant acme --name ci --scopes all --expires 7d)
  fairlead keys rotate 0199… --tenant acme --overlap 1h

The key itself goes to standard output, once; what is said about it goes to standard error.`,
  run: byVerb({
    create,
    list: (argv) => listCommand(noun, argv),
    rotate: (argv) => rotateCommand(noun, argv),
    revoke: (argv) => revokeCommand(noun, argv),
  }),
};
