import { randomUUID } from "node:crypto";

import { CallError, TimeoutError, UnavailableError } from "./errors.js";
import { type WatchOptions, watch } from "./events.js";
import { type FilesLike, Files, attach, maxInline } from "./files.js";
import { type ListOptions, list } from "./page.js";
import type { BatchCall, BatchedBody, CallEvent, CallRecord, CallWorkspace, Called, CancelAllBody, CancelledBody, Chain, FileBody, NewCall, Result, RunPlanBody, Status } from "./schemas.js";
import { type RequestOptions, type Transport, part, pause } from "./transport.js";
import { type WorkspaceLike, workspaceOf } from "./workspaces.js";

/**
 * How a call is to be made. An `idempotency_key` that is left out is made up, so that a call
 * whose answer was lost can be asked for again and is run once.
 */
export interface CallOptions extends RequestOptions, Omit<NewCall, "tool" | "args" | "wait" | "deadline" | "files" | "workspace"> {
  /** When it must have ended. */
  deadline?: Date | string;
  /**
   * What the tool finds in its working directory: a path, an open file, a stream, a file of the
   * server or its id, several of them, or `{name: content}`, which may also be bytes.
   */
  files?: FilesLike | null | undefined;
  /** A directory that outlives the call: its name, `NAME:ro` to only read it, or more. */
  workspace?: WorkspaceLike | undefined;
  /** A W3C trace context that the call continues. */
  traceparent?: string;
}

/** One call of a batch. */
export interface NewBatchCall extends Omit<BatchCall, "files" | "workspace"> {
  /** What the tool finds in its working directory, as in {@link CallOptions}. */
  files?: FilesLike | null | undefined;
  /** A directory that outlives the call: its name, `NAME:ro` to only read it, or more. */
  workspace?: WorkspaceLike | undefined;
}

export interface CallFilter extends ListOptions {
  user?: string;
  agent?: string;
  tool?: string;
  turn?: string;
  parent?: string;
  chain?: string;
  status?: readonly Status[];
  /** Newest first unless this is `created`. */
  sort?: "-created" | "created";
  since?: Date;
  until?: Date;
}

/** A piece of what a tool printed. */
export interface Output {
  stream: "stdout" | "stderr";
  text: string;
}

export interface WaitOptions extends RequestOptions {
  /** Wait also for a person who has to agree. */
  approval?: boolean;
}

/** How often to look, in milliseconds, where the server does not wait. */
const lookMs = 1000;

/** After how many milliseconds the fetch of Node.js gives up, and how many seconds of them a call is waited for that takes longer. */
const fetchMs = 300_000;
const longWait = 240;

/** How long one request waits for the end of a call, in seconds: less than what proxies cut connections after. */
const oneWait = 50;

