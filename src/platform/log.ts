import { type Logger, pino } from "pino";

export type Log = Logger;

/** JSON lines on standard error. Credentials and bodies are never logged; these paths are a second net. */
export function createLog(level: string): Log {
  return pino(
    {
      level,
      base: null,
      redact: {
        paths: [
          "*.authorization",
          "*.token",
          "*.secret",
          "*.password",
          "headers.authorization",
          'headers["x-api-key"]',
        ],
        censor: "[redacted]",
      },
    },
    pino.destination({ dest: 2, sync: false }),
  );
}
