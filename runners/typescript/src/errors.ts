/** What a caller can do about an error stands in its message; the code is for programs. */
export type RunnerErrorCode =
  /** The token, the kind or the announcement was refused: nothing will work until a person changes it. */
  | "refused"
  /** A file, an option or an export of the configuration is wrong. */
  | "config"
  /** A value cannot be written as JSON. */
  | "not_json"
  /** An event is larger than the plane takes. */
  | "event_too_large"
  /** Events were made faster than they could be sent, and their promises were not awaited. */
  | "buffer_full"
  /** An event was emitted after the agent function had returned. */
  | "late_event"
  /** The client asked the run to stop. */
  | "cancelled"
  /** Another runner holds the run now: nothing that this one sends is stored. */
  | "superseded"
  /** The plane could not be reached for so long that the run may already be with another runner. */
  | "lease_over"
  /** The runner is shutting down and hands the run back. */
  | "released"
  /** The run asks for something that this agent cannot do. */
  | "unsupported";

export class RunnerError extends Error {
  override readonly name = "RunnerError";
  readonly code: RunnerErrorCode;

  constructor(code: RunnerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export function isRunnerError(error: unknown, code: RunnerErrorCode): error is RunnerError {
  return error instanceof RunnerError && error.code === code;
}

/** Class and message of whatever an agent threw: what a client is shown. The stack stays in the runner's own log. */
export function describeFailure(error: unknown): { type: string; message: string } {
  if (error instanceof Error) {
    // Subclasses that do not set `name` are known by their constructor.
    const type = error.name !== "Error" ? error.name : (error.constructor?.name ?? "Error");
    return { type: type || "Error", message: error.message || type || "The agent failed without a message." };
  }
  if (typeof error === "string") return { type: "Error", message: error };
  // An error that has been through JSON, as LangGraph keeps those of its tasks.
  const { name, message } = (error ?? {}) as { name?: unknown; message?: unknown };
  if (typeof message === "string") return { type: typeof name === "string" && name !== "" ? name : "Error", message };
  try {
    return { type: "Error", message: JSON.stringify(error) ?? String(error) };
  } catch {
    return { type: "Error", message: String(error) };
  }
}
