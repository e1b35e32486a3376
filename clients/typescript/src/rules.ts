import { type ListOptions, list } from "./page.js";
import type {
  AddSandboxBody,
  ExplainBody,
  LoginMCPServerBody,
  MCPAnswer,
  MCPChange,
  MCPLink,
  MCPServer,
  MCPServerBody,
  RefreshMCPServerBody,
  SandboxBody,
  SandboxConfig,
} from "./schemas.js";
import { type RequestOptions, type Transport, part } from "./transport.js";

/** Whose a policy is: that of the caller's organisation, or of the whole server. */
export type PolicyOf = "organisation" | "server";

/** A document that says who may do what. */
export interface Policy {
  /** YAML, as it was written. */
  text: string;
  /** Changes with every write. */
  revision: string;
}

/** What must be there for a policy to be written; else it is a ConflictError. */
export interface PutPolicyOptions extends RequestOptions {
  of?: PolicyOf;
  /** The revision that is replaced. */
  ifRevision?: string;
  /** There must be none. */
  new?: boolean;
}

/** What policy says about a call, and why. */
export interface Decision {
  effect: "allow" | "deny" | "ask";
  /** The rule that decided. */
  rule?: string;
  reason: string;
  /** Rules that could not be evaluated, which denies. */
  problems?: { rule: string; message: string }[];
  /** All rules, and what became of each. */
  considered?: { rule: string; effect: string; line?: number; matched: boolean; why: string }[];
  /** Who has to agree. */
  asks?: { rule: string; reason?: string; roles?: string[]; users?: string[]; self?: boolean; expires_ms?: number }[];
  rates?: { rule: string; calls?: number; within_ms?: number; per_second: number; burst: number; key: string }[];
  concurrency?: { rule: string; max: number; key: string }[];
  quotas?: { rule: string; calls: number; period: string; key: string }[];
  networks?: { rule: string; hosts: string[] }[];
  min_isolation?: string;
  /** JSON Pointers of arguments that must not be seen. */
  redact?: string[];
}

/** The documents that say who may do what. */
export class Policies {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Shows a policy, as it was written. */
  async show(of: PolicyOf = "organisation", options: RequestOptions = {}): Promise<Policy> {
    const answer = await this.#transport.answer<string>({ ...options, path: `/v1/policies${part("policy", of)}` });
    return { text: answer.body, revision: revision(answer.headers) };
  }

  /** Replaces a policy. One that is wrong changes nothing. */
  async put(text: string, options: PutPolicyOptions = {}): Promise<Policy> {
    const { of = "organisation", ifRevision, new: fresh, ...rest } = options;
    const headers: { [name: string]: string } = { "Content-Type": "application/yaml" };
    if (ifRevision !== undefined) headers["If-Match"] = `"${ifRevision}"`;
    if (fresh) headers["If-None-Match"] = "*";
    const again = ifRevision === undefined && !fresh;
    const path = `/v1/policies${part("policy", of)}`;
    const answer = await this.#transport.answer<void>({ ...rest, method: "PUT", path, body: new TextEncoder().encode(text), headers, again });
    return { text, revision: revision(answer.headers) };
  }

  /** Says what policy would decide about a call, and why. Nothing is called. */
  async explain(call: ExplainBody, options: RequestOptions = {}): Promise<Decision> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/policies/explain", body: call, again: true });
  }
}

/** The revision that an answer is of. */
function revision(headers: Headers): string {
  return (headers.get("ETag") ?? "").replaceAll('"', "");
}

/** How calls run where their tools do not say: one configuration for each type of sandbox. */
export class SandboxConfigs {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists configurations by type. */
  list(options: ListOptions = {}): AsyncGenerator<SandboxConfig, void, undefined> {
    return list(this.#transport, "/v1/sandbox_configs", options);
  }

  /** Shows the configuration of that type or id. */
  async show(ref: string, options: RequestOptions = {}): Promise<SandboxConfig> {
    return await this.#transport.read({ ...options, path: config(ref) });
  }

  /** Adds a configuration; one of that type must not exist. */
  async add(body: AddSandboxBody, options: RequestOptions = {}): Promise<SandboxConfig> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/sandbox_configs", body });
  }

  /** Replaces a configuration, or adds it for that type. */
  async put(ref: string, body: SandboxBody, options: RequestOptions = {}): Promise<SandboxConfig> {
    return await this.#transport.read({ ...options, method: "PUT", path: config(ref), body });
  }

  /** Removes a configuration. */
  async remove(ref: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: config(ref) });
  }
}

/** The path of a sandbox configuration. */
function config(ref: string): string {
  return `/v1/sandbox_configs${part("sandbox configuration", ref)}`;
}

/** Upstream MCP servers, whose tools are called like all others. */
export class MCPServers {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists servers by name. */
  list(options: ListOptions = {}): AsyncGenerator<MCPServer, void, undefined> {
    return list(this.#transport, "/v1/mcp_servers", options);
  }

  /** Shows the server of that name or id, and why some of its tools cannot be called. */
  async show(server: string, options: RequestOptions = {}): Promise<MCPServer> {
    return await this.#transport.read({ ...options, path: upstream(server) });
  }

  /**
   * Replaces a server, or adds it under that name, and lists its tools. Values of headers and env
   * are not shown again, and an empty one keeps what is there. A server that cannot be listed is
   * kept, and its state says why.
   */
  async put(server: string, body: MCPServerBody, options: RequestOptions = {}): Promise<MCPChange> {
    return await this.#transport.read({ ...options, method: "PUT", path: upstream(server), body, slow: true });
  }

  /** Lists the tools of a server again. What is new or changed waits for review, unless it is to be accepted. */
  async refresh(server: string, body: RefreshMCPServerBody = {}, options: RequestOptions = {}): Promise<MCPChange> {
    return await this.#transport.read({ ...options, method: "POST", path: `${upstream(server)}/refresh`, body, slow: true });
  }

  /** Removes a server with its tools and credentials. */
  async remove(server: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: upstream(server) });
  }

  /** Begins a login, and gives the link that a person has to open; it is empty if none is wanted. */
  async login(server: string, body: LoginMCPServerBody, options: RequestOptions = {}): Promise<string> {
    return (await this.#transport.read<MCPLink>({ ...options, method: "POST", path: `${upstream(server)}/login`, body, slow: true })).link;
  }

  /** Ends a login with what came to the redirect. */
  async finishLogin(server: string, answer: MCPAnswer, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "POST", path: `${upstream(server)}/login/finish`, body: answer, slow: true });
  }
}

/** The path of an MCP server. */
function upstream(server: string): string {
  return `/v1/mcp_servers${part("server", server)}`;
}
