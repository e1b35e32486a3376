import { type Message as StreamMessage, type Source, type WatchOptions, read, resume } from "./events.js";
import { type ListOptions, list } from "./page.js";
import type { Message, MessageBody, MessageRole, Replied, Turn, TurnEvent } from "./schemas.js";
import { type Query, type RequestOptions, type Transport, part } from "./transport.js";

/** How a message is sent: for another model than that of the agent, within a budget, once however often it is sent. */
export type SendOptions = RequestOptions & Omit<MessageBody, "text">;

/** How a turn is watched. */
export interface TurnWatchOptions extends Omit<WatchOptions, "after"> {
  /** The number of the last message that was seen. 0 begins with the first of the turn; left out it begins with what happens next. */
  after?: number | undefined;
}

/** Which messages are listed. */
export interface MessageFilter extends ListOptions {
  /** Words: the messages that fit best come first, 50 at most. */
  query?: string;
  roles?: readonly MessageRole[];
  /** The id of a turn. */
  turn?: string;
  since?: Date;
  till?: Date;
  /** Numbers of messages. */
  after?: number;
  before?: number;
  /** The newest come first. */
  newest?: boolean;
}

/** What is said to agents, and what they answer. */
export class Messages {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Sends a message, and waits until the agent has answered or waits for a person. The key must
   * be allowed to act as the agent. The turn goes on if nobody waits for it any more.
   */
  async send(agent: string, text: string, { signal, timeoutMs, ...message }: SendOptions = {}): Promise<Replied> {
    return await this.#transport.read({ ...sending(agent, { ...message, text }), signal, timeoutMs, slow: true });
  }

  /**
   * Sends a message, and yields what happens until the agent has answered or waits for a person.
   * A stream that is cut goes on after the last message; pieces of text that were missed do not
   * come again.
   */
  stream(agent: string, text: string, { signal, timeoutMs, patienceMs, ...message }: SendOptions & Pick<WatchOptions, "patienceMs"> = {}): AsyncGenerator<TurnEvent, void, undefined> {
    const query = { ...sending(agent, { ...message, text }), timeoutMs };
    return resume(this.#transport, turnSource(query, true), { signal, patienceMs });
  }

  /** Lists messages of the conversation of an agent in their order, or searches them. */
  list(agent: string, filter: MessageFilter = {}): AsyncGenerator<Message, void, undefined> {
    return list(this.#transport, `/v1/agents${part("agent", agent)}/messages`, filter);
  }
}

/** The request that sends a message. */
function sending(agent: string, message: MessageBody): Query {
  return { method: "POST", path: `/v1/agents${part("agent", agent)}/messages`, body: message, again: message.idempotency_key !== undefined };
}

/** Which turns are listed. */
export interface TurnFilter extends ListOptions {
  /** The id of a turn: only those behind it are listed. */
  after?: string;
}

/** What agents do with messages. */
export class Turns {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the turns of an agent, oldest first. */
  list(agent: string, filter: TurnFilter = {}): AsyncGenerator<Turn, void, undefined> {
    return list(this.#transport, `/v1/agents${part("agent", agent)}/turns`, filter);
  }

  /** Shows a turn. */
  async show(id: string, options: RequestOptions = {}): Promise<Turn> {
    return await this.#transport.read({ ...options, path: at(id) });
  }

  /** Cancels a turn. One that has ended stays as it is. */
  async cancel(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "POST", path: `${at(id)}/cancel`, again: true });
  }

  /** Yields what happens in a turn until it ends. */
  watch(id: string, { after, ...options }: TurnWatchOptions = {}): AsyncGenerator<TurnEvent, void, undefined> {
    return resume(this.#transport, turnSource({ path: `${at(id)}/events`, query: { after } }, false), options);
  }
}

/** The path of a turn. */
function at(id: string): string {
  return `/v1/turns${part("turn", id)}`;
}

/** What happens in a turn. With brief it ends also when the turn waits for a person. */
function turnSource(first: Query, brief: boolean): Source<TurnEvent> {
  let next: Query | undefined = first;
  let seen = false; // anything at all
  let last = 0; // the number of the last message
  return {
    over: false,
    query() {
      const query = seen && last === 0 ? undefined : next;
      if (query?.method === "POST" && query.again !== true) next = undefined;
      return query;
    },
    take({ data }: StreamMessage) {
      if (data === "") return undefined;
      const event = read<TurnEvent>(data, ({ message }) => message === undefined || (typeof message.seq === "number" && typeof message.turn_id === "string"));
      seen = true;
      if (event.message !== undefined) {
        if (event.message.seq <= last) return undefined; // we have it
        last = event.message.seq;
        next = { path: `${at(event.message.turn_id)}/events`, query: { after: last } };
      }
      const status = event.turn?.status;
      this.over = status !== undefined && status !== "running" && (brief || status !== "waiting");
      return event;
    },
  };
}
