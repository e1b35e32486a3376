import type { Query, RequestOptions, Transport } from "./transport.js";
import { UnavailableError } from "./errors.js";

/** How many things one page has at most. */
const most = 1000;

/** How much of a list to give. */
export interface ListOptions extends RequestOptions {
  /** How many to give at most; left out it is all. */
  limit?: number;
  /** How many to ask for at once, up to 1000; 100 if it is left out. */
  pageSize?: number;
}

interface Page<T> {
  data: T[];
  next_cursor?: string;
}

/** Yields what the server lists. Pages are fetched as they are needed. */
export async function* list<T>(transport: Transport, query: Query, options: ListOptions): AsyncGenerator<T, void, undefined> {
  let left = options.limit ?? Infinity;
  let cursor: string | undefined;
  while (left > 0) {
    const limit = Math.min(left, options.pageSize ?? 100, most);
    const { signal, timeoutMs } = options;
    const page = await transport.read<Page<T> | undefined>({ ...query, signal, timeoutMs, query: { ...query.query, limit, cursor } });
    if (!Array.isArray(page?.data)) throw new UnavailableError("unavailable", "the answer is not a list of a Haft server of this version");
    for (const item of page.data.slice(0, limit)) yield item;
    left -= page.data.length;
    cursor = page.next_cursor;
    if (cursor === undefined || cursor === "" || page.data.length === 0) return;
  }
}
