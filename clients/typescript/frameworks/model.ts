import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** What a request to a model has. */
export interface Asked {
  messages: { role: string; content: string | { text?: string }[] | null }[];
  tools?: { function: { name: string; parameters: unknown } }[];
}

/** A language model that follows a script, in the form of Chat Completions. */
export interface Model {
  url: string;
  requests: Asked[];
  /** What the last request says of the calls, in their order. */
  results: () => string[];
}

/** How many calls were made. */
let made = 0;

/** What a model says that calls tools, all in one answer. */
export function calls(...asked: [name: string, args: object][]): object {
  const tool_calls = asked.map(([name, args]) => ({ id: `call_${++made}`, type: "function", function: { name, arguments: JSON.stringify(args) } }));
  return { role: "assistant", content: null, tool_calls };
}

/** Adds 1 and 2 with a tool, and says what it gave, whoever asks. */
export function calculator({ messages }: Asked): object {
  return messages.some(({ role }) => role === "tool") ? { role: "assistant", content: "It is 3." } : calls(["add", { a: 1, b: 2 }]);
}

/** Starts a model for one test, which follows a script and then says that it is done, or answers as a function says. */
export async function serve(t: TestContext, ...script: object[] | [(asked: Asked) => object]): Promise<Model> {
  const requests: Asked[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      const asked = JSON.parse(body) as Asked;
      const [answer] = script;
      const message = typeof answer === "function" ? (answer as (asked: Asked) => object)(asked) : (script[requests.length] ?? { role: "assistant", content: "Done." });
      requests.push(asked);
      const finish_reason = "tool_calls" in message ? "tool_calls" : "stop";
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ id: `answer_${requests.length}`, object: "chat.completion", created: 1, model: "scripted", choices: [{ index: 0, message, finish_reason }], usage }));
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const text = (content: Asked["messages"][number]["content"]): string => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    results: () => (requests.at(-1)?.messages ?? []).filter(({ role }) => role === "tool").map(({ content }) => text(content)),
  };
}
