import { type ListOptions, list } from "./page.js";
import type {
  AddAgentBody,
  Agent,
  AgentBody,
  Approval,
  ApprovalState,
  ApproveBody,
  Binding,
  DeadLetter,
  DenyBody,
  IssuedKey,
  Key,
  KeyState,
  NewKey,
  NewWebhook,
  RedeliverBody,
  RedeliveredBody,
  RotateKeyBody,
  SecretInfo,
  SetAgentBody,
  Webhook,
  WebhookBody,
} from "./schemas.js";
import { type RequestOptions, type Transport, follow, part } from "./transport.js";

export interface ApprovalFilter extends ListOptions {
  state?: ApprovalState;
  tool?: string;
  user?: string;
  agent?: string;
}

/** The answers of people to calls that wait for them. */
export class Approvals {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists requests, oldest first. */
  list(filter: ApprovalFilter = {}): AsyncGenerator<Approval, void, undefined> {
    return list(this.#transport, "/v1/approvals", filter);
  }

  /** Shows a request. */
  async show(id: string, options: RequestOptions = {}): Promise<Approval> {
    return await this.#transport.read({ ...options, path: `/v1/approvals${part("approval", id)}` });
  }

  /** Agrees to a call, perhaps with other arguments. Never for the one who asked. */
  async approve(id: string, answer: ApproveBody = {}, options: RequestOptions = {}): Promise<Approval> {
    return await this.#transport.read({ ...options, method: "POST", path: `/v1/approvals${part("approval", id)}/approve`, body: answer });
  }

  /** Refuses a call. */
  async deny(id: string, answer: DenyBody = {}, options: RequestOptions = {}): Promise<Approval> {
    return await this.#transport.read({ ...options, method: "POST", path: `/v1/approvals${part("approval", id)}/deny`, body: answer });
  }
}

export interface AgentFilter extends ListOptions {
  /** The name of a tool that they have. */
  tool?: string;
  enabled?: boolean;
  /** How their names begin. */
  prefix?: string;
}

/** Programs that call tools: which, in which order, and with which environment. */
export class Agents {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists agents by name. */
  list(filter: AgentFilter = {}): AsyncGenerator<Agent, void, undefined> {
    return list(this.#transport, "/v1/agents", filter);
  }

  /** Shows the agent of that name or id. Values of its environment are never shown. */
  async show(agent: string, options: RequestOptions = {}): Promise<Agent> {
    return await this.#transport.read({ ...options, path: at(agent) });
  }

  /** Adds an agent; one of that name must not exist. */
  async add(agent: AddAgentBody, options: RequestOptions = {}): Promise<Agent> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/agents", body: agent });
  }

  /** Replaces an agent, or adds it under that name. */
  async put(agent: string, body: AgentBody, options: RequestOptions = {}): Promise<Agent> {
    return await this.#transport.read({ ...options, method: "PUT", path: at(agent), body });
  }

  /** Changes some of an agent. `env` is merged into what is there; null removes a variable. */
  async set(agent: string, body: SetAgentBody, options: RequestOptions = {}): Promise<Agent> {
    return await this.#transport.read({ ...options, method: "PATCH", path: at(agent), body });
  }

  /** Removes an agent. */
  async remove(agent: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: at(agent) });
  }

  /** Gives an agent a tool. */
  async attach(agent: string, tool: string, options: RequestOptions = {}): Promise<Agent> {
    return await this.#transport.read({ ...options, method: "PUT", path: `${at(agent)}/tools${part("tool", tool)}`, again: true });
  }

  /** Takes a tool from an agent. */
  async detach(agent: string, tool: string, options: RequestOptions = {}): Promise<Agent> {
    return await this.#transport.read({ ...options, method: "DELETE", path: `${at(agent)}/tools${part("tool", tool)}` });
  }
}

/** The path of an agent. */
function at(agent: string): string {
  return `/v1/agents${part("agent", agent)}`;
}

/** Whose a stored variable is. */
export interface SecretOptions extends RequestOptions {
  /** The name or id of an agent; without it those of the whole organisation are meant. */
  agent?: string;
}

