import { readFileSync } from "node:fs";

import { Calls, Chains } from "./calls.js";
import { Messages, Turns } from "./conversations.js";
import { InvalidError } from "./errors.js";
import { Events } from "./events.js";
import { Files, attach } from "./files.js";
import { Blocks, Passages } from "./memory.js";
import { Agents, Approvals, Audit, Keys, Secrets, Webhooks } from "./resources.js";
import { MCPServers, Policies, SandboxConfigs } from "./rules.js";
import type { Model, Result, Self, UsageSum, UsageSumsBody } from "./schemas.js";
import { Sessions } from "./sessions.js";
import { canSign } from "./sign.js";
import { type RemoteTool, type ToolSettings, type ToolsOf, toolOf, toolsOf } from "./tool.js";
import { Tools } from "./tools.js";
import { type AISDK, type AISDKTool, type LangChain, type ToolLike, type Toolset, type ToolsetOptions, toolsetOf } from "./toolset.js";
import { type Answer, type Query, type RequestOptions, Transport, loopback } from "./transport.js";
import { Workspaces } from "./workspaces.js";

/** Where a server is and who asks. What is left out is read from the environment. */
export interface HaftOptions {
  /** The address of the server, such as https://haft.example.com; else $HAFT_SERVER, or where `haft serve` is on this machine. */
  server?: string | URL | undefined;
  /** An API key, or a token that the server believes; else $HAFT_KEY, or what is in the file $HAFT_KEY_FILE. */
  key?: string | undefined;
  /** The file that the key is in. */
  keyFile?: string | URL | undefined;
  /** The agent on whose behalf requests are, by name or id. The key must be for it. */
  agent?: string | undefined;
  /** Signs requests with the API key instead of sending it. That is also done where others could read the key on its way. */
  sign?: boolean | undefined;
  /** How long to wait for one answer, in milliseconds; a minute if it is left out, and 0 means for ever. */
  timeoutMs?: number | undefined;
  /** How long to wait for the result of a call, in milliseconds; five minutes if it is left out, and 0 means for ever. */
  callTimeoutMs?: number | undefined;
  /** How often a request is tried that does no harm twice; three times if it is left out. */
  tries?: number | undefined;
  /** The longest wait between two tries, in milliseconds; three seconds if it is left out. */
  maxWaitMs?: number | undefined;
  /** How many bytes an answer may have; 64 MiB if it is left out. */
  maxAnswer?: number | undefined;
  /** The name of the program, for the log of the server. */
  name?: string | undefined;
  /** What sends requests, if not the fetch of Node.js. */
  fetch?: typeof fetch | undefined;
}

export interface ToolCallsOptions extends RequestOptions {
  /** The form of the answer, where it does not show it itself. */
  format?: "openai" | "openai-responses" | "anthropic" | "gemini";
  /** The agent that calls, by name or id. */
  agent?: string;
  /** Groups the calls of one loop of an agent, which its tool rules look at. */
  turn?: string;
}

/** What became of the tool calls in a model's answer, the same for every vendor. */
export interface ToolAnswers {
  format: "openai" | "openai-responses" | "anthropic" | "gemini";
  /** Those to append to the conversation, in the form of the vendor. */
  messages: unknown[];
  /** In the order of the answer. `id` is the vendor's, and empty where it gave none. */
  calls: { id: string; name: string; result: Result }[];
}

export interface UsageQuery extends RequestOptions {
  /** From the hour of this time on; 30 days ago if it is left out. */
  from?: Date;
  until?: Date;
  tool?: string;
  user?: string;
  agent?: string;
  /** What to tell apart. */
  by?: readonly ("tool" | "user" | "agent" | "hour" | "day" | "month")[];
  limit?: number;
}

/**
 * A client of a Haft server. Making one sends nothing.
 *
 * What goes over the wire is spelled as the API spells it (`call_id`), and what is the
 * client's own as TypeScript does (`timeoutMs`).
 */
