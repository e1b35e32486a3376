import type { HaftError } from "./errors.js";
import type { Failure, Result } from "./schemas.js";

/** What a model reads of a call. */
export interface Outcome {
  text: string;
  /** The call has ended without a value. */
  failed: boolean;
  /** All that is known of the call, if the server could be asked. */
  result?: Result;
}

/** The most characters of what a tool printed, of a traceback, and places that do not fit. */
const maxPrinted = 50_000;
const maxTail = 2000;
const maxMisfits = 20;

/** Says what a model reads of a result, in the words that the server uses for it. */
export function outcomeOf(result: Result): Outcome {
  const { status, call_id } = result;
  const waits = ["queued", "running", "pending_approval"].includes(status);
  let text: string;
  if (status === "pending_approval") {
    text = `pending_approval: a person has to agree to this call before it runs (approval ${result.approval_id}, call ${call_id}). It has not run. Do not call it again; go on without its result, or say what it waits for.`;
  } else if (waits) text = `${status}: the call has not ended (call ${call_id}). Do not call it again.`;
  else if (status === "success") text = valueText(result);
  else text = failureText(result, result.error);
  const files = (result.artifacts ?? []).slice(0, maxMisfits).map(({ name, content_type, size }) => `[file: ${JSON.stringify(name)}, ${JSON.stringify(content_type)}, ${size} bytes]`);
  return { text: [text, ...files].join("\n"), failed: !waits && status !== "success", result };
}

/** Says what a model reads if there is no result. Errors of the client hold no key and no argument. */
export function outcomeOfError(error: HaftError): Outcome {
  return { text: `Error (${error.code}): ${error.message}`, failed: true };
}

function valueText({ value, stdout }: Result): string {
  if (typeof value === "string") return value;
  if (value === null && stdout.trim() !== "") return stdout.slice(0, maxPrinted).trimEnd();
  return JSON.stringify(value) ?? "null";
}

function failureText(result: Result, failure: Failure | undefined): string {
  if (failure === undefined) return `Error (${result.status}): the call failed`;
  const lines = [`Error (${failure.kind}): ${failure.message}`];
  for (const { pointer, message } of (failure.misfits ?? []).slice(0, maxMisfits)) {
    if (!failure.message.includes(message)) lines.push(`- ${pointer === "" ? "the whole" : pointer}: ${message}`);
  }
  const advice = adviceOf(result, failure);
  if (advice !== undefined) lines.push(advice);
  for (const [name, text] of [["Traceback", failure.traceback], ["stdout", result.stdout], ["stderr", result.stderr]] as const) {
    if (text !== undefined && text.trim() !== "") lines.push(`${name}:\n${text.trim().slice(-maxTail)}`);
  }
  return lines.join("\n");
}

function adviceOf(result: Result, failure: Failure): string | undefined {
  if (result.status === "unknown") return "It may have run. Do not call it again before you know that it did not.";
  const after = failure.retry_after_ms ? ` after ${failure.retry_after_ms / 1000} s` : "";
  if (failure.retry === "same") return `The same call may succeed${after}.`;
  if (failure.retry === "changed") return `Call it again${after} with arguments that fit.`;
  return failure.retry === "never" ? "Calling it again will not help." : undefined;
}
