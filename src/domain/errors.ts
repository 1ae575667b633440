/** Every error that a caller can meet: its HTTP status, its gRPC status, what it is called and what to do about it. Docs derive from this table. */
export const errorTable = {
  MALFORMED_JSON: { http: 400, grpc: "INVALID_ARGUMENT", title: "The request body is not valid JSON." },
  INVALID_INPUT: { http: 422, grpc: "INVALID_ARGUMENT", title: "The request is not valid." },
  NOT_SUPPORTED: { http: 422, grpc: "UNIMPLEMENTED", title: "This option is not supported." },
  UNAUTHENTICATED: {
    http: 401,
    grpc: "UNAUTHENTICATED",
    title: "The credential is missing, unknown, expired or revoked.",
  },
  FORBIDDEN: { http: 403, grpc: "PERMISSION_DENIED", title: "The credential does not allow this." },
  NOT_FOUND: { http: 404, grpc: "NOT_FOUND", title: "There is no such thing." },
  ASSISTANT_NOT_FOUND: { http: 404, grpc: "NOT_FOUND", title: "There is no such assistant." },
  THREAD_NOT_FOUND: { http: 404, grpc: "NOT_FOUND", title: "There is no such thread." },
  RUN_NOT_FOUND: { http: 404, grpc: "NOT_FOUND", title: "There is no such run." },
  CHECKPOINT_NOT_FOUND: { http: 404, grpc: "NOT_FOUND", title: "There is no such checkpoint." },
  THREAD_EXISTS: { http: 409, grpc: "ALREADY_EXISTS", title: "A thread with this id exists already." },
  THREAD_BUSY: { http: 409, grpc: "FAILED_PRECONDITION", title: "The thread is busy with another run." },
  NO_SUCH_INTERRUPT: { http: 409, grpc: "FAILED_PRECONDITION", title: "The thread does not wait for this answer." },
  AMBIGUOUS_RESUME: {
    http: 409,
    grpc: "FAILED_PRECONDITION",
    title: "Several questions are open: answer by their ids.",
  },
  IDEMPOTENCY_MISMATCH: {
    http: 409,
    grpc: "ALREADY_EXISTS",
    title: "The idempotency key or run id was used with another request.",
  },
  RUN_ACTIVE: { http: 409, grpc: "FAILED_PRECONDITION", title: "The run has not ended: cancel it first." },
  CREDENTIAL_ENDED: { http: 409, grpc: "FAILED_PRECONDITION", title: "The credential is expired or revoked." },
  ROTATION_OPEN: {
    http: 409,
    grpc: "FAILED_PRECONDITION",
    title: "The secret of before the last rotation still works.",
  },
  BUDGET_EXCEEDED: { http: 402, grpc: "RESOURCE_EXHAUSTED", title: "The budget for these runs is used up." },
  HALTED: { http: 403, grpc: "FAILED_PRECONDITION", title: "New runs are stopped here by an administrator." },
  MEMBER_EXISTS: { http: 409, grpc: "ALREADY_EXISTS", title: "Somebody with this address is a member already." },
  SECRET_EXISTS: { http: 409, grpc: "ALREADY_EXISTS", title: "There is a secret with this name already." },
  LAST_OWNER: { http: 409, grpc: "FAILED_PRECONDITION", title: "A tenant keeps at least one Owner." },
  VERSION_CONFLICT: { http: 409, grpc: "ABORTED", title: "The object changed since it was read." },
  BODY_TOO_LARGE: { http: 413, grpc: "RESOURCE_EXHAUSTED", title: "The body is larger than allowed." },
  EVENT_TOO_LARGE: { http: 413, grpc: "RESOURCE_EXHAUSTED", title: "The event is larger than allowed." },
  QUEUE_FULL: { http: 429, grpc: "RESOURCE_EXHAUSTED", title: "Too many runs wait already." },
  WAIT_TIMED_OUT: { http: 504, grpc: "DEADLINE_EXCEEDED", title: "The time to wait for this was over." },
  OVERLOADED: { http: 503, grpc: "UNAVAILABLE", title: "The service is busy: try again shortly." },
  UNAVAILABLE: { http: 503, grpc: "UNAVAILABLE", title: "The service cannot reach its stores: try again shortly." },
  INTERNAL: { http: 500, grpc: "INTERNAL", title: "Something went wrong on our side." },
} as const satisfies Record<string, { http: number; grpc: string; title: string }>;

export type ErrorCode = keyof typeof errorTable;

/** A row of the table with facts. The caller gets code, title and `message`; facts named in `publicFacts` too; the log gets all and the cause. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: ErrorCode;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message?: string, facts: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(message ?? errorTable[code].title, cause === undefined ? undefined : { cause });
    this.code = code;
    this.facts = facts;
  }
}

/** Bad input: which field, and why. */
export function invalidInput(field: string, reason: string): DomainError {
  return new DomainError("INVALID_INPUT", `${field}: ${reason}`, { field });
}

/** A known option set to something that is not built. */
export function notSupported(field: string, what: string): DomainError {
  return new DomainError("NOT_SUPPORTED", `${field}: ${what}`, { field });
}
