import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { SetupError } from "../platform/setup-error.js";

export const DEFAULT_PORT = 4500;

/** The checkout, be this file run from src or from dist. */
export const checkout = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..");

export interface DevOptions {
  readonly port: number;
  readonly dataDir: string;
  readonly demo: boolean;
  readonly redis: boolean;
  readonly help: boolean;
}

export const usage = `npm start -- [--port N] [--data-dir DIR] [--no-demo] [--redis]

  --port N        where clients connect (default: ${DEFAULT_PORT})
  --data-dir DIR  what is kept: database, keys, dev.json (default: .fairlead in the checkout)
  --no-demo       do not execute a first run
  --redis         queue in a redis-server or valkey-server from the PATH instead of PostgreSQL

  DATABASE_URL (as owner) and REDIS_URL name servers of yours, to be used instead.`;

export function readOptions(argv: readonly string[]): DevOptions {
  const values = parse(argv);
  return {
    port: values.port === undefined ? DEFAULT_PORT : readPort(values.port),
    dataDir: path.resolve(
      values["data-dir"] === undefined ? path.join(checkout, ".fairlead") : named(values["data-dir"]),
    ),
    demo: values["no-demo"] !== true,
    redis: values.redis === true,
    help: values.help === true,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      strict: true,
      options: {
        port: { type: "string" },
        "data-dir": { type: "string" },
        "no-demo": { type: "boolean" },
        redis: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    }).values;
  } catch (cause) {
    const reason = (cause as Error).message.split(/[.\n]/)[0];
    throw new SetupError(`${reason}.`, "Options are --port N, --data-dir DIR, --no-demo, --redis and --help.", {
      cause,
    });
  }
}

/** An empty name, as an unset variable makes, would mean the directory in which we happen to stand. */
function named(directory: string): string {
  if (directory.trim() !== "") return directory;
  throw new SetupError("--data-dir: is empty.", "Name a directory, or leave the option out.");
}

function readPort(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw new SetupError(`--port: "${text}" is not a port.`, "Give a number from 1 to 65535.");
}
