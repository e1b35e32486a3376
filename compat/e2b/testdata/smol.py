"""An agent of smolagents, with a model that says the same each time, runs its code in a sandbox of Haft."""
from smolagents import CodeAgent, ChatMessage, MessageRole, Model, tool


@tool
def double(n: int) -> int:
    """Doubles a number.

    Args:
        n: The number.
    """
    return n * 2


class Steps(Model):
    """A model that writes one piece of code after the other."""
    code = ["x = double(20)\nprint('x is', x)", "final_answer(x + 2)"]

    def __init__(self):
        super().__init__(model_id="steps")
        self.step = 0

    def generate(self, messages, **named):
        text = "Thought: go on.\n<code>\n%s\n</code>" % self.code[self.step]
        self.step += 1
        return ChatMessage(role=MessageRole.ASSISTANT, content=text)


with CodeAgent(tools=[double], model=Steps(), executor_type="e2b", verbosity_level=0) as agent:
    answer = agent.run("Answer.")
    assert answer == 42, answer
    logs = [s.observations for s in agent.memory.steps if getattr(s, "observations", None)]
    assert "x is 40" in logs[0], logs
print("1 of 1")
