import { createReadStream, createWriteStream, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { bundleFiles } from "../governance/audit/bundle.js";
import type { ChainReport } from "../governance/audit/check-chain.js";
import { exportAudit } from "../governance/audit/export-audit.js";
import { readPublicKeys } from "../governance/audit/signing-key.js";
import { verifyAudit } from "../governance/audit/verify-audit.js";
import { verifyBundle } from "../governance/audit/verify-bundle.js";
import { SetupError } from "../platform/setup-error.js";
import { type Arguments, readArguments, UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import { byVerb } from "./credential-commands.js";
import { asOperator } from "./operator.js";
import { printJson } from "./printing.js";

function refuseWords({ words }: Arguments): void {
  if (words.length > 0) throw new UsageError(`What is "${words[0]}"? Options begin with --.`);
}

async function verify(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "bundle", "public-key"]);
  refuseWords(args);
  const bundle = args.text("bundle");
  const tenant = args.text("tenant");
  if ((bundle === undefined) === (tenant === undefined))
    throw new UsageError("Name what to verify: --tenant <slug>, or --bundle <folder> --public-key <file>.");
  const keyFile = args.text("public-key");
  const given = keyFile === undefined ? undefined : readPublicKeys(read(keyFile));
  if (bundle !== undefined) {
    if (given === undefined)
      throw new UsageError(
        "--public-key is missing: a file with what `fairlead audit key` printed, kept apart from the bundle.",
      );
    return say(await verifyFolder(bundle, given), args);
  }
  const report = await asOperator(async (operator) => {
    const { scope } = await operator.inTenant(tenant as string);
    return verifyAudit(operator.stores, scope, given ?? operator.signer.keys, { after: 0 });
  });
  return say(report, args);
}

function verifyFolder(folder: string, keys: ReturnType<typeof readPublicKeys>): Promise<ChainReport> {
  const manifest = read(join(folder, bundleFiles.manifest));
  return verifyBundle(
    {
      manifest,
      records: linesOf(join(folder, bundleFiles.records)),
      checkpoints: linesOf(join(folder, bundleFiles.checkpoints)),
    },
    keys,
  );
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new SetupError(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code}).`, "Check the path.", {
      cause,
    });
  }
}

function linesOf(file: string): AsyncIterable<string> {
  if (!existsSync(file)) throw new SetupError(`${file} is missing.`, "A bundle is a folder of three files.");
  return splitLines(createReadStream(file, "utf8"));
}

/** At line feeds and nowhere else: node's readline also ends lines at characters that texts of a record may hold. */
async function* splitLines(parts: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const part of parts) {
    const lines = (rest + part).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

function say(report: ChainReport, args: Arguments): number {
  const { verdict, firstBadSeq, message, checkedTo, signedTo } = report;
  if (args.flag("json")) printJson({ verdict, firstBadSeq, message, checkedTo, signedTo });
  else {
    process.stdout.write(`${verdict}${firstBadSeq === null ? "" : ` at ${firstBadSeq}`}: ${message}\n`);
    process.stdout.write(`Unbroken up to ${checkedTo.seq}, signed up to ${signedTo}.\n`);
  }
  return verdict === "ok" ? 0 : 1;
}

async function exportCommand(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, ["tenant", "out", "from", "to"]);
  refuseWords(args);
  const tenant = args.need("tenant", "the slug or id of a tenant");
  const folder = args.need("out", "a new folder for the bundle");
  const number = (name: string): number | null => {
    const text = args.text(name);
    if (text === undefined) return null;
    if (!/^[1-9]\d{0,14}$/.test(text)) throw new UsageError(`--${name} is "${text}": write the number of a record.`);
    return Number(text);
  };
  const range = { from: number("from") ?? 1, to: number("to") };
  if (Object.values(bundleFiles).some((name) => existsSync(join(folder, name))))
    throw new SetupError(`${folder} holds a bundle already.`, "Choose another --out, or remove it.");
  const manifest = await asOperator(async (operator) => {
    const { scope } = await operator.inTenant(tenant);
    mkdirSync(folder, { recursive: true });
    const files = createFolder(folder);
    const made = await exportAudit(operator.signer, scope, range, files.write);
    await files.close();
    return made;
  });
  if (args.flag("json")) printJson(manifest);
  else
    process.stdout.write(
      `Wrote records ${manifest.after.seq + 1} to ${manifest.last.seq} to ${folder}. Check it: fairlead audit verify --bundle ${folder} --public-key <file>\n`,
    );
  return 0;
}

/** The files of a bundle, written as they come and never faster than the disk takes them. */
function createFolder(folder: string) {
  const open = new Map<string, ReturnType<typeof createWriteStream>>();
  return {
    write: (name: string, lines: string): Promise<void> => {
      let stream = open.get(name);
      if (!stream) {
        stream = createWriteStream(join(folder, name), { flags: "wx", mode: 0o600 });
        open.set(name, stream);
      }
      const file = stream;
      return new Promise((resolve, reject) => file.write(lines, (error) => (error ? reject(error) : resolve())));
    },
    close: async (): Promise<void> => {
      for (const stream of open.values()) {
        stream.end();
        await finished(stream);
      }
    },
  };
}

async function key(argv: readonly string[]): Promise<number> {
  const args = readArguments(argv, []);
  refuseWords(args);
  const { keyId, publicKey } = await asOperator((operator) => Promise.resolve(operator.signer.key));
  if (args.flag("json")) printJson({ keyId, publicKey });
  else process.stdout.write(publicKey);
  return 0;
}

export const auditCommand: Command = {
  summary: "The audit chain: verify, export, print the public key.",
  usage: `fairlead audit verify --tenant <slug> [--public-key <file>] [--json]
fairlead audit verify --bundle <folder> --public-key <file> [--json]
fairlead audit export --tenant <slug> --out <folder> [--from <number>] [--to <number>] [--json]
fairlead audit key [--json]

  fairlead audit key > fairlead-audit.pem
  fairlead audit export --tenant acme --out acme-audit
  fairlead audit verify --bundle acme-audit --public-key fairlead-audit.pem

verify walks the chain and names the first record that is modified, missing, reordered, forked or truncated: exit code 0 when there is none, else 1.
With --bundle it needs neither a database nor the environment of fairlead serve. The file of --public-key may hold several keys, one after the other.`,
  run: byVerb({ verify, export: exportCommand, key }),
};
