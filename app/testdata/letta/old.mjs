// Letta's client before 1.0.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { LettaClient } = createRequire(process.env.CLIENTS + "/")("letta-old");
const client = new LettaClient({ baseUrl: process.env.BASE, token: process.env.KEY });

const source = (name) => `def ${name}(a: int) -> dict:
    """Doubles.

    Args:
        a (int): a number
    """
    import os
    return {"double": 2 * a, "greeting": os.environ.get("GREETING")}
`;

const made = await client.tools.create({ sourceCode: source("old_double"), tags: ["x"], pipRequirements: [] });
assert.equal((await client.tools.upsert({ sourceCode: source("old_double") })).id, made.id);
assert.equal((await client.tools.retrieve(made.id)).name, "old_double");
assert.equal((await client.tools.modify(made.id, { returnCharLimit: 77 })).returnCharLimit, 77);
const before = await client.tools.count({ excludeLettaTools: true });
await client.tools.upsert({ sourceCode: source("old_other") });
assert.equal(await client.tools.count({ excludeLettaTools: true }), before + 1);
assert.ok((await client.tools.upsertBaseTools()).some((t) => t.name === "run_code"));

const seen = [];
for (let after; ; after = seen.at(-1)) {
  const page = await client.tools.list({ after, limit: 2 });
  if (page.length === 0) break;
  seen.push(...page.map((t) => t.id));
  assert.ok(seen.length < 200, "the list does not end");
}
assert.equal(new Set(seen).size, seen.length);
assert.ok(seen.includes(made.id));

// run from source: nothing is kept
const ran = await client.tools.runToolFromSource({ sourceCode: source("old_try"), args: { a: 21 }, envVars: { GREETING: "good day" } });
assert.deepEqual([ran.status, ran.toolReturn, ran.messageType], ["success", "{'double': 42, 'greeting': 'good day'}", "tool_return_message"]);
const bad = await client.tools.runToolFromSource({ sourceCode: "def boom():\n    '''Fails.'''\n    print('so far')\n    return 1 / 0\n", args: {} });
assert.equal(bad.status, "error");
assert.equal(bad.toolReturn, "Error executing function boom: ZeroDivisionError: division by zero");
assert.deepEqual(bad.stdout, ["so far\n"]);
assert.match(bad.stderr.join("\n"), /ZeroDivisionError/);
assert.ok(!(await client.tools.list({ limit: 100 })).some((t) => t.name === "old_try"));

// agents: the answers have the agent
const agent = await client.agents.create({ name: "old_agent", toolExecEnvironmentVariables: { GREETING: "hi" } });
const state = await client.agents.tools.attach(agent.id, made.id);
assert.deepEqual(state.tools.map((t) => t.name), ["old_double"]);
assert.deepEqual((await client.agents.tools.list(agent.id)).map((t) => t.id), [made.id]);
assert.deepEqual((await client.agents.tools.detach(agent.id, made.id)).tools, []);
assert.ok((await client.agents.list()).some((a) => a.id === agent.id));

// MCP servers
const servers = await client.tools.addMcpServer({
  serverName: "oldgreeter", type: "stdio", command: "python3", args: ["-c", readFileSync(process.env.MCP, "utf8")],
});
assert.ok(servers.some((s) => s.serverName === "oldgreeter"));
assert.ok("oldgreeter" in (await client.tools.listMcpServers()));
const [greet] = await client.tools.listMcpToolsByServer("oldgreeter");
assert.equal(greet.name, "greet");
assert.equal((await client.tools.addMcpTool("oldgreeter", "greet")).toolType, "external_mcp");
assert.ok(!(await client.tools.deleteMcpServer("oldgreeter")).some((s) => s.serverName === "oldgreeter"));

await client.agents.delete(agent.id);
await client.tools.delete(made.id);
await assert.rejects(client.tools.retrieve(made.id), (e) => e.statusCode === 404);
console.log("ok");
