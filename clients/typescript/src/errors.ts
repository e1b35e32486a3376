import type { Code, Misfit, Result } from "./schemas.js";

/** What is known of an error besides its message. */
export interface ErrorDetails {
  /** The HTTP status, if there was an answer. */
  status?: number | undefined;
  /** Where the request does not fit, by JSON Pointer. */
  misfits?: readonly Misfit[] | undefined;
  /** By which the log of the server knows the request. */
  requestId?: string | undefined;
  /** How long to wait before trying again. */
  retryAfterMs?: number | undefined;
  /** Nobody can know whether the server did it: the connection ended before the answer. */
  maybeDone?: boolean | undefined;
  cause?: unknown;
}

/**
 * Every error of this client, and every refusal of a server. `code` is what a program
 * decides by. It never holds the key.
 */
export class HaftError extends Error {
  override readonly name: string = "HaftError";
  /** One of the codes of the server, or `failed` for a {@link CallError}. */
  readonly code: Code | "failed";
  readonly status: number | undefined;
  readonly misfits: readonly Misfit[];
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  /** Nobody can know whether the server did it: the connection ended before the answer. */
  readonly maybeDone: boolean;

  constructor(code: Code | "failed", message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.misfits = details.misfits ?? [];
    this.requestId = details.requestId;
    this.retryAfterMs = details.retryAfterMs;
    this.maybeDone = details.maybeDone ?? false;
  }
}

/** The request is wrong: change it. `misfits` say where. */
export class InvalidError extends HaftError {
  override readonly name = "InvalidError";
}

/** The server does not know who asks. */
export class UnauthenticatedError extends HaftError {
  override readonly name = "UnauthenticatedError";
}

/** A rule or a person forbids it. */
export class DeniedError extends HaftError {
  override readonly name = "DeniedError";
}

/** There is no such thing, or none that the key may know of. */
export class NotFoundError extends HaftError {
  override readonly name = "NotFoundError";
}

/** It clashes with what is there: look again first. */
export class ConflictError extends HaftError {
  override readonly name: string = "ConflictError";
}

/** Too many requests: come back after `retryAfterMs`. */
export class RateLimitedError extends HaftError {
  override readonly name = "RateLimitedError";
}

/** Something that is needed is away, the server itself perhaps: try again. */
export class UnavailableError extends HaftError {
  override readonly name: string = "UnavailableError";
}

/** There was no answer in time. */
export class TimeoutError extends UnavailableError {
  override readonly name = "TimeoutError";
}

/** The source waits until a person has looked at it, and does not run before. */
export class ReviewError extends ConflictError {
  override readonly name = "ReviewError";
}

/** What was sent to a webhook is not from the server that has the secret, or is too old. */
export class SignatureError extends HaftError {
  override readonly name = "SignatureError";

  constructor(message: string, cause?: unknown) {
    super("unauthenticated", message, { cause });
  }
}

/** A fault of the server. */
export class InternalError extends HaftError {
  override readonly name = "InternalError";
}

/** The source of a function cannot be had, or not in a form that can run elsewhere. */
export class SourceError extends HaftError {
  override readonly name = "SourceError";

  constructor(message: string, cause?: unknown) {
    super("invalid", message, { cause });
  }
}

/**
 * A call that gave no value: the tool failed, the call was refused, or it waits for a
 * person. `result` has it all.
 */
export class CallError extends HaftError {
  override readonly name = "CallError";
  readonly result: Result;

  constructor(result: Result) {
    const asks = result.status === "pending_approval" ? `a person has to agree (approval ${result.approval_id ?? ""})` : undefined;
    const why = result.error?.message ?? asks;
    super("failed", `call ${result.call_id} of ${result.tool} ended with ${result.status}${why === undefined ? "" : `: ${why}`}`, {
      misfits: result.error?.misfits ?? undefined,
      retryAfterMs: result.error?.retry_after_ms,
      maybeDone: result.status === "unknown",
    });
    this.result = result;
  }
}

const classes: { readonly [code in Code]: new (code: Code, message: string, details?: ErrorDetails) => HaftError } = {
  invalid: InvalidError,
  unauthenticated: UnauthenticatedError,
  denied: DeniedError,
  not_found: NotFoundError,
  conflict: ConflictError,
  rate_limited: RateLimitedError,
  unavailable: UnavailableError,
  internal: InternalError,
};

/** Makes the error of a code. */
export function errorOf(code: Code, message: string, details?: ErrorDetails): HaftError {
  return new classes[code](code, message, details);
}

/** Reports whether a text is a code that this client knows. */
export function isCode(text: unknown): text is Code {
  return typeof text === "string" && Object.hasOwn(classes, text);
}
