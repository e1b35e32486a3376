# Letta's client for Python before 1.0 talks to an agent; see talk.py.
import os

from letta_client import Letta

client = Letta(base_url=os.environ["BASE"], token=os.environ["KEY"])
boss = Letta(base_url=os.environ["BASE"], token=os.environ["BOSS"])


def py_roll_old(a: int) -> int:
    """
    Rolls a die.

    Args:
        a (int): how many sides it has
    """
    return a


def kinds(messages):
    return [m.message_type for m in messages]


tool = client.tools.upsert_from_function(func=py_roll_old, default_requires_approval=True)
agent = client.agents.create(
    name="py_talker_old",
    system="You play dice.",
    model=os.environ["MODEL"],
    memory_blocks=[{"label": "human", "value": "Ann"}],
    tool_ids=[tool.id],
    include_base_tools=False,
)
assert agent.memory.blocks[0].value == "Ann" and agent.llm_config.handle == os.environ["MODEL"], agent
assert client.agents.blocks.modify(agent_id=agent.id, block_label="human", value="Bob").value == "Bob"
assert client.agents.core_memory.retrieve(agent_id=agent.id).blocks[0].value == "Bob"
assert client.blocks.count() >= 1
passage = client.agents.passages.create(agent_id=agent.id, text="Ann likes the number six")[0]
assert client.agents.passages.search(agent_id=agent.id, query="six").count == 1
assert [p.id for p in client.agents.passages.list(agent_id=agent.id)] == [passage.id]

said = client.agents.messages.create(agent_id=agent.id, messages=[{"role": "user", "content": "hi there"}])
assert kinds(said.messages) == ["assistant_message"] and said.messages[0].content == "Hello.", said
asked = client.agents.messages.create(agent_id=agent.id, messages=[{"role": "user", "content": "old roll"}])
assert asked.stop_reason.stop_reason == "requires_approval", asked
request = asked.messages[-1]
assert (request.message_type, request.tool_call.name) == ("approval_request_message", "py_roll_old"), request
done = boss.agents.messages.create_stream(
    agent_id=agent.id, messages=[{"type": "approval", "approve": True, "approval_request_id": request.id}]
)
done = list(done)
assert kinds(done)[:1] == ["tool_return_message"] and done[0].status == "success", done
assert kinds(done)[-3:] == ["assistant_message", "stop_reason", "usage_statistics"], kinds(done)

history = client.agents.messages.list(agent_id=agent.id, limit=100)
assert history[-1].content == "hi there", history
found = client.agents.messages.search(query="there")
assert found[0].message.content[0].text == "hi there", found
assert client.runs.list_active(agent_id=agent.id) == []
assert client.runs.retrieve(run_id=said.usage.run_ids[0]).status == "completed"
client.agents.delete(agent_id=agent.id)
print("ok")
