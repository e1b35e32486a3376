"""Runs the job by the local sandbox of Letta's server: a new process for each call, without isolation.

Letta asks its database for the variables of a sandbox in each call. Here there are none to ask for, in Letta's favour.
"""
import asyncio
import json
import logging
import sys
import tempfile
import threading

sys.stdout, answers = sys.stderr, sys.stdout  # what libraries print is no answer

from letta.schemas.sandbox_config import LocalSandboxConfig, SandboxConfig
from letta.schemas.tool import Tool
from letta.schemas.user import User
from letta.services.tool_sandbox.local_sandbox import AsyncToolSandboxLocal

logging.disable(logging.CRITICAL)
SOURCE = '''def add(a: int, b: int) -> int:
    """Add.

    Args:
        a (int): One.
        b (int): The other.
    """
    return a + b
'''


class NoVariables:
    async def get_sandbox_env_vars_as_dict_async(self, **_):
        return {}


async def call(number, user, tool, config):
    try:
        sandbox = AsyncToolSandboxLocal("add", {"a": 19, "b": 23}, user, tool_id=tool.id, tool_object=tool,
                                        sandbox_config=config)
        sandbox._sandbox_config_manager = NoVariables()
        result = await sandbox.run()
        out = {"id": number, "value": str(result.func_return), "error": str(result.stderr or "")}
    except Exception as e:  # the caller hears it
        out = {"id": number, "error": repr(e)}
    print(json.dumps(out), file=answers, flush=True)


async def main():
    user = User(name="bench", organization_id="org-00000000-0000-4000-8000-000000000000")
    schema = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"},
                                                                             "b": {"type": "integer"}}}}
    tool = Tool(name="add", source_code=SOURCE, source_type="python", json_schema=schema)
    local = LocalSandboxConfig(sandbox_dir=tempfile.mkdtemp(dir="."), use_venv=False)
    config = SandboxConfig(type="local", config=local.model_dump(), organization_id=user.organization_id)
    loop, lines, tasks = asyncio.get_running_loop(), asyncio.Queue(), set()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, int(line))
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (number := await lines.get()) is not None:
        task = asyncio.create_task(call(number, user, tool, config))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
