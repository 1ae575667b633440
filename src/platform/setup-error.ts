/**
 * Something about this machine, not about a request, keeps the plane from starting or migrating. `message` says what is wrong and where;
 * `hint` says what to do about it. The two together are one line for the person at the terminal.
 */
export class SetupError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "SetupError";
    this.hint = hint;
  }

  /** The line to print instead of a stack trace. */
  get line(): string {
    return `${this.message} ${this.hint}`;
  }
}
