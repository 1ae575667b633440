/** What a runner needs to speak; pino and console both fit. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Says on stderr what a person should know, and nothing else. */
export const stderrLogger: Logger = {
  debug: () => {},
  info: (message) => write(message),
  warn: (message) => write(`warning: ${message}`),
  error: (message) => write(`error: ${message}`),
};

export const silentLogger: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

function write(message: string): void {
  process.stderr.write(`fairlead-runner: ${message}\n`);
}
