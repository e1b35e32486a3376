"""A small MCP server for mcp_test.yaml, which answers by a script."""

import json
import sys

TOOLS = [{"name": "find", "description": "Find a customer.", "inputSchema": {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}]

for line in sys.stdin:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    match request.get("method"):
        case "initialize":
            answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                "serverInfo": {"name": "crm", "version": "1"}}
        case "tools/list":
            answer["result"] = {"tools": TOOLS}
        case "tools/call":
            name = request["params"]["arguments"]["name"]
            if name == "crash":
                sys.exit(1)
            text = "there is no such customer" if name == "nobody" else f"{name} is customer 7"
            answer["result"] = {"content": [{"type": "text", "text": text}], "isError": name == "nobody"}
        case _:
            answer["error"] = {"code": -32601, "message": "there is no such method"}
    if "id" in request:
        print(json.dumps(answer), flush=True)
