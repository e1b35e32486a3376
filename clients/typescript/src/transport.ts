import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { HaftError, RateLimitedError, TimeoutError, UnavailableError, errorOf, isCode } from "./errors.js";
import type { ErrorDetails } from "./errors.js";
import type { Misfit } from "./schemas.js";
import { sign } from "./sign.js";

/** The bounds on what is believed of a refusal. */
const maxProblem = 1 << 20;
const maxDetail = 4 << 10;
const maxMisfits = 100;
/** How many misfits the message of an error tells. */
const toldMisfits = 3;

/** How long a request may take, and what ends it before. */
export interface RequestOptions {
  /** Ends the request. A call that is being waited for is then cancelled by the server. */
  signal?: AbortSignal | undefined;
  /** How long to wait for one answer, in milliseconds; 0 means for ever. */
  timeoutMs?: number | undefined;
}

/** One request. */
export interface Query extends RequestOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with /, its parts escaped. */
  path: string;
  query?: { readonly [name: string]: Parameter } | undefined;
  /** Is sent as JSON; bytes are sent as they are, with the Content-Type of headers. */
  body?: unknown;
  headers?: { readonly [name: string]: string } | undefined;
  /** It does no harm twice, and so may be sent again. Requests that only look never do. */
  again?: boolean;
  /** It is answered with the result of a call, also with the statuses 403 and 429. */
  result?: boolean;
  /** The answer takes as long as a tool does. */
  slow?: boolean;
}

/** The value of a query parameter; undefined leaves it out. */
export type Parameter = string | number | boolean | Date | readonly string[] | undefined;

/** An answer that is not a refusal. */
export interface Answer<T> {
  status: number;
  headers: Headers;
  body: T;
}

/** What a transport is made of. */
export interface TransportConfig {
  base: URL;
  /** The agent on whose behalf requests are. */
  agent: string | undefined;
  key: string | undefined;
  sign: boolean;
  timeoutMs: number;
  callTimeoutMs: number;
  tries: number;
  maxWaitMs: number;
  maxAnswer: number;
  name: string;
  fetch: typeof fetch;
}

/** Sends requests to one server, and never its key to another. */
export class Transport {
  // Private to the language: no printer and no serialiser finds them.
  readonly #config: TransportConfig;

  constructor(config: TransportConfig) {
    this.#config = config;
  }

  /** The agent on whose behalf requests are. */
  get agent(): string | undefined {
    return this.#config.agent;
  }

  /** How long calls may take that do not say, in milliseconds; 0 means for ever. */
  get callTimeoutMs(): number {
    return this.#config.callTimeoutMs;
  }

  /** Sends a request and reads the answer, which is JSON or nothing. */
  async read<T>(query: Query): Promise<T> {
    return (await this.answer<T>(query)).body;
  }

  /** How many bytes an answer may have. */
  get maxAnswer(): number {
    return this.#config.maxAnswer;
  }

  /** Sends a request and reads the answer as it is. */
  async bytes(query: Query): Promise<Uint8Array> {
    return (await this.#answer(query, (response) => this.#bytes(response, this.#config.maxAnswer))).body;
  }

  /** Sends a request and reads the answer with its status and headers. */
  async answer<T>(query: Query): Promise<Answer<T>> {
    return await this.#answer(query, async (response) => parse<T>(await this.#text(response, this.#config.maxAnswer), response.headers));
  }

  async #answer<T>(query: Query, read: (response: Response) => Promise<T>): Promise<Answer<T>> {
    const once = async (): Promise<Answer<T>> => {
      const open = await this.#once(query);
      try {
        const { status, headers } = open.response;
        return { status, headers, body: await read(open.response) };
      } catch (error) {
        throw error instanceof HaftError ? error : this.#cut(query, error, open.late());
      } finally {
        open.close();
      }
    };
    try {
      return await this.#repeat(query, once);
    } catch (error) {
      if (error instanceof EarlyError) return error.answer as Answer<T>;
      throw error;
    }
  }

