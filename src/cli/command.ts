/** A command of the operator's. `run` returns the exit code. */
export interface Command {
  readonly summary: string;
  readonly usage: string;
  run(argv: readonly string[]): Promise<number>;
}
