#!/usr/bin/env node
import { commands } from "./cli/commands.js";

/** `fairlead <command> …`: looks the command up, runs it, and turns its failure into one clear line. */
async function main(argv: readonly string[]): Promise<number> {
  const [first = "help", ...rest] = argv;
  const name = first === "--help" || first === "-h" ? "help" : first;
  const command = commands[name];
  if (!command) {
    process.stderr.write(`fairlead: there is no command "${name}". Try: fairlead help\n`);
    return 2;
  }
  try {
    return await command.run(rest);
  } catch (error) {
    const { message, hint, exitCode } = error as Error & { hint?: string; exitCode?: number };
    process.stderr.write(`fairlead ${name}: ${message}${hint ? `\n  ${hint}` : ""}\n`);
    return exitCode ?? 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
