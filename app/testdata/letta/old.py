# Letta's client for Python before 1.0, which makes tools of functions.
import os

from letta_client import Letta

client = Letta(base_url=os.environ["BASE"], token=os.environ["KEY"])


def python_roll(sides: int) -> str:
    """
    Rolls a die that always shows its highest side.

    Args:
        sides (int): how many sides it has

    Returns:
        str: what it shows
    """
    return f"{sides} of {sides}"


made = client.tools.upsert_from_function(func=python_roll)
assert made.name == "python_roll", made
assert client.tools.create_from_function(func=python_roll).id == made.id
ran = client.tools.run_tool_from_source(source_code=made.source_code, args={"sides": 6}, name="python_roll")
assert (ran.status, ran.tool_return) == ("success", "6 of 6"), ran
agent = client.agents.create(name="python_old", tool_ids=[made.id], tool_exec_environment_variables={"A": "some value"})
assert [t.name for t in agent.tools] == ["python_roll"], agent
assert [v.key for v in agent.tool_exec_environment_variables] == ["A"], agent
state = client.agents.tools.detach(agent_id=agent.id, tool_id=made.id)
assert state.tools == [], state
client.agents.delete(agent.id)
client.tools.delete(made.id)
assert not client.tools.list(name="python_roll")
print("ok")