export class Haft {
  readonly tools: Tools;
  readonly calls: Calls;
  readonly chains: Chains;
  readonly files: Files;
  readonly sessions: Sessions;
  readonly workspaces: Workspaces;
  readonly events: Events;
  readonly approvals: Approvals;
  readonly agents: Agents;
  readonly blocks: Blocks;
  readonly passages: Passages;
  readonly messages: Messages;
  readonly turns: Turns;
  readonly secrets: Secrets;
  readonly keys: Keys;
  readonly webhooks: Webhooks;
  readonly policies: Policies;
  readonly sandboxConfigs: SandboxConfigs;
  readonly mcpServers: MCPServers;
  readonly audit: Audit;
  // Private to the language: no printer and no serialiser finds the key.
  readonly #options: HaftOptions;
  readonly #transport: Transport;

  constructor(options: HaftOptions = {}) {
    this.#options = complete(options);
    const transport = open(this.#options);
    this.#transport = transport;
    this.tools = new Tools(transport);
    this.calls = new Calls(transport);
    this.chains = new Chains(transport);
    this.files = new Files(transport);
    this.sessions = new Sessions(transport, this.calls);
    this.workspaces = new Workspaces(transport);
    this.events = new Events(transport);
    this.approvals = new Approvals(transport);
    this.agents = new Agents(transport);
    this.blocks = new Blocks(transport);
    this.passages = new Passages(transport);
    this.messages = new Messages(transport);
    this.turns = new Turns(transport);
    this.secrets = new Secrets(transport);
    this.keys = new Keys(transport);
    this.webhooks = new Webhooks(transport);
    this.policies = new Policies(transport);
    this.sandboxConfigs = new SandboxConfigs(transport);
    this.mcpServers = new MCPServers(transport);
    this.audit = new Audit(transport);
  }

  /** Returns a client with the same key, on behalf of an agent that the key is for. */
  as(agent: string): Haft {
    return new Haft({ ...this.#options, agent });
  }

  /** Lists the language models that agents can be given. */
  async models(options: RequestOptions = {}): Promise<Model[]> {
    return (await this.#transport.read<{ data: Model[] }>({ ...options, path: "/v1/models" })).data;
  }

  /**
   * Makes a tool of a function and the file that exports it: import.meta.url of that file, or
   * `new URL("./tools.ts", import.meta.url)`. Nothing is read or sent until it is registered or
   * called.
   */
  tool<A extends unknown[], R>(at: string | URL, fn: (...args: A) => R, settings: ToolSettings = {}): RemoteTool<(...args: A) => R> {
    return toolOf(this.tools, this.calls, at, fn, settings);
  }

  /** Makes tools of all functions that a module exports, by their names. */
  toolsFrom<M extends object>(at: string | URL, module: M, settings: Omit<ToolSettings, "name" | "function" | "description"> = {}): ToolsOf<M> {
    return toolsOf(this.tools, this.calls, at, module, settings);
  }

  /**
   * Runs the tool calls of what a model returned, unchanged, and returns the messages to
   * append, in the form of the same vendor: a list for OpenAI, one message for Anthropic and
   * Gemini.
   */
  async toolCalls<T = unknown>(answer: unknown, options: ToolCallsOptions = {}): Promise<T> {
    const { format, agent, turn, ...rest } = options;
    return await this.#transport.read({ ...rest, slow: true, method: "POST", path: "/v1/tool_calls", query: { format, agent, turn }, body: answer });
  }

  /**
   * Runs the tool calls of what a model returned, beside each other where their tools allow it: `toolCalls`, with one
   * answer for every vendor.
   */
  async runTools(answer: unknown, options: ToolCallsOptions = {}): Promise<ToolAnswers> {
    const { format, agent, turn, ...rest } = options;
    const query = { format, agent, turn, whole: true };
    const answers = await this.#transport.read<ToolAnswers>({ ...rest, slow: true, method: "POST", path: "/v1/tool_calls", query, body: answer });
    for (const { result } of answers.calls) attach(this.#transport, result);
    return answers;
  }

  /**
   * Gives tools for a model, each with its description, its schema and a call that runs it on the server: by name, or
   * made of functions. Without any, they are all tools of the server that can be called, or those of `agent`; built-in
   * ones only if `builtins` asks for them.
   */
  async toolset(tools: readonly ToolLike[] = [], options: ToolsetOptions = {}): Promise<Toolset> {
    return await toolsetOf(this.tools, this.calls, this.#options.agent, tools, options);
  }

  /** Gives tools for the AI SDK of Vercel, which run on the server; `ai` is that module. */
  async toAISDK(ai: AISDK, tools: readonly ToolLike[] = [], options: ToolsetOptions = {}): Promise<{ [name: string]: AISDKTool }> {
    return (await this.toolset(tools, options)).toAISDK(ai);
  }

  /** Gives tools for LangChain.js, which run on the server; `langchain` is that module. */
  async toLangChain<T = any>(langchain: LangChain, tools: readonly ToolLike[] = [], options: ToolsetOptions = {}): Promise<T[]> {
    return (await this.toolset(tools, options)).toLangChain(langchain);
  }

  /** Sums up what calls used. */
  async usage(query: UsageQuery = {}): Promise<UsageSum[]> {
    const { signal, timeoutMs, ...rest } = query;
    return (await this.#transport.read<UsageSumsBody>({ signal, timeoutMs, path: "/v1/usage", query: rest })).data;
  }

  /** Says whom the server takes the client for. */
  async whoami(options: RequestOptions = {}): Promise<Self> {
    return await this.#transport.read({ ...options, path: "/v1/whoami" });
  }

  /**
   * Sends any request of the API, for what has no method here, and returns status, headers
   * and body.
   */
  async request<T = unknown>(method: NonNullable<Query["method"]>, path: string, options: Omit<Query, "method" | "path"> = {}): Promise<Answer<T>> {
    if (!/^\/(?!\/)/.test(path) || /[?#]/.test(path)) throw new InvalidError("invalid", "a path begins with one /, and what is asked goes into query");
    return await this.#transport.answer({ ...options, method, path });
  }
}

/** Where `haft serve` listens if it is not told otherwise. */
const local = "http://127.0.0.1:7717";

/** Adds what the environment says. */
function complete(options: HaftOptions): HaftOptions {
  const { keyFile: _, ...rest } = options;
  return { ...rest, server: options.server ?? (process.env["HAFT_SERVER"] || local), key: keyOf(options) };
}

/** Makes the transport of a client. */
function open(options: HaftOptions): Transport {
  const base = address(String(options.server));
  const key = options.key === "" ? undefined : options.key;
  // Whoever is on the way can read what is sent in the clear.
  const sign = options.sign === true || (key !== undefined && base.protocol === "http:" && !loopback(base));
  if (sign && (key === undefined || !canSign(key))) {
    throw new InvalidError("invalid", "only an API key can sign requests; anything else goes over https");
  }
  return new Transport({
    base,
    agent: options.agent,
    key,
    sign,
    timeoutMs: options.timeoutMs ?? 60_000,
    callTimeoutMs: options.callTimeoutMs ?? 300_000,
    tries: Math.min(Math.max(options.tries ?? 3, 1), 10),
    maxWaitMs: options.maxWaitMs ?? 3000,
    maxAnswer: options.maxAnswer ?? 64 << 20,
    name: options.name ?? "haft-client-typescript",
    fetch: options.fetch ?? fetch,
  });
}

/** Reads the address of a server. A fault is told without it: it may hold a password. */
function address(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new InvalidError("invalid", "the address of a server is such as https://haft.example.com, without a user, a query or a fragment");
  }
  return url;
}

/** Finds the key. What is given wins over the environment. */
function keyOf(options: HaftOptions): string {
  const text = (options.key ?? fileText(options.keyFile) ?? (process.env["HAFT_KEY"] || fileText(process.env["HAFT_KEY_FILE"] || undefined)) ?? "").trim();
  if (!/^[\x21-\x7e]*$/.test(text)) throw new InvalidError("invalid", "the key has characters that no key has");
  return text;
}

function fileText(file: string | URL | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new InvalidError("invalid", "the file with the key cannot be read", { cause });
  }
}
