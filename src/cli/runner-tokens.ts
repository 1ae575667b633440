import { createRunnerToken } from "../governance/edit-runner-tokens.js";
import { systemClock } from "../platform/clock.js";
import { readArguments, readExpiry } from "./arguments.js";
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

const noun: CredentialNoun = { table: "runner_token", command: "runner-tokens", singular: "runner token" };

async function create(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "name", "kind", "expires"]);
  const tenantName = args.need("tenant", "the slug or id of a tenant; operator for runners that serve every tenant");
  const name = args.need("name", "which runners it is for");
  const kind = args.need("kind", "the kind that those runners say they are, such as typescript");
  const expiresAt = readExpiry(args.text("expires") ?? "never", systemClock.now());
  const made = await asOperator(async ({ stores, office, inTenant }) => {
    const { scope } = await inTenant(tenantName);
    return createRunnerToken(stores, office.rootKey, scope, { name, kind, expiresAt });
  });
  printCreated(noun, args.flag("json"), { ...made, expiresAt });
  return 0;
}

export const runnerTokensCommand: Command = {
  summary: "Runner tokens of a tenant's pool: create, list, rotate, revoke.",
  usage: `fairlead runner-tokens create --tenant <slug> --name <text> --kind <kind> [--expires 90d|<time>|never] [--json]
fairlead runner-tokens list   --tenant <slug> [--all] [--json]
fairlead runner-tokens rotate <id> --tenant <slug> [--overlap 24h] [--end-overlap] [--json]
fairlead runner-tokens revoke <id> --tenant <slug> [--json]

  fairlead runner-tokens create --tenant acme --name eu-west --kind typescript
  fairlead runner-tokens create --tenant operator --name shared --kind typescript

A token of the tenant "operator" is for the shared pool, whose runners serve every tenant. The token itself goes to standard output, once.`,
  run: byVerb({
    create,
    list: (argv) => listCommand(noun, argv),
    rotate: (argv) => rotateCommand(noun, argv),
    revoke: (argv) => revokeCommand(noun, argv),
  }),
};
