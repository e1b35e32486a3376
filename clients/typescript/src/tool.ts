import { type CallOptions, type Calls, valueOf } from "./calls.js";
import { InvalidError, NotFoundError, ReviewError, SourceError } from "./errors.js";
import type { Added, Called, Draft, Result, Tool, Version } from "./schemas.js";
import { mustName, readSource } from "./source.js";
import type { Format, Tools } from "./tools.js";
import type { RequestOptions } from "./transport.js";

/** A function of any arguments. */
type AnyFunction = (...args: any[]) => unknown;

/** A value as it comes back from a tool: what JSON can say of it. */
export type Json<T> = 0 extends 1 & T // it is any
  ? T
  : T extends string | number | boolean | null
    ? T
    : JsonOf<T>;

type JsonOf<T> = T extends undefined | void
  ? null
  : T extends bigint
    ? number
    : T extends Date | URL
      ? string
      : T extends ReadonlyMap<unknown, infer V>
        ? { [name: string]: Json<V> }
        : T extends ReadonlySet<infer V>
          ? Json<V>[]
          : T extends AnyFunction | symbol
            ? never
            : T extends object
              ? { [K in keyof T]: Json<T[K]> }
              : T;

/** What can be said of a tool besides its source. */
export type ToolSettings = Omit<Draft, "source_code" | "source_type">;

/** The functions of a module, as tools. */
export type ToolsOf<M> = { readonly [K in keyof M as M[K] extends AnyFunction ? K : never]: M[K] extends AnyFunction ? RemoteTool<M[K]> : never };

/**
 * A function whose source is registered as a tool. Making one does nothing yet: the source
 * is read and sent when it is registered, or called for the first time.
 */
export class RemoteTool<F extends AnyFunction> {
  readonly #tools: Tools;
  readonly #calls: Calls;
  readonly #at: string | URL;
  readonly #settings: ToolSettings & { function: string };
  readonly #options: CallOptions;
  readonly #state: { added?: Promise<Added> | undefined };

  constructor(
    tools: Tools,
    calls: Calls,
    at: string | URL,
    settings: ToolSettings & { function: string },
    options: CallOptions = {},
    state: { added?: Promise<Added> | undefined } = {},
  ) {
    this.#tools = tools;
    this.#calls = calls;
    this.#at = at;
    this.#settings = settings;
    this.#options = options;
    this.#state = state;
  }

  /** The name of the tool, or if it was not given that of the function. */
  get name(): string {
    return this.#settings.name ?? this.#settings.function;
  }

