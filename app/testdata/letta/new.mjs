// Letta's client from 1.0 on.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { Letta, AuthenticationError, NotFoundError } = createRequire(process.env.CLIENTS + "/")("letta-new");
const client = new Letta({ baseURL: process.env.BASE, apiKey: process.env.KEY });

const source = (name) => `def ${name}(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a (int): the first
        b (int): the second
    """
    print("adding")
    return a + b
`;

// create, upsert, retrieve, update
const made = await client.tools.create({ source_code: source("js_add"), tags: ["math"], return_char_limit: 100 });
assert.match(made.id, /^tool-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
assert.equal(made.name, "js_add");
assert.deepEqual(made.json_schema.parameters.required, ["a", "b"]);
assert.equal((await client.tools.upsert({ source_code: source("js_add") + "# more\n" })).id, made.id);
assert.equal((await client.tools.retrieve(made.id)).description, "Adds two numbers.");
assert.equal((await client.tools.update(made.id, { description: "Adds." })).description, "Adds.");

// lists end
for (const name of ["js_b", "js_c", "js_d"]) await client.tools.upsert({ source_code: source(name) });
const names = [];
for await (const t of client.tools.list({ limit: 2, tool_types: ["custom"], search: "js_" })) {
  names.push(t.name);
  assert.ok(names.length < 100, "the list does not end");
}
assert.deepEqual(names, ["js_d", "js_c", "js_b", "js_add"]);
assert.ok((await client.tools.search({ query: "js_add" })).some((f) => f.tool.id === made.id));

// agents and their tools
const agent = await client.agents.create({ name: "js agent", model: "openai/gpt-4.1", secrets: { JS_TOKEN: "js-hush-hush" } });
assert.equal(await client.agents.tools.attach(made.id, { agent_id: agent.id }), null);
const attached = [];
for await (const t of client.agents.tools.list(agent.id)) attached.push(t.name);
assert.deepEqual(attached, ["js_add"]);
const sum = await client.agents.tools.run("js_add", { agent_id: agent.id, args: { a: 20, b: 22 } });
assert.deepEqual([sum.status, sum.func_return, sum.stdout], ["success", 42, ["adding\n"]]);

// a failing tool is an answer, and is run once
const failing = await client.tools.upsert({
  source_code: 'import os\ndef js_fail(x: int) -> str:\n    """Fails."""\n    print("token is " + os.environ["JS_TOKEN"])\n    raise ValueError("sorry")\n',
});
await client.agents.tools.attach(failing.id, { agent_id: agent.id });
const failed = await client.agents.tools.run("js_fail", { agent_id: agent.id, args: { x: 1 } });
assert.equal(failed.status, "error");
assert.equal(failed.func_return, null);
assert.match(failed.stderr.join("\n"), /ValueError: sorry/);
assert.match(failed.stdout.join("\n"), /^token is /);
assert.ok(!failed.stdout.join("\n").includes("js-hush-hush"), "a secret is printed");

// approval
await client.agents.tools.updateApproval("js_add", { agent_id: agent.id, body_requires_approval: true });
assert.match((await client.agents.tools.run("js_add", { agent_id: agent.id, args: { a: 1, b: 2 } })).stderr.join(), /a person has to agree/);
await client.agents.tools.updateApproval("js_add", { agent_id: agent.id, body_requires_approval: false });
assert.equal((await client.agents.tools.run("js_add", { agent_id: agent.id, args: { a: 1, b: 2 } })).func_return, 3);

await client.agents.tools.detach(made.id, { agent_id: agent.id });
await assert.rejects(client.agents.tools.run("js_add", { agent_id: agent.id, args: { a: 1, b: 2 } }), NotFoundError);
await assert.rejects(new Letta({ baseURL: process.env.BASE, apiKey: "wrong" }).tools.retrieve(made.id), AuthenticationError);

// MCP servers
const mcp = await client.mcpServers.create({
  server_name: "jsgreeter",
  config: { mcp_server_type: "stdio", command: "python3", args: ["-c", readFileSync(process.env.MCP, "utf8")] },
});
assert.equal(mcp.mcp_server_type, "stdio");
assert.ok((await client.mcpServers.list()).some((s) => s.id === mcp.id));
assert.equal((await client.mcpServers.retrieve(mcp.id)).server_name, "jsgreeter");
const [greet] = await client.mcpServers.tools.list(mcp.id);
assert.equal(greet.tool_type, "external_mcp");
assert.equal((await client.mcpServers.tools.retrieve(greet.id, { mcp_server_id: mcp.id })).name, greet.name);
const hello = await client.mcpServers.tools.run(greet.id, { mcp_server_id: mcp.id, args: { name: "ann" } });
assert.deepEqual([hello.status, hello.func_return], ["success", "hello ann"]);
assert.equal((await client.mcpServers.tools.run(greet.id, { mcp_server_id: mcp.id, args: { name: "nobody" } })).status, "error");
assert.deepEqual((await client.mcpServers.refresh(mcp.id)).added, []);
await client.mcpServers.delete(mcp.id);
await assert.rejects(client.mcpServers.retrieve(mcp.id), NotFoundError);

// one at an address, with a token that is not shown again
const config = { mcp_server_type: "streamable_http", server_url: process.env.REMOTE, auth_token: "token-of-the-remote" };
const remote = await client.mcpServers.create({ server_name: "js remote", config });
assert.deepEqual([remote.server_name, remote.server_url, remote.auth_header], ["js_remote", process.env.REMOTE, "Authorization"]);
assert.ok(!JSON.stringify(await client.mcpServers.list()).includes("token-of-the-remote"), "a token is shown");
await client.mcpServers.update(remote.id, { config: { mcp_server_type: "streamable_http", server_url: process.env.REMOTE } });
const [ping] = await client.mcpServers.tools.list(remote.id);
assert.equal((await client.mcpServers.tools.run(ping.id, { mcp_server_id: remote.id })).func_return, "pong");
await client.mcpServers.delete(remote.id);

await client.agents.delete(agent.id);
await client.tools.delete(made.id);
await assert.rejects(client.tools.retrieve(made.id), NotFoundError);
console.log("ok");
