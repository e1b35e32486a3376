import { createHash, createHmac, randomBytes } from "node:crypto";

/** The label that makes the signing key of an API key. */
const label = "haft request signing 1";

const scheme = "HAFT-HMAC-SHA256";

/** An API key: its id, its secret, and a checksum that the server looks at. */
const form = /^haft_([a-z2-7]{12})_[a-z2-7]+$/;

/** Reports whether a text can be an API key, which can sign requests. */
export function canSign(key: string): boolean {
  return form.test(key);
}

/** What is signed of a request. */
export interface Signed {
  method: string;
  /** Path and query, as in the request line. */
  target: string;
  body: Uint8Array | undefined;
}

/**
 * Returns the Authorization header of a request that is signed with an API key, which is
 * not sent. `at` and `nonce` are for tests.
 */
export function sign(
  key: string,
  request: Signed,
  at: number = Math.floor(Date.now() / 1000),
  nonce: string = randomBytes(24).toString("base64url"),
): string {
  const id = form.exec(key)?.[1] ?? "";
  const body = createHash("sha256")
    .update(request.body ?? new Uint8Array())
    .digest("hex");
  const text = [scheme, id, at, nonce, request.method, request.target, body].join("\n");
  const signing = createHmac("sha256", key).update(label).digest();
  const signature = createHmac("sha256", signing).update(text).digest("hex");
  return `${scheme} key=${id},time=${at},nonce=${nonce},body=${body},signature=${signature}`;
}
