import type { RequestOptions, Transport } from "./transport.js";
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

/** Yields what the server lists at a path. Pages are fetched as they are needed. */
export async function* list<T>(transport: Transport, path: string, filter: ListOptions): AsyncGenerator<T, void, undefined> {
  const { limit, pageSize, signal, timeoutMs, ...query } = filter;
  let left = limit ?? Infinity;
  let cursor: string | undefined;
  while (left > 0) {
    const size = Math.min(left, pageSize ?? 100, most);
    const page = await transport.read<Page<T> | undefined>({ path, signal, timeoutMs, query: { ...query, limit: size, cursor } });
    if (!Array.isArray(page?.data)) throw new UnavailableError("unavailable", "the answer is not a list of a Haft server of this version");
    for (const item of page.data.slice(0, size)) yield item;
    left -= page.data.length;
    cursor = page.next_cursor;
    if (cursor === undefined || cursor === "" || page.data.length === 0) return;
  }
}
