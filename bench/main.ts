import { measureAudit } from "./audit.js";
import { measureColdStart } from "./cold-start.js";
import { compare } from "./compare.js";
import { measureLimits } from "./limits.js";
import { readOptions, usage, WrongOption } from "./options.js";
import { profile } from "./profile.js";
import { circumstances } from "./report.js";
import { soak } from "./soak.js";
import { startLoadGenerator } from "./stage.js";
import { query, startStores } from "./stores.js";
import { rowsOf, workloadNames } from "./workloads.js";

const all = [...workloadNames, "w14", "limits", "audit", "soak", "profile"];

async function main(argv: readonly string[]): Promise<number> {
  if (argv.includes("--help")) {
    process.stdout.write(`${usage}\n`);
    return 0;
  }
  const options = readOptions(argv);
  const unknown = options.commands.find((command) => !all.includes(command));
  if (unknown !== undefined) throw new WrongOption(`There is no workload "${unknown}".`);
  const chosen = options.commands.length > 0 ? options.commands : [...workloadNames, "w14", "limits"];
  const stores = await startStores({ inner: chosen.includes("profile") });
  const load = startLoadGenerator();
  try {
    const [version] = await query<{ server_version: string }>(stores.adminUrl, "show server_version");
    const about = circumstances(version?.server_version ?? "unknown", stores.redisVersion);
    process.stdout.write(
      `${about.machine}, ${about.cores} cores, ${about.at}, commit ${about.commit}${about.isDirty ? " with changes" : ""}\n`,
    );
    const session = { stores, load, options, about };
    if (chosen.includes("profile")) {
      const named = chosen.filter((command) => command !== "profile");
      await profile(session, named.length > 0 ? named : ["w1"]);
      return 0;
    }
    for (const command of chosen) {
      if (command === "soak") await soak(session);
      else if (command === "audit") await measureAudit(stores, options, about);
      else if (command === "limits") await measureLimits(stores, options, about);
      else if (command === "w14") await measureColdStart(session);
      else for (const row of rowsOf(command, options)) await compare(session, row);
    }
  } finally {
    load.stop();
    await stores.stop();
  }
  return 0;
}

// Stores and systems end when this process exits, which a signal alone would not let it do.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(error instanceof WrongOption ? `${error.message}\n\n${usage}\n` : `${(error as Error).stack}\n`);
  process.exitCode = error instanceof WrongOption ? 2 : 1;
}
