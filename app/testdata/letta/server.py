# An MCP server on its standard streams with one tool, without any package.
import json
import sys

for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "greeter", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "greet", "description": "Greets somebody.", "inputSchema": {
            "type": "object", "properties": {"name": {"type": "string", "description": "whom"}}, "required": ["name"]}}]}
    elif m["method"] == "tools/call":
        name = m["params"]["arguments"]["name"]
        r = {"content": [{"type": "text", "text": "hello " + name}], "isError": name == "nobody"}
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
