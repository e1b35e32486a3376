import type { CallOptions, Calls } from "./calls.js";
import { HaftError, InvalidError, TimeoutError } from "./errors.js";
import { type Outcome, outcomeOf, outcomeOfError } from "./outcome.js";
import type { CallEvent, Result, Tool } from "./schemas.js";
import type { RemoteTool } from "./tool.js";
import type { Tools } from "./tools.js";

/** A tool by its name, or one that is made of a function. */
export type ToolLike = string | RemoteTool<any>;

/** Which tools the agent of a framework gets, and how its calls are made. */
export interface ToolsetOptions extends Omit<CallOptions, "digest" | "idempotency_key" | "signal"> {
  /** List the built-in tools of the server, too. One that is named needs no asking. */
  builtins?: boolean;
  tag?: string;
  category?: string;
  /** The session in which `run_code`, `run_command` and the like run. The model is not asked for it. */
  session?: string | { readonly id: string };
  /** How long to wait for a person who has to agree, in milliseconds. The model reads that the call waits, if nobody did. */
  approvalTimeoutMs?: number;
  /** Called with what happens to each call, such as `tool_progress` and `tool_output`, as it happens. */
  onEvent?: (event: CallEvent) => void;
  /** Called with each result: its files, its status, its call. */
  onResult?: (result: Result) => void;
}

/** What of the AI SDK is needed: `import * as ai from "ai"`. */
export interface AISDK {
  jsonSchema: (schema: any) => any;
}

/** A tool of the AI SDK. */
export interface AISDKTool {
  description: string;
  inputSchema: any;
  execute: (args: any, options: { abortSignal?: AbortSignal | undefined }) => Promise<any>;
}

/** What of LangChain is needed: `import * as langchain from "langchain"`. */
export interface LangChain {
  DynamicStructuredTool: new (fields: any) => any;
  ToolMessage: new (fields: any) => any;
}

/** The most tools of a toolset, and what all vendors of models take as a name. */
const maxTools = 1000;
const names = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Lets calls run beside each other where their tools allow it, as a batch of the server does: one that has to be
 * alone waits for those before it, and those after it wait for it.
 */
class Turnstile {
  #alone: Promise<unknown> = Promise.resolve();
  readonly #inside = new Set<Promise<unknown>>();

  run<T>(parallel: boolean, make: () => Promise<T>): Promise<T> {
    const before: Promise<unknown> = parallel ? this.#alone : Promise.all([this.#alone, ...this.#inside]);
    const done = before.then(make);
    const ended = done.then(() => {}, () => {});
    if (parallel) {
      this.#inside.add(ended);
      void ended.then(() => this.#inside.delete(ended));
    } else {
      this.#alone = ended;
      this.#inside.clear(); // they end before it
    }
    return done;
  }
}

/** One tool of a server as a model sees it. Calling it runs it on the server. */
export class ModelTool {
  /** What the model calls it. */
  readonly name: string;
  /** What the model reads. */
  readonly description: string;
  /** The JSON Schema of its arguments. */
  readonly parameters: { readonly [key: string]: unknown };
  /** It may run beside other calls. */
  readonly parallel: boolean;
  readonly #calls: Calls;
  readonly #options: ToolsetOptions;
  readonly #callOptions: CallOptions;
  readonly #fixed: { [name: string]: unknown };
  readonly #turnstile: Turnstile;

  constructor(calls: Calls, tool: Tool, options: ToolsetOptions, pinned: CallOptions, turnstile: Turnstile) {
    const why = unusable(tool);
    if (why !== undefined) throw new InvalidError("invalid", `${tool.name} cannot be given to a model: ${why}`);
    const { builtins: _b, tag: _t, category: _c, session, approvalTimeoutMs: _a, onEvent: _e, onResult: _r, ...rest } = options;
    const schema = tool.version.parameters as { properties?: { [name: string]: unknown }; required?: string[] };
    const fixes = session !== undefined && schema.properties !== undefined && "session" in schema.properties;
    this.#fixed = fixes ? { session: typeof session === "string" ? session : session.id } : {};
    this.#calls = calls;
    this.#options = options;
    this.#callOptions = { ...rest, ...pinned };
    this.#turnstile = turnstile;
    this.name = tool.name;
    this.description = tool.version.description;
    this.parallel = tool.version.settings?.parallel === true;
    this.parameters = fixes ? without(schema, "session") : { ...schema };
  }

  /**
   * Calls the tool with what a model gave, and says what the model gets back. Nothing that goes wrong with a call
   * is thrown: it is an outcome that has failed. When the signal is aborted, the call is cancelled, and that is thrown.
   */
  async call(args: object, options: { signal?: AbortSignal | undefined } = {}): Promise<Outcome> {
    let result: Result;
    try {
      result = await this.#turnstile.run(this.parallel, () => this.#make({ ...args, ...this.#fixed }, options.signal));
    } catch (error) {
      if (!(error instanceof HaftError) || options.signal?.aborted === true) throw error;
      return outcomeOfError(error);
    }
    this.#options.onResult?.(result);
    return outcomeOf(result);
  }

  async #make(args: object, signal: AbortSignal | undefined): Promise<Result> {
    const { onEvent, approvalTimeoutMs = 0 } = this.#options;
    const options = { ...this.#callOptions, signal };
    const { timeoutMs, deadline } = options;
    if (onEvent === undefined && approvalTimeoutMs === 0) return await this.#calls.run(this.name, args, options);
    // Nobody looks at the clock between two events: the server does.
    const until = timeoutMs && deadline === undefined ? { deadline: new Date(Date.now() + timeoutMs + approvalTimeoutMs) } : {};
    const { call_id } = await this.#calls.start(this.name, args, { ...options, ...until });
    try {
      return await this.#follow(call_id, signal, onEvent ?? (() => {}), approvalTimeoutMs);
    } catch (error) {
      // Nobody waits for it any more. If the server does not hear it, the limits of the tool end the call.
      await this.#calls.cancel(call_id).catch(() => {});
      throw error;
    }
  }

