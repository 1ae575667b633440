import { availableParallelism } from "node:os";

export interface BenchOptions {
  /** Names of workloads, or `soak`, or `profile`. */
  readonly commands: readonly string[];
  readonly pairs: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly minutes: number;
  readonly clients: readonly number[] | null;
  readonly agents: readonly ("bare" | "graph")[];
  /** Also measure peers and limits. */
  readonly peers: boolean;
  readonly isQuick: boolean;
  /** Append to baselines.jsonl. */
  readonly save: boolean;
  readonly quietPercent: number;
  readonly quietCapMs: number;
  readonly maxForeignPercent: number;
}

export const usage = `npm run bench -- [w1 w2 w3 w4 w5 w6 w14 limits audit | soak | profile [w1 …]] [options]

  --quick            a smoke run: one pair, two seconds, small sizes, nothing saved
  --pairs N          pairs of stages, interleaved A B B A (default 5)
  --seconds N        measured seconds of a stage (default 10)
  --clients 1,64     for w1: these numbers of clients alone
  --agents bare      or graph, or bare,graph (default both)
  --no-peers         without the JS dev server
  --minutes N        of a soak (default 10)
  --no-save          do not append to bench/baselines.jsonl
  --any-noise        measure although strangers use the machine`;

export class WrongOption extends Error {}

export function readOptions(argv: readonly string[]): BenchOptions {
  const commands: string[] = [];
  const given = new Map<string, string>();
  const flags = new Set(["--quick", "--no-peers", "--no-save", "--any-noise"]);
  const valued = new Set(["--pairs", "--seconds", "--clients", "--agents", "--minutes"]);
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] as string;
    if (!word.startsWith("-")) commands.push(word.toLowerCase());
    else if (flags.has(word)) given.set(word, "");
    else if (valued.has(word) && argv[at + 1] !== undefined) given.set(word, argv[++at] as string);
    else throw new WrongOption(valued.has(word) ? `${word} needs a value.` : `There is no option ${word}.`);
  }
  const number = (name: string, otherwise: number): number => {
    const text = given.get(name);
    if (text === undefined) return otherwise;
    const value = Number(text);
    if (!(value > 0)) throw new WrongOption(`${name} must be a number above 0, it is "${text}".`);
    return value;
  };
  const isQuick = given.has("--quick");
  const agents = (given.get("--agents") ?? "bare,graph").split(",");
  for (const one of agents)
    if (one !== "bare" && one !== "graph") throw new WrongOption(`--agents must be bare or graph, it is "${one}".`);
  const clients = given.get("--clients")?.split(",").map(Number) ?? null;
  if (clients?.some((n) => !Number.isInteger(n) || n < 1))
    throw new WrongOption("--clients must be whole numbers, for example 1,64.");
  return {
    commands,
    pairs: number("--pairs", isQuick ? 1 : 5),
    seconds: number("--seconds", isQuick ? 2 : 10),
    warmUpSeconds: isQuick ? 1 : 3,
    minutes: number("--minutes", 10),
    clients,
    agents: agents as BenchOptions["agents"],
    peers: !given.has("--no-peers"),
    isQuick,
    save: !isQuick && !given.has("--no-save"),
    quietPercent: 35,
    quietCapMs: isQuick || given.has("--any-noise") ? 1_500 : 30_000,
    maxForeignPercent: isQuick || given.has("--any-noise") ? 100 : 10,
  };
}

export const cores = availableParallelism();