  /**
   * Sends a request whose answer is a stream. The timeout is for its beginning. The caller
   * aborts the signal to end it.
   */
  async stream(query: Query & { signal: AbortSignal }, type: string): Promise<ReadableStream<Uint8Array>> {
    return await this.#repeat(query, async () => {
      const open = await this.#once(query);
      open.stop();
      const { body, headers } = open.response;
      if (body === null || mediaType(headers) !== type) {
        await body?.cancel();
        throw foreign(`the answer is not ${type}`);
      }
      return body as ReadableStream<Uint8Array>;
    });
  }

  /** Takes the key out of what a server says, which may echo what it was sent. */
  hide(text: string): string {
    return this.#config.key === undefined ? text : text.replaceAll(this.#config.key, "[key]");
  }

  /** Sends a request again where that does no harm and may help. */
  async #repeat<T>(query: Query, send: () => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await send();
      } catch (error) {
        const more = repeatable(query) && tried < this.#config.tries && passing(error) && !query.signal?.aborted;
        const wait = more ? this.#wait(tried, error) : undefined;
        if (wait === undefined) throw error;
        await pause(wait, query.signal);
      }
    }
  }

  /** How long to wait before the next try, or undefined if that is longer than we are to wait. */
  #wait(tried: number, error: HaftError): number | undefined {
    if (error.retryAfterMs !== undefined && error.retryAfterMs > 0) {
      return error.retryAfterMs <= this.#config.maxWaitMs ? error.retryAfterMs : undefined;
    }
    const most = Math.min(200 * 2 ** (tried - 1), this.#config.maxWaitMs);
    return most / 2 + (Math.random() * most) / 2;
  }

  /** Sends a request one time and returns an answer that is not a refusal. */
  async #once(query: Query): Promise<Opened> {
    const url = address(this.#config, query);
    const method = query.method ?? "GET";
    const body = query.body === undefined || query.body instanceof Uint8Array ? query.body : new TextEncoder().encode(json(query.body));
    const headers = new Headers(query.headers);
    if (!headers.has("Accept")) headers.set("Accept", "application/json, application/problem+json, text/event-stream;q=0.9, */*;q=0.1");
    headers.set("User-Agent", this.#config.name);
    if (body !== undefined && body !== query.body) headers.set("Content-Type", "application/json");
    const { key } = this.#config;
    if (key !== undefined) {
      headers.set("Authorization", this.#config.sign ? sign(key, { method, target: url.pathname + url.search, body }) : `Bearer ${key}`);
    }
    query.signal?.throwIfAborted();
    const deadline = new Deadline(query.timeoutMs ?? (query.slow === true ? this.#config.callTimeoutMs : this.#config.timeoutMs), query.signal);
    const { fetch } = this.#config;
    try {
      const response = await fetch(url, {
        method,
        headers,
        // A redirect could lead anywhere, and the key with it.
        redirect: "manual",
        signal: deadline.signal,
        ...(body === undefined ? {} : { body }),
      });
      // 304 is what a request with If-None-Match asks for, and 403 may have the result of a call that is denied.
      const denied = query.result === true && response.status === 403 && mediaType(response.headers) === "application/json";
      if (!response.ok && response.status !== 304 && !denied) throw await this.#refusal(query, response);
      return { response, stop: () => deadline.stop(), close: () => deadline.close(), late: () => deadline.late };
    } catch (error) {
      deadline.close();
      throw error instanceof HaftError ? error : this.#cut(query, error, deadline.late);
    }
  }

  /** Says that there is no answer. */
  #cut(query: Query, error: unknown, late: boolean): unknown {
    if (query.signal?.aborted) return query.signal.reason;
    const maybeDone = !repeatable(query) && !unreached(error);
    if (late || slow.test(codeOfCause(error))) return new TimeoutError("unavailable", "the server did not answer in time", { cause: error, maybeDone });
    if (unreached(error)) return new UnavailableError("unavailable", "the server cannot be reached", { cause: error });
    const message = maybeDone
      ? "the connection to the server ended before the answer, and whether it was done is not known"
      : "the server did not answer";
    return new UnavailableError("unavailable", message, { cause: error, maybeDone });
  }

  /** Makes an error of an answer that is a refusal. */
  async #refusal(query: Query, response: Response): Promise<HaftError> {
    const { status, headers } = response;
    if (query.result === true && status === 429 && mediaType(headers) === "application/json") {
      const body = parse<unknown>(await this.#text(response, maxProblem), headers);
      return new EarlyError("rate_limited", "the call came too early", { status, retryAfterMs: waitOf(headers) }, { status, headers, body });
    }
    let problem: { [name: string]: unknown } = {};
    if (mediaType(headers) === "application/problem+json") {
      problem = object(this.hide(await this.#text(response, maxProblem)));
    } else {
      await response.body?.cancel();
    }
    const requestId = textOf(problem["request_id"], 64) ?? textOf(this.hide(headers.get("X-Request-Id") ?? ""), 64);
    const inBody = problem["retry_after_ms"];
    const retryAfterMs = typeof inBody === "number" && inBody > 0 ? inBody : waitOf(headers);
    const code = problem["code"];
    if (status >= 300 && status < 400) return foreign("the server sends elsewhere, which is not followed: give its last address");
    if (!isCode(code)) return errorOf(codeOf(status), `the answer is ${status} and not one of a Haft server: look whether the address is right`, { status, requestId, retryAfterMs });
    const misfits = misfitsOf(problem["misfits"]);
    const detail = textOf(problem["detail"], maxDetail) ?? textOf(problem["title"], maxDetail) ?? code;
    const where = misfits.slice(0, toldMisfits).map(({ pointer, message }) => `${pointer || "(all)"} ${message}`);
    return errorOf(code, where.length === 0 ? detail : `${detail}: ${where.join("; ")}`, {
      status,
      misfits,
      requestId,
      retryAfterMs,
    });
  }

  /** Reads a body, which is bounded after it is unpacked. */
  async #bytes(response: Response, most: number): Promise<Uint8Array> {
    if (response.body === null) return new Uint8Array();
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      size += chunk.byteLength;
      if (size > most) throw foreign(`the answer of the server has more than ${most} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks, size);
  }

  /** Reads a body that is text. */
  async #text(response: Response, most: number): Promise<string> {
    const raw = await this.#bytes(response, most);
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(raw);
    } catch (cause) {
      throw foreign("the answer of the server is not text", cause);
    }
  }
}

/** An answer whose body is yet to be read. */
interface Opened {
  response: Response;
  /** Lets it take its time from now on. */
  stop: () => void;
  close: () => void;
  late: () => boolean;
}

/** Ends a request after a time, or when its caller does. */
class Deadline {
  readonly #control = new AbortController();
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #part: () => void;
  readonly signal = this.#control.signal;
  late = false;

  constructor(ms: number, caller: AbortSignal | undefined) {
    this.#part = follow(caller, this.#control);
    if (ms > 0) {
      this.#timer = setTimeout(() => {
        this.late = true;
        this.#control.abort();
      }, ms);
    }
  }

  /** Stops the clock. The caller still ends the request. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Lets go of the caller too. */
  close(): void {
    this.stop();
    this.#part();
  }
}

/** Has a controller abort when a signal does, until what is returned is called. */
export function follow(signal: AbortSignal | undefined, control: AbortController): () => void {
  if (signal === undefined) return () => {};
  const leave = (): void => control.abort(signal.reason);
  // One signal may end many requests, which is no leak.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", leave, { once: true });
  return () => signal.removeEventListener("abort", leave);
}

/** Waits, and throws the reason of a signal that is aborted before. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    throw signal?.reason;
  }
}

/** Makes a part of a path. A text that would make another path of it names nothing that there is. */
export function part(kind: string, text: string): string {
  if (text === "" || text === "." || text === ".." || text.includes("\0")) {
    throw errorOf("not_found", `there is no such ${kind}`);
  }
  return `/${encodeURIComponent(text)}`;
}

/** Reports whether a request may be sent twice. */
function repeatable(query: Query): boolean {
  return query.again === true || query.method === undefined || query.method === "GET";
}

/** Makes the address of a request. */
function address({ base, agent }: TransportConfig, query: Query): URL {
  const url = new URL(base);
  url.pathname = url.pathname.replace(/\/+$/, "") + query.path;
  const parameters: { readonly [name: string]: Parameter } = { as: agent, ...query.query };
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined) continue;
    if (value instanceof Date) url.searchParams.set(name, value.toISOString());
    else if (typeof value === "object") {
      if (value.length > 0) url.searchParams.set(name, value.join(","));
    } else url.searchParams.set(name, String(value));
  }
  return url;
}

/** Writes JSON. Tools get maps as objects, sets as arrays and big integers as numbers. */
function json(value: unknown): string {
  try {
    return JSON.stringify(value, (_, one: unknown) => {
      if (one instanceof Map) return Object.fromEntries(one);
      if (one instanceof Set) return [...one];
      if (typeof one !== "bigint") return one;
      if (!Number.isSafeInteger(Number(one))) throw new RangeError("an integer is too big for JSON");
      return Number(one);
    });
  } catch (cause) {
    throw errorOf("invalid", "what is to be sent is not JSON", { cause });
  }
}

/** Reads the JSON of an answer. */
function parse<T>(text: string, headers: Headers): T {
  if (text === "") return undefined as T;
  const kind = mediaType(headers);
  if (kind !== "application/json" && !kind.endsWith("+json")) return text as T;
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw foreign("the answer is not one of a Haft server of this version", cause);
  }
}

/** Reads a JSON object; anything else is an empty one. */
function object(text: string): { [name: string]: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
  } catch {
    return {};
  }
}

function textOf(value: unknown, most: number): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, most) : undefined;
}

function misfitsOf(value: unknown): Misfit[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, maxMisfits).map((one: { pointer?: unknown; message?: unknown } | null) => ({
    pointer: textOf(one?.pointer, maxDetail) ?? "",
    message: textOf(one?.message, maxDetail) ?? "",
  }));
}

function mediaType(headers: Headers): string {
  return (headers.get("Content-Type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** An answer that no Haft server gives. It does not get better by asking again. */
function foreign(message: string, cause?: unknown): HaftError {
  return new ForeignError("unavailable", message, { cause });
}

class ForeignError extends UnavailableError {}

/** A call that came too early, with its result: what is returned if it cannot be tried again. */
class EarlyError extends RateLimitedError {
  readonly answer: Answer<unknown>;

  constructor(code: "rate_limited", message: string, details: ErrorDetails, answer: Answer<unknown>) {
    super(code, message, details);
    this.answer = answer;
  }
}

/** How many milliseconds the header Retry-After asks to wait, if it does. */
function waitOf(headers: Headers): number | undefined {
  const seconds = Number(headers.get("Retry-After"));
  return Number.isFinite(seconds) && seconds > 0 && seconds < 1e6 ? seconds * 1000 : undefined;
}

/** Reports whether an error may be gone with the next try. */
function passing(error: unknown): error is HaftError {
  if (!(error instanceof HaftError) || error instanceof TimeoutError || error instanceof ForeignError) return false;
  return error.code === "unavailable" || error.code === "rate_limited";
}

/** Codes of errors before anything is sent: the name, the connection, the certificate. */
const early = /^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EPROTO|UND_ERR_CONNECT_TIMEOUT)$|^ERR_(TLS|SSL)_|CERT|^UNABLE_TO_|^HOSTNAME_MISMATCH$/;

/** Codes of errors by which fetch gives up by itself, after five minutes. */
const slow = /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/;

/** Reports whether an error says that nothing was sent. */
function unreached(error: unknown): boolean {
  return early.test(codeOfCause(error));
}

/** The code of what made fetch fail. */
function codeOfCause(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as { code?: unknown; syscall?: unknown } | undefined) : undefined;
  return cause?.syscall === "connect" ? "ECONNREFUSED" : String(cause?.code);
}

/** The code of a status that no Haft server explains: a proxy's. */
function codeOf(status: number): Parameters<typeof errorOf>[0] {
  switch (status) {
    case 401:
    case 407:
      return "unauthenticated";
    case 403:
      return "denied";
    case 404:
      return "not_found";
    case 409:
    case 412:
      return "conflict";
    case 429:
      return "rate_limited";
    case 500:
      return "internal";
    case 408:
      return "unavailable";
    default:
      return status >= 400 && status < 500 ? "invalid" : "unavailable";
  }
}

/** Reports whether what is sent to a host stays on this machine. */
export function loopback(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  return host === "localhost" || host.endsWith(".localhost") || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}
