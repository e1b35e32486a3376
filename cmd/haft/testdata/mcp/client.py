"""The official Python client of MCP, as an agent uses it: over stdio, or HTTP if the
first argument is an address. It prints what it saw as JSON."""
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

target, rest = sys.argv[1], sys.argv[2:]
saw = {"asked": 0}


async def ask(context, params):
    from mcp.types import ElicitResult
    saw["asked"] += 1
    return ElicitResult(action="accept", content={"approve": True})


def field(o, *names):
    for n in names:
        if hasattr(o, n):
            return getattr(o, n)


async def work(streams):
    async with ClientSession(streams[0], streams[1], elicitation_callback=ask) as s:
        await s.initialize()
        saw["tools"] = [t.name for t in (await s.list_tools()).tools]
        saw["add"] = field(await s.call_tool("add", {"a": 1, "b": 2}), "structured_content", "structuredContent")
        saw["code"] = json.loads((await s.call_tool("run_code_with_tools", {"language": "python", "code": "sum(add(i, 1) for i in range(3))"})).content[0].text)["value"]
        saw["failed"] = field(await s.call_tool("add", {"a": "x", "b": 2}), "is_error", "isError")
        saw["wiped"] = (await s.call_tool("wipe", {})).content[0].text
        try:
            await s.call_tool("nothing", {})
        except Exception as e:
            saw["missing"] = e.error.code


async def main():
    if target.startswith("http"):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + rest[0]}, timeout=60) as http:
            async with streamable_http_client(target, http_client=http) as streams:
                await work(streams)
    else:
        async with stdio_client(StdioServerParameters(command=target, args=rest, env=dict(os.environ))) as streams:
            await work(streams)
    print(json.dumps(saw))


asyncio.run(main())
