/** A failure that the user can do something about: its message is the one line that they get, its detail what a tool printed. */
export class Refusal extends Error {
  /** @param {string} message @param {string} [detail] */
  constructor(message, detail = "") {
    super(message);
    this.detail = detail;
  }
}

/** Progress goes to stderr, so that stdout stays what the program itself prints. @param {string} line */
export function say(line) {
  process.stderr.write(`${line}\n`);
}

/** Prints a failure the way a user can read it, and answers the exit code. @param {unknown} error */
export function explain(error) {
  if (!(error instanceof Refusal)) {
    say(error instanceof Error ? (error.stack ?? error.message) : String(error));
    return 1;
  }
  if (error.detail !== "") say(`${error.detail}\n`);
  say(error.message);
  return 1;
}
