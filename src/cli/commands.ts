import type { Command } from "./command.js";
import { devCommand } from "./dev.js";
import { migrateCommand } from "./migrate.js";
import { serveCommand } from "./serve.js";

export const commands: Readonly<Record<string, Command>> = {
  dev: devCommand,
  serve: serveCommand,
  migrate: migrateCommand,
  help: {
    summary: "What there is.",
    usage: "fairlead help",
    run: () => {
      const width = Math.max(...Object.keys(commands).map((name) => name.length));
      for (const [name, command] of Object.entries(commands))
        process.stdout.write(`  ${name.padEnd(width)}  ${command.summary}\n`);
      return Promise.resolve(0);
    },
  },
};
