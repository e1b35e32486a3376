import { type ListOptions, list } from "./page.js";
import type { Added, Draft, Kind, Tool, ToolState, Version } from "./schemas.js";
import { type RequestOptions, type Transport, part } from "./transport.js";

export interface ToolFilter extends ListOptions {
  /** Only the tools of these names. */
  name?: readonly string[];
  category?: string;
  tag?: string;
  kind?: Kind;
  /** Words of name, description, tags and category; the best come first, on one page. */
  search?: string;
  /** Only those that are enabled, or only those that are not. */
  enabled?: boolean;
  /** List disabled tools too. */
  disabled?: boolean;
  /** The name or id of an agent whose tools are listed. */
  agent?: string;
  sort?: "name" | "-updated";
}

/** The forms of tools that model vendors take. */
export type Format = "openai" | "openai-responses" | "anthropic" | "gemini" | "mcp";

export interface SchemasOptions extends Pick<ToolFilter, "name" | "category" | "tag" | "kind" | "search" | "agent" | "sort">, RequestOptions {
  /** In strict mode, where the vendor has one. */
  strict?: boolean;
  /** List built-in tools, too. They are listed anyway if `name`, `kind` or an agent asks for them. */
  builtins?: boolean;
}

/** Tools in the form of a vendor. */
export interface Schemas {
  /** What goes into `tools` of a request to the vendor. */
  tools: unknown[];
  /** Those that the vendor would refuse, and why. */
  skipped: { name: string; reasons: string[] }[];
}

/** Knows which tools there are. */
export class Tools {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Adds a tool, or a version to the tool of that name. What is left out is read from the source. */
  async put(draft: Draft, options: RequestOptions = {}): Promise<Added> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/tools", body: draft });
  }

  /** Lists tools by name, or with `search` the best first. */
  list(filter: ToolFilter = {}): AsyncGenerator<Tool, void, undefined> {
    // A search has one page.
    const whole = filter.search === undefined ? {} : { limit: Math.min(filter.limit ?? 100, 1000), pageSize: 1000 };
    return list(this.#transport, "/v1/tools", { ...filter, ...whole });
  }

  /** Shows the tool of that name or id, with its current version. */
  async show(ref: string, options: RequestOptions = {}): Promise<Tool> {
    return await this.#transport.read({ ...options, path: `/v1/tools${part("tool", ref)}` });
  }

  /** Changes what is not part of a version; with `version` calls run that one from now on. */
  async set(ref: string, state: ToolState, options: RequestOptions = {}): Promise<Tool> {
    return await this.#transport.read({ ...options, method: "PATCH", path: `/v1/tools${part("tool", ref)}`, body: state });
  }

  /** Lets a tool be called again. */
  async enable(ref: string, options: RequestOptions = {}): Promise<Tool> {
    return await this.set(ref, { disabled: false }, options);
  }

  /** Has a tool refuse calls, and keeps it. */
  async disable(ref: string, options: RequestOptions = {}): Promise<Tool> {
    return await this.set(ref, { disabled: true }, options);
  }

  /** Accepts or refuses the version that waits for review. */
  async review(ref: string, answer: { accept: boolean; reason?: string }, options: RequestOptions = {}): Promise<Tool> {
    const { accept: approve, ...rest } = answer;
    return await this.set(ref, { review: { approve, ...rest } }, options);
  }

  /** Removes a tool with its versions. */
  async remove(ref: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `/v1/tools${part("tool", ref)}` });
  }

  /** Lists the versions of a tool, newest first. */
  async *versions(ref: string, options: ListOptions = {}): AsyncGenerator<Version, void, undefined> {
    yield* list<Version>(this.#transport, `/v1/tools${part("tool", ref)}/versions`, options);
  }

  /** Shows one version of a tool. */
  async version(ref: string, number: number, options: RequestOptions = {}): Promise<Version> {
    return await this.#transport.read({ ...options, path: `/v1/tools${part("tool", ref)}/versions${part("version", String(number))}` });
  }

  /** Gives all enabled tools, or those that fit, in the form that goes into a request to a model vendor. */
  async schemas(format: Format, options: SchemasOptions = {}): Promise<Schemas> {
    const { signal, timeoutMs, builtins, ...query } = options;
    const asked = builtins === true || query.name !== undefined || query.kind !== undefined || query.agent !== undefined || this.#transport.agent !== undefined;
    const all: Schemas = { tools: [], skipped: [] };
    for (let cursor: string | undefined; ; ) {
      const { body, headers } = await this.#transport.answer<Partial<Schemas> | undefined>({ signal, timeoutMs, path: "/v1/tools", query: { ...query, limit: 1000, format, cursor } });
      all.tools = merged(all.tools, body?.tools ?? []);
      all.skipped.push(...(body?.skipped ?? []));
      cursor = /[?&]cursor=([\w-]+)[^>]*>; *rel="next"/.exec(headers.get("Link") ?? "")?.[1];
      if (cursor === undefined) break;
    }
    if (asked) return all;
    const names = new Set<string>();
    for await (const tool of this.list({ kind: "builtin", signal })) names.add(tool.name);
    return leftOut(all, names);
  }
}

/** Leaves out the tools of these names. */
function leftOut({ tools, skipped }: Schemas, names: ReadonlySet<string>): Schemas {
  const left = (tools as { name?: string; function?: { name: string }; functionDeclarations?: { name: string }[] }[]).flatMap((tool) => {
    const all = tool.functionDeclarations?.filter(({ name }) => !names.has(name));
    if (all !== undefined) return all.length > 0 ? [{ ...tool, functionDeclarations: all }] : [];
    return names.has(tool.function?.name ?? tool.name ?? "") ? [] : [tool];
  });
  return { tools: left, skipped: skipped.filter(({ name }) => !names.has(name)) };
}

/** Puts pages together. Gemini has all functions in one tool. */
function merged(tools: unknown[], more: unknown[]): unknown[] {
  const [a, b] = [tools[0], more[0]] as { functionDeclarations?: unknown[] }[];
  if (!a?.functionDeclarations || !b?.functionDeclarations) return [...tools, ...more];
  return [{ ...a, functionDeclarations: [...a.functionDeclarations, ...b.functionDeclarations] }];
}