/** Stored variables. They are written and never read back. */
export class Secrets {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists names. */
  list(options: SecretOptions & ListOptions = {}): AsyncGenerator<SecretInfo, void, undefined> {
    return list(this.#transport, "/v1/secrets", options);
  }

  /** Stores a variable. With `bound` it goes to those hosts and nowhere else. */
  async put(name: string, value: string, options: SecretOptions & { bound?: Binding } = {}): Promise<void> {
    const { agent, bound, ...rest } = options;
    const body = { value, bound };
    await this.#transport.read({ ...rest, method: "PUT", path: `/v1/secrets${part("secret", name)}`, query: { agent }, body, again: true });
  }

  /** Removes a stored variable. */
  async remove(name: string, options: SecretOptions = {}): Promise<void> {
    const { agent, ...rest } = options;
    await this.#transport.read({ ...rest, method: "DELETE", path: `/v1/secrets${part("secret", name)}`, query: { agent } });
  }
}

/** API keys. */
export class Keys {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists keys. Nothing that is listed can be used as one. */
  list(options: ListOptions = {}): AsyncGenerator<Key, void, undefined> {
    return list(this.#transport, "/v1/keys", options);
  }

  /** Shows a key. */
  async show(id: string, options: RequestOptions = {}): Promise<Key> {
    return await this.#transport.read({ ...options, path: `/v1/keys${part("key", id)}` });
  }

  /** Issues a key, whose `secret` is shown this once. */
  async issue(key: NewKey, options: RequestOptions = {}): Promise<IssuedKey> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/keys", body: key });
  }

  /** Names, disables or ends a key. */
  async set(id: string, state: KeyState, options: RequestOptions = {}): Promise<Key> {
    return await this.#transport.read({ ...options, method: "PATCH", path: `/v1/keys${part("key", id)}`, body: state });
  }

  /** Replaces the text of a key, which is shown this once. */
  async rotate(id: string, body: RotateKeyBody = {}, options: RequestOptions = {}): Promise<IssuedKey> {
    return await this.#transport.read({ ...options, method: "POST", path: `/v1/keys${part("key", id)}/rotate`, body });
  }

  /** Removes a key. */
  async remove(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `/v1/keys${part("key", id)}` });
  }
}

/** Addresses that events are sent to. */
export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists webhooks. */
  list(options: ListOptions = {}): AsyncGenerator<Webhook, void, undefined> {
    return list(this.#transport, "/v1/webhooks", options);
  }

  /** Shows a webhook. */
  async show(id: string, options: RequestOptions = {}): Promise<Webhook> {
    return await this.#transport.read({ ...options, path: `/v1/webhooks${part("webhook", id)}` });
  }

  /** Has events sent to an address. The `secret` that verifyWebhook wants is shown this once. */
  async add(webhook: WebhookBody, options: RequestOptions = {}): Promise<NewWebhook> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/webhooks", body: webhook });
  }

  /** Replaces what is said of a webhook. */
  async put(id: string, webhook: WebhookBody, options: RequestOptions = {}): Promise<Webhook> {
    return await this.#transport.read({ ...options, method: "PUT", path: `/v1/webhooks${part("webhook", id)}`, body: webhook });
  }

  /** Removes a webhook. */
  async remove(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `/v1/webhooks${part("webhook", id)}` });
  }

  /** Lists what could not be delivered. */
  async *deadLetters(id: string, options: ListOptions = {}): AsyncGenerator<DeadLetter, void, undefined> {
    yield* list<DeadLetter>(this.#transport, `/v1/webhooks${part("webhook", id)}/dead_letters`, options);
  }

  /** Sends one dead letter again, or all, and says how many were received. */
  async redeliver(id: string, body: RedeliverBody = {}, options: RequestOptions = {}): Promise<number> {
    const done = await this.#transport.read<RedeliveredBody>({ ...options, method: "POST", path: `/v1/webhooks${part("webhook", id)}/redeliver`, body });
    return done.delivered;
  }
}

/** The record of what was done, each entry linked to the one before. */
export class Audit {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Yields the whole record as the server writes it, in pieces: lines of JSON, for `haft audit verify`. */
  async *export(options: { signal?: AbortSignal } = {}): AsyncGenerator<Uint8Array, void, undefined> {
    options.signal?.throwIfAborted();
    const control = new AbortController();
    const end = follow(options.signal, control);
    try {
      yield* await this.#transport.stream({ path: "/v1/audit", signal: control.signal }, "application/jsonl");
    } finally {
      end();
      control.abort();
    }
  }

  /** Gives the newest entries. */
  async entries(options: RequestOptions & { limit?: number } = {}): Promise<{ [name: string]: unknown }[]> {
    const { limit, ...rest } = options;
    return (await this.#transport.read<{ data: { [name: string]: unknown }[] }>({ ...rest, path: "/v1/audit/entries", query: { limit } })).data;
  }

  /** Gives the public keys that entries are signed with, as PEM. */
  async keys(options: RequestOptions = {}): Promise<string> {
    return await this.#transport.read({ ...options, path: "/v1/audit/keys" });
  }
}
