// The official TypeScript client of MCP, as an agent uses it: over stdio, or HTTP if
// the first argument is an address. It prints what it saw as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const [modules, target, ...rest] = process.argv.slice(2);
const require = createRequire(modules + "/package.json");
const load = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { ElicitRequestSchema } = await load("types.js");

const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: "Bearer " + rest[0] } } })
  : new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: "inherit" });
const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const saw = { asked: 0, progress: [] };
client.setRequestHandler(ElicitRequestSchema, async () => {
  saw.asked++;
  return { action: "accept", content: { approve: true } };
});
await client.connect(transport);
saw.tools = (await client.listTools()).tools.map((t) => t.name);
saw.add = (await client.callTool({ name: "add", arguments: { a: 1, b: 2 } })).structuredContent;
saw.code = JSON.parse((await client.callTool({ name: "run_code_with_tools", arguments: { language: "python", code: "sum(add(i, 1) for i in range(3))" } })).content[0].text).value;
saw.failed = (await client.callTool({ name: "add", arguments: { a: "x", b: 2 } })).isError;
saw.wiped = (await client.callTool({ name: "wipe", arguments: {} })).content[0].text;
try {
  await client.callTool({ name: "nothing", arguments: {} });
} catch (e) {
  saw.missing = e.code;
}
const stop = new AbortController();
const stuck = client.callTool({ name: "stick", arguments: {} }, undefined, { signal: stop.signal, onprogress: () => {} });
setTimeout(() => stop.abort("enough"), 300);
saw.cancelled = await stuck.then(() => false, () => true);
await client.close();
console.log(JSON.stringify(saw));
