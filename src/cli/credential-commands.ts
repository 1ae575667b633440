import { overlapDefaultMs, revokeCredential, rotateCredential } from "../governance/change-credentials.js";
import { systemClock } from "../platform/clock.js";
import { type CredentialTable, type ListedCredential, listCredentials } from "../store/credentials.js";
import { withTenantReads } from "../store/reads.js";
import { type Arguments, readArguments, readDuration, UsageError } from "./arguments.js";
import { asOperator } from "./operator.js";
import { day, printJson, printTable } from "./printing.js";

// list, rotate and revoke are the same for keys and for runner tokens.

export interface CredentialNoun {
  readonly table: CredentialTable;
  /** keys, runner-tokens */
  readonly command: string;
  readonly singular: string;
}

/** The one id that a command works on. */
function idOf(noun: CredentialNoun, verb: string, { words }: Arguments): string {
  const [id, ...rest] = words;
  if (id === undefined || rest.length > 0)
    throw new UsageError(`Name one ${noun.singular}: fairlead ${noun.command} ${verb} <id> --tenant <slug>`);
  return id;
}

export async function listCommand(noun: CredentialNoun, argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant"], ["all"]);
  const name = args.need("tenant", "the slug or id of a tenant");
  const rows = await asOperator(async ({ stores, inTenant }) => {
    const { scope } = await inTenant(name);
    return withTenantReads(stores, scope, (tenant) => listCredentials(tenant, noun.table));
  });
  const now = systemClock.now();
  const shown = args.flag("all") ? rows : rows.filter((row) => statusOf(row, now) === "active");
  if (args.flag("json")) printJson(shown.map((row) => ({ ...row, status: statusOf(row, now) })));
  else if (shown.length === 0)
    process.stdout.write(`No ${noun.singular}. Make one: fairlead ${noun.command} create --tenant ${name} --help\n`);
  else {
    printTable(
      [
        "id",
        "name",
        noun.table === "api_key" ? "scopes" : "kind",
        "status",
        "ends in",
        "created",
        "expires",
        "last used",
      ],
      shown.map((row) => [
        row.id,
        row.name,
        row.kind ?? row.scopes.join(","),
        statusOf(row, now),
        row.last4,
        day(row.createdAt),
        row.expiresAt ? day(row.expiresAt) : "never",
        day(row.lastUsedAt),
      ]),
    );
  }
  return 0;
}

function statusOf(row: ListedCredential, now: number): "active" | "expired" | "revoked" {
  if (row.revokedAt) return "revoked";
  return row.expiresAt && row.expiresAt.getTime() <= now ? "expired" : "active";
}

export async function rotateCommand(noun: CredentialNoun, argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "overlap"], ["end-overlap"]);
  const id = idOf(noun, "rotate", args);
  const name = args.need("tenant", "the slug or id of a tenant");
  const overlap = args.text("overlap");
  const rotated = await asOperator(async ({ office, inTenant }) => {
    const { scope } = await inTenant(name);
    return rotateCredential(office, scope, noun.table, {
      id,
      overlapMs: overlap === undefined ? overlapDefaultMs : readDuration("overlap", overlap),
      endOverlap: args.flag("end-overlap"),
    });
  });
  if (args.flag("json"))
    printJson({ id: rotated.id, secret: rotated.text, previousExpiresAt: rotated.previousExpiresAt });
  else {
    process.stdout.write(`${rotated.text}\n`);
    process.stderr.write(
      `This is the new secret of ${noun.singular} ${rotated.id}; it is shown once. The old one ${
        rotated.previousExpiresAt ? `works until ${rotated.previousExpiresAt.toISOString()}` : "no longer works"
      }.\n`,
    );
  }
  return 0;
}

export async function revokeCommand(noun: CredentialNoun, argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant"]);
  const given = idOf(noun, "revoke", args);
  const name = args.need("tenant", "the slug or id of a tenant");
  const id = await asOperator(async ({ office, inTenant }) => {
    const { scope } = await inTenant(name);
    return revokeCredential(office, scope, noun.table, given);
  });
  if (args.flag("json")) printJson({ id, revoked: true });
  else process.stdout.write(`Revoked ${noun.singular} ${id}: it is refused everywhere within five seconds.\n`);
  return 0;
}

/** Shows what `create` made. */
export function printCreated(
  noun: CredentialNoun,
  json: boolean,
  made: { id: string; text: string; expiresAt: Date | null },
): void {
  if (json) {
    printJson({ id: made.id, secret: made.text, expiresAt: made.expiresAt });
    return;
  }
  process.stdout.write(`${made.text}\n`);
  process.stderr.write(
    `This is ${noun.singular} ${made.id}; it is shown once and ${made.expiresAt ? `expires ${made.expiresAt.toISOString()}` : "never expires"}.\n`,
  );
}

/** Sends the first word of a command to the verb of that name. */
export function byVerb(verbs: Readonly<Record<string, (argv: readonly string[]) => Promise<number>>>) {
  return (argv: readonly string[]): Promise<number> => {
    const [verb, ...rest] = argv;
    const run = verb === undefined ? undefined : verbs[verb];
    const known = Object.keys(verbs).join(", ");
    if (!run)
      throw new UsageError(verb === undefined ? `Say what to do: ${known}.` : `There is no "${verb}": ${known}.`);
    return run(rest);
  };
}
