import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as listen } from "node:net";
import type { TestContext } from "node:test";

import { Haft, type HaftOptions } from "../src/index.js";

/** A client of the real server that the tests run against. */
export function real(options: HaftOptions = {}): Haft {
  if (!process.env["HAFT_SERVER"] || !process.env["HAFT_KEY"]) throw new Error("set HAFT_SERVER and HAFT_KEY to a server of your own: the tests add and remove tools");
  return new Haft(options);
}

/** The key of another organisation of the same server, if there is one. */
export const otherKey = process.env["HAFT_OTHER_KEY"];

/** A name that no other test uses. */
export function unique(prefix: string): string {
  return `${prefix}_${Math.random().toString(36).slice(2, 10)}`;
}

/** Collects a list. */
export async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of list) items.push(item);
  return items;
}

/** A server that answers as a test says, and remembers what it was asked. */
export interface Fake {
  url: string;
  asked: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[];
  /** A client of it. */
  client: (options?: HaftOptions) => Haft;
}

/** Starts a server for one test. */
export async function fake(t: TestContext, answer: (request: IncomingMessage, response: ServerResponse, count: number) => void): Promise<Fake> {
  const asked: Fake["asked"] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      asked.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers, body });
      answer(request, response, asked.length);
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, asked, client: (options = {}) => new Haft({ server: url, key: "secret-key", maxWaitMs: 20, ...options }) };
}

/** Answers with JSON. */
export function reply(response: ServerResponse, status: number, body: unknown, headers: { [name: string]: string } = {}): void {
  response.writeHead(status, { "Content-Type": status < 400 ? "application/json" : "application/problem+json", ...headers });
  response.end(JSON.stringify(body));
}

/** Starts a proxy to the real server that cuts every connection after so many bytes of answer. */
export async function cutting(t: TestContext, most: number): Promise<{ url: string; cuts: () => number }> {
  const to = new URL(process.env["HAFT_SERVER"] ?? "");
  let cuts = 0;
  const proxy = listen((inside) => {
    const outside = connect(Number(to.port), to.hostname);
    const end = (): void => {
      inside.destroy();
      outside.destroy();
    };
    for (const side of [inside, outside]) side.on("error", end).on("close", end);
    let given = 0;
    inside.pipe(outside);
    outside.on("data", (chunk: Buffer) => {
      inside.write(chunk.subarray(0, most - given));
      given += chunk.length;
      if (given < most) return;
      cuts++;
      inside.destroySoon();
      outside.destroy();
    });
  });
  await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  t.after(() => proxy.close());
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, cuts: () => cuts };
}
