import { type ParseArgsConfig, parseArgs } from "node:util";

/** The command was not called as it must be: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly exitCode = 2;
}

type Options = NonNullable<ParseArgsConfig["options"]>;

export interface Arguments {
  readonly words: readonly string[];
  /** The option's text, or undefined when it was not given. */
  text(name: string): string | undefined;
  /** The option's text; throws when it was not given. */
  need(name: string, what: string): string;
  flag(name: string): boolean;
}

const everywhere: Options = { json: { type: "boolean" }, help: { type: "boolean", short: "h" } };

/** Options may stand anywhere; unknown ones are refused. */
export function readArguments(
  argv: readonly string[],
  texts: readonly string[],
  flags: readonly string[] = [],
): Arguments {
  const options: Options = { ...everywhere };
  for (const name of texts) options[name] = { type: "string" };
  for (const name of flags) options[name] = { type: "boolean" };
  let values: Record<string, unknown>;
  let words: string[];
  try {
    ({ values, positionals: words } = parseArgs({ args: [...argv], options, allowPositionals: true, strict: true }));
  } catch (error) {
    throw new UsageError((error as Error).message.split(". To specify")[0] as string);
  }
  const text = (name: string): string | undefined => values[name] as string | undefined;
  return {
    words,
    text,
    need: (name, what) => {
      const value = text(name);
      if (value === undefined || value === "") throw new UsageError(`--${name} is missing: ${what}.`);
      return value;
    },
    flag: (name) => values[name] === true,
  };
}

const unitsMs: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** 90s, 30m, 24h, 7d; 0 is 0. */
export function readDuration(option: string, text: string): number {
  if (text === "0") return 0;
  const match = /^(\d{1,9})([smhd])$/.exec(text);
  if (!match) throw new UsageError(`--${option} is "${text}": write a time such as 90s, 30m, 24h or 7d.`);
  return Number(match[1]) * (unitsMs[match[2] as string] as number);
}

/** A duration from now, an ISO time, or never. */
export function readExpiry(text: string, now: number): Date | null {
  if (text === "never") return null;
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const date = new Date(text);
    if (Number.isNaN(date.getTime())) throw new UsageError(`--expires is "${text}", which is no time.`);
    return date;
  }
  return new Date(now + readDuration("expires", text));
}
