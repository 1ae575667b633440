import { systemClock } from "../platform/clock.js";
import { readConfig } from "../platform/config.js";
import { inspectRedis } from "../platform/ping-redis.js";
import { inspectDatabase } from "../store/inspect.js";
import { pendingMigrations } from "../store/migrate.js";
import { checkPosture } from "../store/posture.js";
import { readArguments, UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import { printJson } from "./printing.js";

interface Finding {
  readonly check: string;
  readonly ok: boolean;
  readonly detail: string;
}

// Leases are in the database's clock and expiries in ours, so a small difference harms nobody.
const clockToleranceMs = 1_000;
const oldestServer = 150_000;

export const doctorCommand: Command = {
  summary: "Says whether this environment can run a plane, and what to do if not.",
  usage: `fairlead doctor [--json]

Reads the environment of fairlead serve and checks the configuration, each database connection (reachable, version, rights, clock), the
migrations and Redis. Exit code 0: all is well; 1: something is not.`,
  run: async (argv) => {
    const args = readArguments(argv, []);
    if (args.words.length > 0) throw new UsageError("doctor takes no words.");
    const findings = await examine();
    if (args.flag("json")) printJson(findings);
    else
      for (const { check, ok, detail } of findings)
        process.stdout.write(`${ok ? "ok  " : "FAIL"}  ${check}: ${detail}\n`);
    return findings.every(({ ok }) => ok) ? 0 : 1;
  },
};

async function examine(): Promise<Finding[]> {
  let config: ReturnType<typeof readConfig>;
  try {
    config = readConfig();
  } catch (error) {
    return [{ check: "configuration", ok: false, detail: (error as Error).message }];
  }
  const findings: Finding[] = [{ check: "configuration", ok: true, detail: `roles ${config.roles.join(", ")}` }];
  const databases: readonly (readonly [string, string | undefined])[] = [
    ["database as the app", config.databaseUrl],
    ["database as the sweeper", config.sweeperDatabaseUrl],
    ["database as the queue", config.queueDatabaseUrl],
  ];
  for (const [check, url] of databases) if (url !== undefined) findings.push(await examineDatabase(check, url));
  findings.push(
    await attempt("migrations", async () => {
      const pending = await pendingMigrations(config.databaseUrl);
      return pending.length === 0
        ? { ok: true, detail: "all are applied" }
        : { ok: false, detail: `${pending.join(", ")} not applied; run: fairlead migrate` };
    }),
  );
  const { redisUrl } = config;
  if (redisUrl === undefined)
    findings.push({ check: "redis", ok: true, detail: "not configured; Postgres carries the queue and the news" });
  else
    findings.push(
      await attempt("redis", async () => {
        const { version, evicts } = await inspectRedis(redisUrl);
        return evicts
          ? { ok: false, detail: `version ${version} may evict jobs; set maxmemory-policy noeviction` }
          : { ok: true, detail: `version ${version}` };
      }),
    );
  return findings;
}

function examineDatabase(check: string, url: string): Promise<Finding> {
  return attempt(check, async () => {
    const facts = await inspectDatabase(url, systemClock.now);
    const problems = await checkPosture(url);
    if (facts.serverVersion < oldestServer)
      problems.push(`PostgreSQL ${facts.serverVersion} is older than 15; upgrade it.`);
    if (Math.abs(facts.clockDifferenceMs) > clockToleranceMs + facts.roundTripMs)
      problems.push(`Its clock differs from ours by ${facts.clockDifferenceMs} ms; synchronise both.`);
    const said = `${facts.user}, version ${Math.floor(facts.serverVersion / 10_000)}, ${Math.round(facts.roundTripMs)} ms away, clock ${facts.clockDifferenceMs} ms`;
    return problems.length === 0 ? { ok: true, detail: said } : { ok: false, detail: problems.join(" ") };
  });
}

async function attempt(check: string, look: () => Promise<Omit<Finding, "check">>): Promise<Finding> {
  try {
    return { check, ...(await look()) };
  } catch (error) {
    const { message, code } = error as { message?: string; code?: string };
    return { check, ok: false, detail: `cannot be used: ${message || code || "no answer"}` };
  }
}