/** Makes calls, and looks back at them. */
export class Calls {
  readonly #transport: Transport;
  readonly #files: Files;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.#files = new Files(transport);
  }

  /**
   * Calls a tool and waits for the result, also if that is a failure: `status` says so. When
   * the signal is aborted, or the time is over, the call is cancelled.
   */
  async run<V = unknown>(tool: string, args: object = {}, options: CallOptions = {}): Promise<Result<V>> {
    const timeoutMs = options.timeoutMs ?? this.#transport.callTimeoutMs;
    if (timeoutMs > 0 && timeoutMs <= fetchMs) return await this.#make<V>(tool, args, options, true);
    const over = until({ timeoutMs });
    const started = await this.#make<V>(tool, args, { ...options, timeoutMs: fetchMs }, longWait);
    if (ended(started.status, {})) return started;
    try {
      return await this.wait<V>(started.call_id, { signal: options.signal, timeoutMs: timeoutMs > 0 ? Math.max(over(), 1) : 0 });
    } catch (error) {
      // Nobody waits for it any more. If that cannot be told, the limits of the tool end it.
      await this.cancel(started.call_id).catch(() => {});
      throw error;
    }
  }

  /** Calls a tool and returns its value. Anything but success is a CallError. */
  async value<V = unknown>(tool: string, args: object = {}, options: CallOptions = {}): Promise<V> {
    return valueOf(await this.run<V>(tool, args, options));
  }

  /** Has a tool called and returns at once: it runs whether or not anybody waits. */
  async start(tool: string, args: object = {}, options: CallOptions = {}): Promise<Called> {
    return await this.#make(tool, args, options, false);
  }

  /**
   * Waits until a call has ended or waits for a person, and returns its result. With
   * `approval` it waits for the person too.
   */
  async wait<V = unknown>(id: string, options: WaitOptions = {}): Promise<Result<V>> {
    const over = until(options);
    for (;;) {
      const wait = Math.min(oneWait, over() / 1000);
      const record = await this.#record(id, { signal: options.signal, timeoutMs: wait * 1000 + 30_000 }, wait);
      if (ended(record.status, options)) {
        if (record.result !== undefined) return record.result as Result<V>;
        throw new UnavailableError("unavailable", "the server has no result of the call any more");
      }
      if (over() <= 0) throw new TimeoutError("unavailable", "the call goes on: wait again, or cancel it");
      // The server waits for tools and not for people.
      if (record.status === "pending_approval") await pause(Math.min(lookMs, over()), options.signal);
    }
  }

  /** Shows what is kept of a call. */
  async show(id: string, options: RequestOptions = {}): Promise<CallRecord> {
    return await this.#record(id, options, undefined);
  }

  /** Lists calls, newest first. */
  async *list(filter: CallFilter = {}): AsyncGenerator<CallRecord, void, undefined> {
    for await (const record of list<CallRecord>(this.#transport, "/v1/calls", filter)) yield this.#attach(record);
  }

  /** Cancels a call. One that has ended stays as it is. */
  async cancel(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "POST", path: `/v1/calls${part("call", id)}/cancel`, again: true });
  }

  /** Cancels all calls of a user or an agent, or one's own, and says how many. */
  async cancelAll(of: CancelAllBody = {}, options: RequestOptions = {}): Promise<number> {
    const done = await this.#transport.read<CancelledBody>({ ...options, method: "POST", path: "/v1/calls/cancel", body: of, again: true });
    return done.cancelled;
  }

  /** Makes several calls, beside each other where their tools allow it. Results are in the order of the calls. */
  async batch(calls: readonly NewBatchCall[], options: RequestOptions = {}): Promise<Result[]> {
    if (calls.length === 0) return [];
    const all: BatchCall[] = [];
    for (const { files, workspace, ...call } of calls) {
      all.push({ idempotency_key: randomUUID(), ...call, ...(await this.#given(files, workspace, Math.trunc(maxInline / calls.length), options)) });
    }
    const body = { calls: all };
    const done = await this.#transport.read<BatchedBody>({ ...options, slow: true, method: "POST", path: "/v1/calls/batch", body, again: true });
    if (done.results?.length !== calls.length) throw new UnavailableError("unavailable", "the server gave another number of results than there were calls");
    return done.results.map((result) => attach(this.#transport, result));
  }

  /** Calls the same version with the same arguments again, as a new call. */
  async replay<V = unknown>(id: string, options: RequestOptions = {}): Promise<Result<V>> {
    return attach(this.#transport, await this.#transport.read<Result<V>>({ ...options, slow: true, method: "POST", path: `/v1/calls${part("call", id)}/replay`, result: true }));
  }

  /** Yields the events of a call, from the first on or after the one with that cursor, until it has ended. */
  async *events(id: string, options: WatchOptions = {}): AsyncGenerator<CallEvent, void, undefined> {
    part("call", id);
    const query = { path: "/v1/events", query: { call: id } };
    for await (const event of watch(this.#transport, query, { after: 0, ...options })) {
      yield event;
      if (event.type === "tool_completed") return;
    }
  }

  /** Yields what the tool of a call prints, until it has ended. */
  async *output(id: string, options: WatchOptions = {}): AsyncGenerator<Output, void, undefined> {
    for await (const event of this.events(id, options)) {
      if (event.type === "tool_output") yield event.data as Output;
    }
  }

  async #make<V>(tool: string, args: object, options: CallOptions, wait: boolean | number): Promise<Called<V>> {
    const { signal, timeoutMs, traceparent, files, workspace, ...rest } = options;
    const given = await this.#given(files, workspace, maxInline, { signal });
    const body = { idempotency_key: randomUUID(), ...rest, ...given, tool, args, wait };
    const headers = traceparent === undefined ? undefined : { Traceparent: traceparent };
    return attach(this.#transport, await this.#transport.read<Called<V>>({ signal, timeoutMs, method: "POST", path: "/v1/calls", body, headers, again: true, result: true, slow: wait !== false }));
  }

  async #record(id: string, options: RequestOptions, wait: number | undefined): Promise<CallRecord> {
    return this.#attach(await this.#transport.read<CallRecord>({ ...options, path: `/v1/calls${part("call", id)}`, query: { wait } }));
  }

  #attach(record: CallRecord): CallRecord {
    if (record.result !== undefined) attach(this.#transport, record.result);
    return record;
  }

  async #given(
    files: FilesLike | null | undefined,
    workspace: WorkspaceLike | undefined,
    left: number,
    options: RequestOptions,
  ): Promise<{ files?: FileBody[]; workspace?: CallWorkspace }> {
    return {
      ...(files === undefined || files === null ? {} : { files: await this.#files.ofCall(files, left, options) }),
      ...(workspace === undefined ? {} : { workspace: workspaceOf(workspace) }),
    };
  }
}

/** Returns how many milliseconds are left. */
function until({ timeoutMs }: WaitOptions): () => number {
  const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
  return () => Math.max(end - Date.now(), 0);
}

/** Reports whether there is nothing more to wait for. */
function ended(status: Status, { approval }: WaitOptions): boolean {
  return status !== "queued" && status !== "running" && (status !== "pending_approval" || approval !== true);
}

/** Runs plans: calls that refer to the results of earlier ones. */
export class Chains {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Runs a plan to its end, or until it waits for a person; with `background` it returns at once. */
  async run(plan: RunPlanBody, options: RequestOptions = {}): Promise<Chain> {
    return this.#attach(await this.#transport.read<Chain>({ ...options, slow: true, method: "POST", path: "/v1/chains", body: plan }));
  }

  /** Shows where a chain stands. */
  async show(id: string, options: RequestOptions = {}): Promise<Chain> {
    return this.#attach(await this.#transport.read<Chain>({ ...options, path: `/v1/chains${part("chain", id)}` }));
  }

  #attach(chain: Chain): Chain {
    for (const { result } of chain.steps ?? []) if (result !== undefined) attach(this.#transport, result);
    return chain;
  }

  /** Waits until a chain has ended or waits for a person; with `approval`, also for the person. */
  async wait(id: string, options: WaitOptions = {}): Promise<Chain> {
    const over = until(options);
    for (let wait = 50; ; wait = Math.min(wait * 2, lookMs)) {
      const chain = await this.show(id, { signal: options.signal });
      if (ended(chain.status, options)) return chain;
      if (over() <= 0) throw new TimeoutError("unavailable", "the chain goes on: wait again");
      await pause(Math.min(wait, over()), options.signal);
    }
  }
}

/** Returns the value of a result. Anything but success is a CallError. */
export function valueOf<V>(result: Result<V>): V {
  if (result.status !== "success") throw new CallError(result);
  return result.value;
}
