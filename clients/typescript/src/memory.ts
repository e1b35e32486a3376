import { type ListOptions, list } from "./page.js";
import type { Block, BlockBody, ChangeBlockBody, Passage } from "./schemas.js";
import { type RequestOptions, type Transport, part } from "./transport.js";

/** Which blocks are listed. */
export interface BlockFilter extends ListOptions {
  /** The name or id of an agent that has them. */
  agent?: string;
  label?: string;
}

/** Texts that agents have before them in every request to their models. */
export class Blocks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists blocks by id. */
  list(filter: BlockFilter = {}): AsyncGenerator<Block, void, undefined> {
    return list(this.#transport, "/v1/blocks", filter);
  }

  /** Adds a block. Agents have it when it is attached to them. */
  async add(block: BlockBody, options: RequestOptions = {}): Promise<Block> {
    return await this.#transport.read({ ...options, method: "POST", path: "/v1/blocks", body: block });
  }

  /** Shows a block. */
  async show(id: string, options: RequestOptions = {}): Promise<Block> {
    return await this.#transport.read({ ...options, path: at(id) });
  }

  /** Changes some of a block. With `version` a {@link ConflictError} means that it has another one by now. */
  async set(id: string, change: ChangeBlockBody, options: RequestOptions = {}): Promise<Block> {
    return await this.#transport.read({ ...options, method: "PATCH", path: at(id), body: change });
  }

  /** Removes a block, from all agents too. */
  async remove(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: at(id) });
  }

  /** Lists the ids of the agents that have a block. */
  async agents(id: string, options: RequestOptions = {}): Promise<string[]> {
    return (await this.#transport.read<{ data: string[] }>({ ...options, path: `${at(id)}/agents` })).data;
  }

  /** Gives an agent a block. */
  async attach(agent: string, id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "PUT", path: `/v1/agents${part("agent", agent)}/blocks${part("block", id)}`, again: true });
  }

  /** Takes a block from an agent. */
  async detach(agent: string, id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `/v1/agents${part("agent", agent)}/blocks${part("block", id)}`, again: true });
  }
}

/** The path of a block. */
function at(id: string): string {
  return `/v1/blocks${part("block", id)}`;
}

/** Which passages are listed. */
export interface PassageFilter extends ListOptions {
  /** Words: the passages that fit best come first, 50 at most. */
  query?: string;
  /** Tags of which they have one, or all with `all_tags`. */
  tags?: readonly string[];
  all_tags?: boolean;
  since?: Date;
  till?: Date;
  /** The newest come first. */
  newest?: boolean;
}

/** The archives of agents: texts that they find by search. */
export class Passages {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists passages of an agent by time, or searches them. */
  list(agent: string, filter: PassageFilter = {}): AsyncGenerator<Passage, void, undefined> {
    return list(this.#transport, passages(agent), filter);
  }

  /** Adds a passage. */
  async add(agent: string, text: string, { tags, ...options }: RequestOptions & { tags?: readonly string[] } = {}): Promise<Passage> {
    return await this.#transport.read({ ...options, method: "POST", path: passages(agent), body: { text, tags } });
  }

  /** Removes a passage. */
  async remove(agent: string, id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: passages(agent) + part("passage", id) });
  }

  /** Lists the tags that the passages of an agent have. */
  async tags(agent: string, options: RequestOptions = {}): Promise<string[]> {
    return (await this.#transport.read<{ data: string[] }>({ ...options, path: `${passages(agent)}/tags` })).data;
  }
}

/** The path of the archive of an agent. */
function passages(agent: string): string {
  return `/v1/agents${part("agent", agent)}/passages`;
}
