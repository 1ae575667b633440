import { auditCommand } from "./audit.js";
import type { Command } from "./command.js";
import { devCommand } from "./dev.js";
import { doctorCommand } from "./doctor.js";
import { keysCommand } from "./keys.js";
import { membersCommand } from "./members.js";
import { migrateCommand } from "./migrate.js";
import { runnerTokensCommand } from "./runner-tokens.js";
import { secretsCommand } from "./secrets.js";
import { serveCommand } from "./serve.js";
import { tenantsCommand } from "./tenants.js";

/** Every command answers --help with its usage before it reads anything else. */
export const commands: Readonly<Record<string, Command>> = {
  dev: helped(devCommand),
  serve: helped(serveCommand),
  migrate: helped(migrateCommand),
  doctor: helped(doctorCommand),
  tenants: helped(tenantsCommand),
  members: helped(membersCommand),
  keys: helped(keysCommand),
  "runner-tokens": helped(runnerTokensCommand),
  audit: helped(auditCommand),
  secrets: helped(secretsCommand),
  help: {
    summary: "What there is.",
    usage: "fairlead help",
    run: () => {
      const width = Math.max(...Object.keys(commands).map((name) => name.length));
      for (const [name, command] of Object.entries(commands))
        process.stdout.write(`  ${name.padEnd(width)}  ${command.summary}\n`);
      process.stdout.write("\nfairlead <command> --help says more. Exit codes: 0 done, 1 failed, 2 called wrongly.\n");
      return Promise.resolve(0);
    },
  },
};

function helped(command: Command): Command {
  return {
    ...command,
    run: (argv) => {
      if (!argv.includes("--help") && !argv.includes("-h")) return command.run(argv);
      process.stdout.write(`${command.summary}\n\n${command.usage}\n`);
      return Promise.resolve(0);
    },
  };
}
