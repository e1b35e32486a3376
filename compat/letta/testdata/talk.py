# Letta's client for Python from 1.0 on talks to an agent. The model must answer as the script of the test says:
# "roll" asks for the tool py_roll, for which a person has to agree, and then says "You rolled 6.", with
# the reasoning "hm"; everything else is answered "Hello.". BOSS is the key of somebody who may agree.
import os

import letta_client
from letta_client import Letta
from letta_client.types import agents

client = Letta(base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0)
boss = Letta(base_url=os.environ["BASE"], api_key=os.environ["BOSS"], max_retries=0)

SOURCE = '''
def py_roll(a: int) -> int:
    """Rolls a die.

    Args:
        a (int): how many sides it has
    """
    return a
'''


def kinds(messages):
    return [m.message_type for m in messages]


def heard(stream):  # what a stream says besides that it is there
    return [m for m in stream if m.message_type != "ping"]


tool = client.tools.upsert(source_code=SOURCE, default_requires_approval=True)
shared = client.blocks.create(label="py_rules", value="Be fair.", limit=1000)
agent = client.agents.create(
    name="py_talker",
    description="Plays.",
    system="You play dice.",
    model=os.environ["MODEL"],
    tags=["py", "game"],
    memory_blocks=[{"label": "human", "value": "Ann", "description": "who plays"}],
    block_ids=[shared.id],
    tool_ids=[tool.id],
    include_base_tools=False,
)
assert agent.system == "You play dice." and agent.model == os.environ["MODEL"], agent
assert sorted(b.label for b in agent.blocks) == ["human", "py_rules"], agent.blocks
assert sorted(b.label for b in agent.memory.blocks) == ["human", "py_rules"], agent.memory
assert [a.id for a in client.agents.list(tags=["py", "game"], match_all_tags=True)] == [agent.id]
assert client.agents.retrieve(agent.id).tags == ["py", "game"]

# Blocks.
assert client.agents.blocks.retrieve("human", agent_id=agent.id).value == "Ann"
assert client.agents.blocks.update("human", agent_id=agent.id, value="Bob").value == "Bob"
assert [b.label for b in client.agents.blocks.list(agent.id, order="asc")] == ["py_rules", "human"]
client.agents.blocks.detach(shared.id, agent_id=agent.id)
assert [b.label for b in client.agents.blocks.attach(shared.id, agent_id=agent.id).blocks].count("py_rules") == 1
assert [a.id for a in client.blocks.agents.list(shared.id)] == [agent.id]
assert client.blocks.update(shared.id, value="Be very fair.").value == "Be very fair."
assert shared.id in [b.id for b in client.blocks.list(label="py_rules", limit=1)]

# The archive.
passage = client.agents.passages.create(agent.id, text="Ann likes the number six", tags=["taste"])[0]
found = client.agents.passages.search(agent.id, query="number", tags=["taste"])
assert (found.count, found.results[0].content) == (1, "Ann likes the number six"), found
assert [p.id for p in client.agents.passages.list(agent.id)] == [passage.id]
client.agents.passages.delete(passage.id, agent_id=agent.id)

# A message, a call that waits for a person, and the answer.
said = client.agents.messages.create(agent.id, input="hi there")
assert (said.stop_reason.stop_reason, said.messages[-1].content) == ("end_turn", "Hello."), said
assert said.usage.step_count == 1 and said.usage.run_ids, said.usage
asked = client.agents.messages.create(agent.id, messages=[{"role": "user", "content": "please roll"}], max_steps=5)
assert asked.stop_reason.stop_reason == "requires_approval", asked
request = asked.messages[-1]
assert isinstance(request, agents.ApprovalRequestMessage) and request.tool_call.name == "py_roll", asked
try:
    client.agents.messages.create(agent.id, input="hello?")
    raise AssertionError("a second message while a call waits")
except letta_client.ConflictError:
    pass
call = request.tool_calls[0].tool_call_id
answer = {"type": "approval", "approvals": [{"type": "approval", "tool_call_id": call, "approve": True}]}
done = boss.agents.messages.create(agent.id, messages=[answer])
assert kinds(done.messages) == ["tool_return_message", "reasoning_message", "assistant_message"], done
assert (done.messages[0].status, done.messages[0].tool_call_id) == ("success", call), done
assert (done.messages[-1].content, done.stop_reason.stop_reason) == ("You rolled 6.", "end_turn"), done

# The same as a stream, refused.
stream = heard(client.agents.messages.stream(agent.id, input="roll again", include_pings=True, background=True))
assert kinds(stream) == ["approval_request_message", "stop_reason", "usage_statistics"], kinds(stream)
answer["approvals"] = [
    {"type": "approval", "tool_call_id": stream[0].tool_calls[0].tool_call_id, "approve": False, "reason": "no"}
]
stream = heard(boss.agents.messages.create(agent.id, messages=[answer], streaming=True, stream_tokens=True))
assert kinds(stream)[0] == "tool_return_message" and stream[0].status == "error", stream
assert kinds(stream)[-3:] == ["assistant_message", "stop_reason", "usage_statistics"], kinds(stream)

# History and runs.
history = [m for m in client.agents.messages.list(agent.id, limit=2, order="asc")]
assert history[0].content == "hi there" and history[1].content == "Hello.", history
assert kinds(history).count("tool_return_message") == 2, kinds(history)
assert "hi there" in [m.content for m in client.messages.search(query="there", agent_id=agent.id)]
runs = list(client.runs.list(agent_id=agent.id, limit=1))
assert [r.status for r in runs] == ["completed"] * 3 and runs[-1].id == said.usage.run_ids[0], runs
assert client.runs.retrieve(runs[0].id).agent_id == agent.id
assert client.runs.usage.retrieve(runs[-1].id).total_tokens == said.usage.total_tokens
assert kinds(client.runs.messages.list(runs[-1].id)) == ["user_message", "assistant_message"]
assert len(list(client.runs.steps.list(runs[-1].id))) == 1

# A run is cancelled while it waits.
waiting = client.agents.messages.create(agent.id, input="roll").usage.run_ids[0]
assert client.agents.messages.cancel(agent.id) == {waiting: "cancelled"}
assert client.runs.retrieve(waiting).status == "cancelled"
later = client.agents.messages.create_async(agent.id, input="hi")
assert later.id.startswith("run-") and later.agent_id == agent.id, later

# Files.
af = {
    "agents": [{"id": "agent-0", "name": "py_file", "system": "Hm.", "block_ids": ["block-0"], "tool_ids": ["tool-0"]}],
    "blocks": [{"id": "block-0", "label": "human", "value": "Eve"}],
    "tools": [{"id": "tool-0", "name": "py_roll", "tool_type": "custom", "source_code": SOURCE}],
}
import json

made = client.agents.import_file(file=("a.af", json.dumps(af).encode()), append_copy_suffix=False)
assert client.agents.retrieve(made.agent_ids[0]).blocks[0].value == "Eve"
file = client.agents.export_file(agent.id)
file = file if isinstance(file, str) else json.dumps(file)
copy = client.agents.import_file(file=("b.af", file.encode()), append_copy_suffix=True).agent_ids[0]
copied = client.agents.retrieve(copy)
assert (copied.name, copied.system, [t.id for t in copied.tools]) == ("py_talker_copy", "You play dice.", [tool.id]), copied
client.agents.delete(copy)

client.agents.update(agent.id, system="Other.", tags=[])
client.agents.delete(made.agent_ids[0])
client.agents.delete(agent.id)
client.blocks.delete(shared.id)
print("ok")