  /**
   * Reads the source and registers it: as a new tool, as a new version if it has changed, or
   * as nothing new. It does so once, or `again`.
   */
  async register(options: RequestOptions & { again?: boolean } = {}): Promise<Added> {
    const { again, ...rest } = options;
    if (this.#state.added !== undefined && again !== true) return this.#state.added;
    const added = this.#put(rest);
    this.#state.added = added;
    try {
      return await added;
    } catch (error) {
      if (this.#state.added === added) this.#state.added = undefined; // the next one tries again
      throw error;
    }
  }

  /**
   * Runs the function in a sandbox of the server and returns its value. It takes the arguments
   * that the function takes. Anything but success is a CallError. The first call registers the
   * source, and that version is what runs.
   */
  async remote(...args: Parameters<F>): Promise<Json<Awaited<ReturnType<F>>>> {
    return valueOf(await this.call(...args));
  }

  /** Runs it and returns all that is known of the call, also of one that failed. */
  async call(...args: Parameters<F>): Promise<Result<Json<Awaited<ReturnType<F>>>>> {
    const { name, version } = await this.#ready();
    return await this.#calls.run(name, named(version, args), { digest: version.digest, ...this.#options });
  }

  /** Has it run and does not wait: `haft.calls.wait(call_id)` does. */
  async start(...args: Parameters<F>): Promise<Called> {
    const { name, version } = await this.#ready();
    return await this.#calls.start(name, named(version, args), { digest: version.digest, ...this.#options });
  }

  /** Gives the schema of the arguments, or with a format the tool as it goes into a request to that model vendor. */
  async schema(format?: Format, options: RequestOptions & { strict?: boolean } = {}): Promise<unknown> {
    const { name, version } = await this.register();
    if (format === undefined) return version.parameters;
    const { tools, skipped } = await this.#tools.schemas(format, { name: [name], ...options });
    if (tools.length > 0) return tools[0];
    const why = skipped.flatMap((one) => one.reasons).join("; ");
    throw new NotFoundError("not_found", `${name} cannot be given to ${format}: ${why === "" ? "it is disabled" : why}`);
  }

  /** Registers it, and returns it with the options of its calls: those of this version. */
  async pinned(): Promise<{ tool: Tool; options: CallOptions }> {
    const tool = await this.#ready();
    return { tool, options: { digest: tool.version.digest, ...this.#options } };
  }

  /** Returns the same tool whose calls are made with these options. */
  with(options: CallOptions): RemoteTool<F> {
    return new RemoteTool<F>(this.#tools, this.#calls, this.#at, this.#settings, { ...this.#options, ...options }, this.#state);
  }

  async #put(options: RequestOptions): Promise<Added> {
    const source = await readSource(this.#at);
    mustName(source, this.#settings.function);
    // Nobody can see in which order calls run that reach nothing outside: they may run beside each other.
    const beside = this.#settings.settings === undefined && !source.text.includes("agent_state") ? { settings: { parallel: true } } : {};
    try {
      return await this.#tools.put({ ...this.#settings, ...beside, source_code: source.text, source_type: source.kind }, options);
    } catch (error) {
      if (!(error instanceof InvalidError) || source.kind !== "javascript") throw error;
      const { status, misfits, requestId } = error;
      const hint = "if it was compiled from TypeScript, compile it with a source map or give the address of the .ts file";
      throw new InvalidError("invalid", `${error.message}; ${hint}`, { status, misfits, requestId, cause: error });
    }
  }

  /** The tool, registered. Calls that come at once register it once. */
  async #ready(): Promise<Tool> {
    const { signal } = this.#options;
    const added = await this.register({ signal });
    if (added.waiting) {
      throw new ReviewError("conflict", `version ${added.waiting} of ${added.name} waits for review: somebody has to accept it first`);
    }
    return added;
  }
}

/** Makes a tool of a function and the file that it is in. */
export function toolOf<F extends AnyFunction>(tools: Tools, calls: Calls, at: string | URL, fn: F, settings: ToolSettings): RemoteTool<F> {
  const name = settings.function ?? fn.name;
  if (typeof fn !== "function") throw new InvalidError("invalid", "a tool is made of a function");
  if (name === "" || name === "default") {
    if (settings.function === undefined) throw new SourceError("the function has no name: give it one, or say in settings.function by which one it is exported");
  } else if (name.startsWith("bound ") || name.includes(" ")) {
    throw new SourceError("the function is bound or an accessor: give the function itself, which its file exports");
  }
  return new RemoteTool<F>(tools, calls, at, { ...settings, function: name });
}

/** Makes tools of all functions that a module exports. */
export function toolsOf<M extends object>(tools: Tools, calls: Calls, at: string | URL, module: M, settings: Omit<ToolSettings, "name" | "function" | "description">): ToolsOf<M> {
  const all: { [name: string]: RemoteTool<AnyFunction> } = {};
  for (const [name, value] of Object.entries(module)) {
    if (typeof value !== "function" || /^class\b/.test(Function.prototype.toString.call(value))) continue;
    // A default export that has a name of its own is known by it.
    const own = name === "default" && value.name !== "" ? value.name : name;
    all[name] = new RemoteTool(tools, calls, at, { ...settings, function: own });
  }
  if (Object.keys(all).length === 0) throw new SourceError("the module exports no functions");
  return Object.freeze(all) as ToolsOf<M>;
}

/** Gives arguments their names, as the version of the tool has them. */
function named(version: Version, args: readonly unknown[]): object {
  const pass = version.pass ?? [];
  if (pass.length === 0) return objectOf(args[0]);
  const all: { [name: string]: unknown } = {};
  for (const [at, { name, whole }] of pass.entries()) {
    if (whole === true) Object.assign(all, objectOf(args[at]));
    else if (args[at] !== undefined && !(version.injected ?? []).includes(name)) all[name] = args[at];
  }
  if (args.length > pass.length) throw new InvalidError("invalid", `the tool takes ${pass.length} arguments`);
  return all;
}

/** An argument that holds all others. */
function objectOf(value: unknown): object {
  if (value === undefined) return {};
  if (typeof value === "object" && value !== null) return value;
  throw new InvalidError("invalid", "the tool takes its arguments in one object");
}
