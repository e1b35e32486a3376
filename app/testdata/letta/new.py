# Letta's client for Python from 1.0 on.
import os

import letta_client
from letta_client import Letta

client = Letta(base_url=os.environ["BASE"], api_key=os.environ["KEY"])


def source(name):
    return f'''
def {name}(city: str, days: int = 3) -> list:
    """Tells the weather.

    Args:
        city (str): where
        days (int): how many days
    """
    import os
    return [city + " " + os.environ.get("SKY", "sun")] * days
'''


made = client.tools.create(source_code=source("py_weather"), tags=["sky"])
assert client.tools.upsert(source_code=source("py_weather")).id == made.id
assert client.tools.retrieve(made.id).json_schema["parameters"]["required"] == ["city"]
for n in range(3):
    client.tools.upsert(source_code=source(f"py_{n}"))
names = [t.name for t in client.tools.list(limit=1, search="py_", order="asc")]
assert names == ["py_weather", "py_0", "py_1", "py_2"], names

agent = client.agents.create(name="py_agent", tool_ids=[made.id], tools=["py_0"])
assert sorted(t.name for t in client.agents.tools.list(agent.id)) == ["py_0", "py_weather"]
ran = client.agents.tools.run("py_weather", agent_id=agent.id, args={"city": "Oslo", "days": 2})
assert (ran.status, ran.func_return) == ("success", ["Oslo sun"] * 2), ran
client.agents.tools.detach(client.tools.list(name="py_0").items[0].id, agent_id=agent.id)

# The sandbox configuration has no methods in the client, only addresses.
config = client.post("/v1/sandbox-config/local/default", cast_to=object)
assert config["type"] == "local" and config["id"].startswith("sandbox-"), config
assert [c["id"] for c in client.get("/v1/sandbox-config/", cast_to=object)] == [config["id"]]
path = f"/v1/sandbox-config/{config['id']}/environment-variable"
variable = client.post(path, cast_to=object, body={"key": "SKY", "value": "rainclouds", "description": "today"})
assert variable["key"] == "SKY" and variable["id"].startswith("sandbox-env-"), variable
assert [v["key"] for v in client.get(path, cast_to=object)] == ["SKY"]
ran = client.agents.tools.run("py_weather", agent_id=agent.id, args={"city": "Oslo", "days": 1})
assert ran.status == "success" and ran.func_return != ["Oslo sun"], ran
client.delete(f"/v1/sandbox-config/environment-variable/{variable['id']}", cast_to=type(None))
assert client.get(path, cast_to=object) == []

# MCP servers
with open(os.environ["MCP"]) as f:
    mcp = client.mcp_servers.create(server_name="pygreeter", config={"mcp_server_type": "stdio", "command": "python3", "args": ["-c", f.read()]})
tool = client.mcp_servers.tools.list(mcp.id)[0]
client.agents.tools.attach(tool.id, agent_id=agent.id)
ran = client.agents.tools.run(tool.name, agent_id=agent.id, args={"name": "bob"})
assert (ran.status, ran.func_return) == ("success", "hello bob"), ran
client.mcp_servers.delete(mcp.id)

try:
    Letta(base_url=os.environ["BASE"], api_key="wrong").tools.retrieve(made.id)
    raise SystemExit("a wrong key is let in")
except letta_client.AuthenticationError:
    pass
client.agents.delete(agent.id)
client.tools.delete(made.id)
print("ok")
