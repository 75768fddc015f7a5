import type { Cause, ErrorCode, Problem } from "./schema.js";

/**
 * A code of the service, or one of the client's own: `CLIENT_UNREACHABLE` where no answer was to be
 * had in time, `CLIENT_PROTOCOL` where what answered does not speak this interface.
 */
export type ErrorCodeOrOwn = ErrorCode | "CLIENT_UNREACHABLE" | "CLIENT_PROTOCOL";

/** What the service refused, with the fields of its problem document. */
export class ExecutionHostError extends Error {
  override readonly name = "ExecutionHostError";
  readonly code: ErrorCodeOrOwn;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The JSON pointer of the field at fault, or `?` and a query parameter's name. */
  readonly field: string | undefined;
  /** The HTTP status; 0 where there was no answer. */
  readonly status: number;
  readonly phase: Problem["phase"];
  readonly causes: readonly Cause[];
  readonly requestId: string | undefined;

  constructor(
    fields: Partial<Omit<Problem, "code">> & { code: ErrorCodeOrOwn; detail: string },
    options?: { cause?: unknown },
  ) {
    super(`${fields.code}: ${fields.detail}`, options);
    this.code = fields.code;
    this.retryable = fields.retryable ?? false;
    this.field = fields.field;
    this.status = fields.status ?? 0;
    this.phase = fields.phase;
    this.causes = fields.causes ?? [];
    this.requestId = fields.requestId;
  }
}

/** The error that an answer of 400 or more says. */
export function errorOf(status: number, text: string): ExecutionHostError {
  let problem: Partial<Problem> = {};
  try {
    problem = JSON.parse(text) as Partial<Problem>;
  } catch {
    // Proxies, and the service before a request is parsed, answer in other words.
  }
  if (typeof problem?.code !== "string" || typeof problem.detail !== "string") {
    const detail = `The answer is ${status} without a problem document.`;
    return new ExecutionHostError({ code: "CLIENT_PROTOCOL", detail, status });
  }
  return new ExecutionHostError({ ...problem, code: problem.code, detail: problem.detail, status });
}
