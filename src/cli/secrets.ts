import { rewrapDataKeys, rotateDataKey } from "../governance/secrets/data-keys.js";
import { countByRootKey } from "../store/secrets.js";
import { readArguments, UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import { byVerb } from "./credential-commands.js";
import { asOperator } from "./operator.js";
import { printJson, printTable } from "./printing.js";

function read(argv: readonly string[], options: readonly string[]) {
  const args = readArguments(argv, options);
  if (args.words.length > 0) throw new UsageError(`What is "${args.words[0]}"? Options begin with --.`);
  return args;
}

async function status(argv: readonly string[]): Promise<number> {
  const args = read(argv, []);
  const rows = await asOperator(async ({ stores, keyring }) =>
    (await countByRootKey(stores)).map(({ rootKeyId, keys }) => ({
      rootKeyId,
      keys,
      state: rootKeyId === keyring.currentId ? "current" : keyring.has(rootKeyId) ? "previous" : "missing",
    })),
  );
  if (args.flag("json")) printJson(rows);
  else if (rows.length === 0) process.stdout.write("No tenant has a secret.\n");
  else
    printTable(
      ["root key", "state", "data keys"],
      rows.map(({ rootKeyId, state, keys }) => [rootKeyId, state, String(keys)]),
    );
  return rows.some(({ state }) => state === "missing") ? 1 : 0;
}

async function rewrap(argv: readonly string[]): Promise<number> {
  const args = read(argv, []);
  const { rewrapped, failed } = await asOperator(({ stores, keyring }) =>
    rewrapDataKeys({ stores, keyring }, (done) => {
      if (done > 0 && done % 100 === 0) process.stderr.write(`${done} data keys\n`);
    }),
  );
  if (args.flag("json")) printJson({ rewrapped, failed });
  else {
    process.stdout.write(`Wrapped ${rewrapped} data keys by the current root key.\n`);
    for (const { tenantId, id, why } of failed)
      process.stderr.write(`Data key ${id} of tenant ${tenantId} stays as it is: ${why}\n`);
  }
  return failed.length === 0 ? 0 : 1;
}

async function rotate(argv: readonly string[]): Promise<number> {
  const args = read(argv, ["tenant"]);
  const tenant = args.need("tenant", "the slug or id of a tenant");
  const done = await asOperator(async ({ stores, keyring, inTenant }) =>
    rotateDataKey({ stores, keyring }, (await inTenant(tenant)).scope, (resealed) =>
      process.stderr.write(`${resealed} values\n`),
    ),
  );
  if (args.flag("json")) printJson(done);
  else
    process.stdout.write(
      `Sealed ${done.resealed} values with a new data key${done.left > 0 ? `; ${done.left} were in use: run it again` : ""}.\n`,
    );
  return done.left > 0 ? 1 : 0;
}

export const secretsCommand: Command = {
  summary: "The keys of the tenants' secrets: which are in use, wrapping them anew, rotating them.",
  usage: `fairlead secrets status [--json]
fairlead secrets rewrap [--json]
fairlead secrets rotate --tenant <slug> [--json]

status names the root keys that are in use; exit code 1 when FAIRLEAD_SECRETS_KEYS lacks one of them.
rewrap wraps all data keys by the first key of FAIRLEAD_SECRETS_KEYS, while planes run. Stopped, it goes on where it was.
rotate gives a tenant a new data key and seals all of its values with it. No command shows a value.`,
  run: byVerb({ status, rewrap, rotate }),
};
