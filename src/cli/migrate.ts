import { readMigrateConfig } from "../platform/config.js";
import { migrate } from "../store/migrate.js";
import type { Command } from "./command.js";

export const migrateCommand: Command = {
  summary: "Brings the database up to date, as its owner.",
  usage: "DATABASE_ADMIN_URL=… DATABASE_URL=… SWEEPER_DATABASE_URL=… [QUEUE_DATABASE_URL=…] fairlead migrate",
  run: async () => {
    const config = readMigrateConfig();
    const { applied } = await migrate({ ...config, log: (line) => process.stdout.write(`${line}\n`) });
    process.stdout.write(applied.length === 0 ? "The database is up to date.\n" : `Applied ${applied.join(", ")}.\n`);
    return 0;
  },
};
