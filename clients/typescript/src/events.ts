import { HaftError, UnavailableError, errorOf, isCode } from "./errors.js";
import type { CallEvent, EventType } from "./schemas.js";
import { type Query, type Transport, follow, pause } from "./transport.js";

/** The bounds of a stream. */
const maxEvent = 16 << 20; // characters: its data may be 1 MiB, and JSON escapes it
/** How long a connection lives that was no failure, though nothing happened meanwhile. */
const livelyMs = 20_000;
/** After which time a stream without a sign of life is cut. The server sends one every 15 seconds. */
const silenceMs = 60_000;

/** Which events are watched. */
export interface EventFilter {
  call?: string;
  /** The name or id of an agent. */
  agent?: string;
  user?: string;
  /** The name of a tool. */
  tool?: string;
  type?: readonly EventType[];
}

export interface WatchOptions {
  /** Ends the watch, which then throws the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** The cursor of the last event that was seen. 0 begins with the oldest that is kept; left out it begins with the next. */
  after?: number | undefined;
  /** How long to try to come back to a server that is away, in milliseconds; a minute if it is left out. */
  patienceMs?: number | undefined;
}

/** Watches what happens. */
export class Events {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Yields events as they happen. When the connection is cut it comes back and goes on after
   * the last event: nothing is lost or repeated, or it throws a ConflictError that says that
   * events are no longer kept. It ends when its loop is left or its signal aborted.
   */
  watch(filter: EventFilter = {}, options: WatchOptions = {}): AsyncGenerator<CallEvent, void, undefined> {
    return watch(this.#transport, { path: "/v1/events", query: { ...filter } }, options);
  }
}

/** Follows events over all cuts. */
export function watch(transport: Transport, query: Query, options: WatchOptions): AsyncGenerator<CallEvent, void, undefined> {
  let at = options.after;
  const source: Source<CallEvent> = {
    over: false,
    query: () => ({ ...query, query: { ...query.query, after: at } }),
    take(message) {
      if (message.data !== "") {
        const event = read<CallEvent>(message.data, ({ cursor }) => typeof cursor === "number");
        if (at !== undefined && event.cursor <= at && at > 0) return undefined; // we have it
        // What was yielded was seen, also if the loop ends here.
        at = event.cursor;
        return event;
      }
      if (/^\d{1,16}$/.test(message.id) && Number(message.id) > (at ?? 0)) at = Number(message.id); // how far the server has looked
      return undefined;
    },
  };
  return resume(transport, source, options);
}

/** What a stream has, over all of its connections. */
export interface Source<T> {
  /** Nothing more is expected. */
  over: boolean;
  /** The request of the next connection; undefined if it is not known where to go on. */
  query(): Query | undefined;
  /** Reads a message; undefined means that it has nothing new. */
  take(message: Message): T | undefined;
}

/** Follows a stream over all cuts. */
export async function* resume<T>(transport: Transport, source: Source<T>, options: Omit<WatchOptions, "after">): AsyncGenerator<T, void, undefined> {
  const patience = options.patienceMs ?? 60_000;
  let failures = 0;
  let since = Date.now();
  let failure: unknown;
  for (;;) {
    const began = Date.now();
    const query = source.query();
    if (query === undefined) throw failure;
    try {
      for await (const item of connection(transport, query, source, options.signal)) {
        yield item;
        if (source.over) return;
        [failures, since] = [0, Date.now()];
      }
      failure = new UnavailableError("unavailable", "the stream of events was cut");
    } catch (error) {
      failure = error;
    }
    if (options.signal?.aborted) throw options.signal.reason;
    if (Date.now() - began > livelyMs) [failures, since] = [0, Date.now()];
    failures++;
    // What is not there now may be again: a restart, a reader that was too slow.
    const away = failure instanceof HaftError && failure.code === "unavailable";
    if (!away || Date.now() - since >= patience) throw failure;
    const wait = Math.min(100 * 2 ** Math.min(failures, 6), 5000);
    await pause(wait / 2 + (Math.random() * wait) / 2, options.signal);
  }
}

/** Opens a stream that cannot go on after a cut, and gives what it has. */
export async function opened<T>(
  transport: Transport,
  query: Query,
  take: (message: Message) => T | undefined,
  signal: AbortSignal | undefined,
): Promise<AsyncGenerator<T, void, undefined>> {
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const source: Source<T> = {
    over: false,
    query: () => query,
    take(message) {
      begin(); // a stream begins with a sign of life
      return take(message);
    },
  };
  const items = connection(transport, query, source, signal);
  const first = items.next();
  first.catch(() => {}); // whoever reads the first item is told
  await Promise.race([begun, first]);
  return uncut(first, items, signal);
}

/** Yields all items of a stream, whose end is an error. */
async function* uncut<T>(
  first: Promise<IteratorResult<T, void>>,
  items: AsyncGenerator<T, void, undefined>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, undefined> {
  try {
    for (let step = await first; step.done !== true; step = await items.next()) yield step.value;
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    await items.return();
  }
  throw new UnavailableError("unavailable", "the stream of events was cut");
}

/** Yields what comes over one connection. */
async function* connection<T>(
  transport: Transport,
  query: Query,
  source: Source<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, undefined> {
  const control = new AbortController();
  signal?.throwIfAborted();
  const part = follow(signal, control);
  const quiet = new UnavailableError("unavailable", "the server has not said anything for a while");
  const alarm = setTimeout(() => control.abort(quiet), silenceMs);
  try {
    const headers = { ...query.headers, Accept: "text/event-stream" };
    const body = await transport.stream({ ...query, headers, signal: control.signal }, "text/event-stream");
    for await (const message of messages(body, () => alarm.refresh())) {
      if (message.event === "error") throw farewell(transport.hide(message.data));
      const item = source.take(message);
      if (item !== undefined) yield item;
    }
  } catch (error) {
    if (control.signal.reason === quiet) throw quiet;
    throw error instanceof HaftError ? error : new UnavailableError("unavailable", "the stream of events was cut", { cause: error });
  } finally {
    clearTimeout(alarm);
    part();
    control.abort();
  }
}

/** Reads one event, if it is one. */
export function read<T>(data: string, is: (event: T) => boolean): T {
  try {
    const event = JSON.parse(data) as T | null;
    if (typeof event === "object" && event !== null && is(event)) return event;
  } catch {
    // It is no event, which is said below.
  }
  throw errorOf("internal", "an event of the stream cannot be read");
}

/** Reads why a stream ends. */
function farewell(data: string): HaftError {
  try {
    const bye = JSON.parse(data) as { code?: unknown; message?: unknown };
    if (isCode(bye.code)) return errorOf(bye.code, String(bye.message).slice(0, 4096));
  } catch {
    // It is no farewell, which is said below.
  }
  return new UnavailableError("unavailable", "the stream of events ended");
}

/** One message of a stream of server-sent events. */
export interface Message {
  id: string;
  event: string;
  data: string;
}

/** Yields the messages of a stream of server-sent events. One without data has at most an id. */
export async function* messages(body: AsyncIterable<Uint8Array>, alive: () => void = () => {}): AsyncGenerator<Message, void, undefined> {
  const decoder = new TextDecoder();
  let begun: string[] = []; // pieces of a line that has not ended
  let size = 0; // of the message so far
  let message: Message = { id: "", event: "", data: "" };
  let data: string[] = [];
  for await (const chunk of body) {
    alive();
    const lines = decoder.decode(chunk, { stream: true }).split("\n");
    for (const [at, piece] of lines.entries()) {
      size += piece.length;
      if (size > maxEvent) throw errorOf("internal", `an event has more than ${maxEvent} characters`);
      begun.push(piece);
      if (at === lines.length - 1) break;
      const line = begun.join("").replace(/\r$/, "");
      begun = [];
      if (line === "") {
        yield { ...message, data: data.join("\n") };
        [message, data, size] = [{ id: "", event: "", data: "" }, [], 0];
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") data.push(value);
      else if (name === "id" || name === "event") message[name] = value;
    }
  }
}
