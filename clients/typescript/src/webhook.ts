import { createHmac, timingSafeEqual } from "node:crypto";

import { InvalidError, SignatureError } from "./errors.js";
import type { CallEvent, EventType } from "./schemas.js";

/** What a webhook is sent. */
export interface WebhookMessage {
  type: EventType;
  timestamp: string;
  data: CallEvent;
}

export interface VerifyOptions {
  /** How old a message may be, or how far ahead, in milliseconds; five minutes if it is left out. */
  toleranceMs?: number;
  /** What time it is, for tests. */
  now?: Date;
}

/** The headers of a request, as Node.js has them or as a Headers object. */
export type WebhookHeaders = Headers | { readonly [name: string]: string | readonly string[] | undefined };

/**
 * Verifies what was sent to a webhook and returns it. `body` is as it came: a body that was
 * parsed and written again is another. Several secrets may be given while one replaces
 * another. What does not come from Haft, or not now, is a SignatureError.
 */
export function verifyWebhook(secret: string | readonly string[], headers: WebhookHeaders, body: string | Uint8Array, options: VerifyOptions = {}): WebhookMessage {
  const id = header(headers, "webhook-id");
  const at = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  if (!/^\d{1,11}$/.test(at)) throw new SignatureError("the message has no timestamp");
  const age = (options.now ?? new Date()).getTime() - Number(at) * 1000;
  if (Math.abs(age) > (options.toleranceMs ?? 300_000)) throw new SignatureError("the message is too old, or a clock is wrong");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const expected = [secret].flat().map((one) => {
    const key = Buffer.from(one.replace(/^whsec_/, ""), "base64");
    if (key.length < 16) throw new InvalidError("invalid", "the secret of a webhook is too short to be one");
    return createHmac("sha256", key).update(`${id}.${at}.`).update(bytes).digest();
  });
  let good = false;
  for (const one of signatures.split(" ").slice(0, 16)) {
    const given = Buffer.from(one.startsWith("v1,") ? one.slice(3) : "", "base64");
    for (const sum of expected) {
      good = (given.length === sum.length && timingSafeEqual(given, sum)) || good;
    }
  }
  if (!good) throw new SignatureError("the signature of the message is not good");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as WebhookMessage;
  } catch (cause) {
    throw new SignatureError("the message is not JSON", cause);
  }
}

function header(headers: WebhookHeaders, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === name) return String(value ?? "");
  }
  return "";
}