  /** Reports what happens to a call, and waits for its end, or for a person. */
  async #follow(id: string, signal: AbortSignal | undefined, onEvent: (event: CallEvent) => void, approvalTimeoutMs: number): Promise<Result> {
    let after = 0;
    for await (const event of this.#calls.events(id, { signal })) {
      after = event.cursor;
      onEvent(event);
      if (event.type === "approval_requested") break;
    }
    const result = await this.#calls.wait(id, { signal, timeoutMs: this.#callOptions.timeoutMs });
    if (result.status !== "pending_approval" || approvalTimeoutMs === 0) return result;
    try {
      const agreed = await this.#calls.wait(id, { signal, timeoutMs: approvalTimeoutMs, approval: true });
      for await (const event of this.#calls.events(id, { signal, after })) onEvent(event);
      return agreed;
    } catch (error) {
      if (error instanceof TimeoutError) return result;
      throw error;
    }
  }
}

/**
 * Tools of a server, for the agents of a framework. Make one for each conversation: calls of tools that may not run
 * beside others wait for each other within one toolset.
 */
export class Toolset implements Iterable<ModelTool> {
  readonly tools: readonly ModelTool[];

  constructor(tools: readonly ModelTool[]) {
    this.tools = tools;
  }

  [Symbol.iterator](): Iterator<ModelTool> {
    return this.tools[Symbol.iterator]();
  }

  /** Makes tools of the AI SDK. A call that fails throws, which the SDK gives to the model as a tool error. */
  toAISDK(ai: AISDK): { [name: string]: AISDKTool } {
    const one = (tool: ModelTool): AISDKTool => ({
      description: tool.description,
      inputSchema: ai.jsonSchema(tool.parameters),
      execute: async (args: object, { abortSignal }) => {
        const { text, failed, result } = await tool.call(args, { signal: abortSignal });
        if (failed) throw new ToolError("failed", text);
        return result?.status === "success" && result.value !== null ? result.value : text;
      },
    });
    return Object.fromEntries(this.tools.map((tool) => [tool.name, one(tool)]));
  }

  /**
   * Makes tools of LangChain. A call that fails is a ToolMessage with the status error; `artifact` is the result.
   * `T` is `DynamicStructuredTool`, whose parameters cannot be inferred.
   */
  toLangChain<T = any>(langchain: LangChain): T[] {
    return this.tools.map(
      (tool) =>
        new langchain.DynamicStructuredTool({
          name: tool.name,
          description: tool.description,
          schema: tool.parameters,
          verboseParsingErrors: true, // so that the model reads what does not fit
          func: async (args: object, _: unknown, config?: { signal?: AbortSignal; toolCall?: { id?: string } }) => {
            const { text, failed, result } = await tool.call(args, { signal: config?.signal });
            const status = failed ? "error" : "success";
            return new langchain.ToolMessage({ content: text, status, artifact: result, name: tool.name, tool_call_id: config?.toolCall?.id ?? "" });
          },
        }),
    );
  }
}

/** A tool failed; the message is what a model reads of it. */
export class ToolError extends HaftError {
  override readonly name = "ToolError";
}

/** Finds the tools of a toolset. */
export async function toolsetOf(tools: Tools, calls: Calls, agent: string | undefined, wanted: readonly ToolLike[], options: ToolsetOptions): Promise<Toolset> {
  const turnstile = new Turnstile();
  const made: ModelTool[] = [];
  for (const one of wanted) {
    const { tool, options: pinned } = typeof one === "string" ? { tool: await tools.show(one), options: {} } : await one.pinned();
    made.push(new ModelTool(calls, tool, options, pinned, turnstile));
  }
  if (wanted.length > 0) return new Toolset(made);
  const { tag, category, builtins } = options;
  const of = options.agent ?? agent;
  const filter = { ...(tag === undefined ? {} : { tag }), ...(category === undefined ? {} : { category }), ...(options.agent === undefined ? {} : { agent: options.agent }) };
  for await (const tool of tools.list({ ...filter, limit: maxTools + 1 })) {
    const asked = builtins === true || of !== undefined || tool.version.kind !== "builtin";
    if (asked && unusable(tool) === undefined) made.push(new ModelTool(calls, tool, options, {}, turnstile));
  }
  if (made.length > maxTools) throw new InvalidError("invalid", `there are more than ${maxTools} tools: choose some, by name, tag or category`);
  return new Toolset(made);
}

/** Says why a tool cannot be given to a model. */
function unusable(tool: Tool): string | undefined {
  if (tool.disabled === true) return "it is disabled";
  if (tool.unavailable) return tool.unavailable;
  if (!names.test(tool.name)) return "models take names of 1 to 64 of A-Z a-z 0-9 _ -";
  return typeof tool.version.parameters === "object" && tool.version.parameters !== null ? undefined : "it has no schema";
}

/** Gives a schema without an argument that is given already. */
function without(schema: { properties?: { [name: string]: unknown }; required?: string[] }, name: string): { [key: string]: unknown } {
  const { [name]: _, ...properties } = schema.properties ?? {};
  return { ...schema, properties, required: (schema.required ?? []).filter((one) => one !== name) };
}
