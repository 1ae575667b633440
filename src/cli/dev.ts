import { readOptions, usage } from "../dev/options.js";
import type { Command } from "./command.js";

export const devCommand: Command = {
  summary: "Runs everything on this machine: stores, plane, a sample runner, a first run.",
  usage,
  run: async (argv) => {
    const options = readOptions(argv);
    if (options.help) {
      process.stdout.write(`${usage}\n`);
      return 0;
    }
    // A terminal that was closed must not keep us from stopping in order.
    for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
    // The whole plane is loaded by those who run it, not by every command.
    const { runDev } = await import("../dev/run-dev.js");
    await runDev(options, (line) => process.stdout.write(`${line}\n`));
    return 0;
  },
};
