import { readConfig } from "../platform/config.js";
import { createLog } from "../platform/log.js";
import { pendingMigrations } from "../store/migrate.js";
import { checkPosture } from "../store/posture.js";
import type { Command } from "./command.js";

export const serveCommand: Command = {
  summary: "Runs the plane: api, bridge and worker, or some of them.",
  usage:
    "DATABASE_URL=… SWEEPER_DATABASE_URL=… FAIRLEAD_ROOT_KEY=… [REDIS_URL=…] fairlead serve [--roles api,bridge,worker]",
  run: async (argv) => {
    const roles = argv[0] === "--roles" && argv[1] ? { roles: argv[1].split(",") } : {};
    const config = readConfig(undefined, roles);
    const log = createLog(config.logLevel);
    for (const url of [config.databaseUrl, config.sweeperDatabaseUrl, config.queueDatabaseUrl]) {
      const complaints = url ? await checkPosture(url) : [];
      if (complaints.length > 0) throw new RefusedPosture(complaints);
    }
    const pending = await pendingMigrations(config.databaseUrl);
    if (pending.length > 0)
      throw new RefusedPosture([`the database lacks ${pending.join(", ")}: run \`fairlead migrate\``]);
    // The whole plane is loaded by those who run it, not by every command.
    const { compose } = await import("../compose.js");
    const running = await compose(config, log);
    process.stdout.write(
      `Fairlead serves ${config.roles.join(", ")}${running.http ? ` on ${running.http.url}` : ""}${running.bridge ? `, runners on port ${running.bridge.port}` : ""}\n`,
    );
    await new Promise<void>((resolve) => {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
    });
    await running.stop();
    return 0;
  },
};

class RefusedPosture extends Error {
  override readonly name = "RefusedPosture";
  constructor(complaints: readonly string[]) {
    super(`refuses to start:\n${complaints.map((complaint) => `  ${complaint}`).join("\n")}`);
  }
}
